"""The page about the embedded API server: its example runs as it is written, and its switches exist."""

import inspect
import re
from pathlib import Path

import pytest

from kubelab.http.serving import serve
from kubelab.server import ApiServer

PAGE = (Path(__file__).parents[2] / "docs" / "embedded-api-server.md").read_text(encoding="utf-8")


def test_the_example_runs_as_it_is_written() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

    exec(compile(example, "docs/embedded-api-server.md", "exec"), {})


@pytest.mark.parametrize(("called", "name"), re.findall(r"`(ApiServer|serve)\((\w+)=", PAGE))
def test_every_switch_exists(called: str, name: str) -> None:
    assert name in inspect.signature(ApiServer if called == "ApiServer" else serve).parameters
