"""docs/conformance.md does what it says: its commands run as written, and show what the page shows (CONF-1)."""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial
from tools.cluster.build import build, is_built
from tools.cluster.pins import read_pins

pytestmark = pytest.mark.slow

GO = read_pins()["controller-runtime"]
FILES = (("yaml", "crd.yaml"), ("yaml", "greeting.yaml"), ("yaml", "edited.yaml"), ("python", "greetings.py"))


@pytest.fixture
def page(tmp_path: Path) -> Tutorial:
    """The page, followed in a folder of its own, with its files and the box of the examples."""
    tutorial = Tutorial(ROOT / "docs" / "conformance.md", tmp_path)
    for language, name in FILES:
        (tmp_path / name).write_text(tutorial.block(language, name), encoding="utf-8")
    for name in ("webapp.yaml", "webapp-crd.yaml"):
        (tmp_path / name).write_text((ROOT / "examples" / "boxes" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "shop.yaml").write_text(tutorial.block("yaml", "shop.yaml"), encoding="utf-8")
    return tutorial


def shows(page: Tutorial, name: str) -> None:
    shown = page.shell(page.block("sh", name))

    for line in page.block("console", name).splitlines():
        assert line in shown


@pytest.mark.parametrize("name", ["operator", "kopf", "box"])
def test_each_example_runs_and_shows_what_the_page_shows(page: Tutorial, name: str) -> None:
    shows(page, name)


@pytest.mark.skipif(not is_built([GO]), reason="not built: python -m tools.cluster build --with controller-runtime")
def test_the_example_in_go_runs_and_shows_what_the_page_shows(page: Tutorial, tmp_path: Path) -> None:
    (tmp_path / "controller-runtime").symlink_to(build([GO], print) / "controller-runtime")
    shows(page, "controller-runtime")
