"""SEE-3: what a box did in its scenarios, recorded and shown with a slider for its time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from purekube_run.process.command_line import CommandError
from tests.support.box_site import EXAMPLES
from tests.support.browser import browser, missing, resize, until, violations
from tests.support.page_site import get
from tests.support.page_text import elements
from tests.support.patience import PATIENCE
from vworkspace_app.commands.box.test import BoxTestRequest, try_box
from vworkspace_app.commands.trace import trace_in
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.page.drawing import TracePage
from vworkspace_app.page.site import Site


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.trace"
    text, held = try_box(BoxTestRequest(str(EXAMPLES / "webapp.yaml"), examples=0, trace=path))
    assert held
    assert f"vworkspace-operator trace {path} --open" in text
    return path


@contextmanager
def served(path: Path) -> Iterator[str]:
    site = Site(TracePage(trace_in(path)), "trace")
    with serving_in_thread(Starlette(routes=site.routes()), "127.0.0.1:0") as url:
        yield url


def graph(html: str) -> str:
    (found,) = [element.text for element in elements(html) if element.attributes.get("id") == "graph"]
    return found


@pytest.mark.slow
def test_each_moment_shows_how_everything_stood_then_SEE_3(file: Path) -> None:
    trace = trace_in(file)
    assert len(trace.moments) > 10
    told = [line for moment in trace.moments for line in moment.told]
    assert {"apply Deployment default/shop", "apply Service default/shop-svc"} <= set(told)
    number = next(
        at for at, moment in enumerate(trace.moments) if any(node.state == "Held" for node in moment.object_graph.nodes)
    )
    with served(file) as url:
        assert "this page shows one recorded run, to everyone" in get(url, "/").text
        assert "Held" in graph(get(url, f"/?at={number}").text)
        assert [get(url, path).status for path in ("/?at=x", "/?at=99999", "/?at=-1", "/elsewhere")] == [
            200,
            200,
            200,
            404,
        ]


@pytest.mark.slow
def test_what_is_no_trace_is_refused_with_what_to_do_SEE_3(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("hello\n", encoding="utf-8")
    for name, told in (("other", "is no trace: line 1"), ("absent", "cannot be read")):
        with pytest.raises(CommandError, match=told):
            trace_in(tmp_path / name)
    box = str(EXAMPLES / "webapp.yaml")
    with pytest.raises(CommandError, match="cannot be written"):
        try_box(BoxTestRequest(box, examples=0, trace=tmp_path / "absent" / "x"))


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_slider_goes_through_time_without_a_reload_SEE_3(file: Path, request: pytest.FixtureRequest) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    last = len(trace_in(file).moments)

    def says(window: Any, text: str) -> bool:
        return text in str(window.find_element(By.ID, "moment").text)

    with served(file) as url, browser() as window:
        window.set_script_timeout(PATIENCE)
        window.get(url)
        window.execute_script("window.unloaded = false")
        assert violations(window) == []
        if request.config.getoption("--screenshots"):
            resize(window, 1100, 700)
            window.get(f"{url}/?at=3")
            window.save_screenshot(str(Path(__file__).parents[2] / "docs" / "screenshots" / "trace.png"))
            window.get(url)
            window.execute_script("window.unloaded = false")
        slider = window.find_element(By.NAME, "at")
        slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        until(lambda: says(window, f"Moment 3 of {last}"), f"Moment 3 of {last}")
        assert window.current_url.endswith("?at=2"), "the address is that of the moment"
        slider.send_keys(Keys.END)
        until(lambda: says(window, f"Moment {last} of {last}"), f"Moment {last} of {last}")
        window.find_element(By.ID, "slider")
        assert window.execute_script("return window.unloaded") is False
        window.find_element(By.LINK_TEXT, "Before").click()
        until(lambda: says(window, f"Moment {last - 1} of {last}"), f"Moment {last - 1} of {last}")
