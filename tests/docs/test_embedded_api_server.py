"""The page about the embedded API server: its example runs as it is written, and its switches exist."""

import inspect
import re
from pathlib import Path

import pytest

import kubelab
from kubelab.http.serving import serve_forever
from kubelab.server import ApiServer

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "embedded-api-server.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_each_example_runs_as_it_is_written(example: str) -> None:
    exec(compile(example, "docs/embedded-api-server.md", "exec"), {})


def test_the_example_of_the_fixture_runs_as_it_is_written(pytester: pytest.Pytester) -> None:
    (example,) = re.findall(r"```python pytest\n(.*?)```", PAGE, re.DOTALL)
    path = "examples/boxes/webapp-crd.yaml"
    pytester.mkpydir("examples").joinpath("boxes").mkdir()
    pytester.path.joinpath(path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    pytester.makepyfile(example)

    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=1)


def test_the_page_names_each_option_and_each_simulated_controller() -> None:
    options = set(inspect.signature(kubelab.serve).parameters)
    assert options | set(kubelab.SIMULATORS) <= set(re.findall(r"`(\w+)`", PAGE))


@pytest.mark.parametrize(("called", "name"), re.findall(r"`(ApiServer|serve_forever)\((\w+)=", PAGE))
def test_every_switch_exists(called: str, name: str) -> None:
    assert name in inspect.signature(ApiServer if called == "ApiServer" else serve_forever).parameters
