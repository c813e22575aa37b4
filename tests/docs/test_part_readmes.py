"""The README of each distribution: one page for strangers, whose code runs as it is written."""

import importlib.util
import re

import pytest

from tests.docs.markdown import ROOT

pytest_plugins = ["pytester"]

FOLDERS = ("adapters/fake", "core", "kit", "contrib")
PAGES = {folder: (ROOT / folder / "README.md").read_text(encoding="utf-8") for folder in FOLDERS}
SCRIPTS = [
    pytest.param(code, id=f"{folder}-{number}")
    for folder, page in PAGES.items()
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
]
TESTS = [
    pytest.param(name, code, id=name)
    for page in PAGES.values()
    for name, code in re.findall(r"^```python (test_\w+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_readme_is_one_page(folder: str) -> None:
    page = PAGES[folder]
    assert 20 <= len(page.splitlines()) <= 140
    assert not re.search(r"odoo|ApplicationInstance", page, re.IGNORECASE)


@pytest.mark.parametrize("code", SCRIPTS)
def test_an_example_runs_as_it_is_written(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {"__name__": "example"})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), TESTS)
def test_an_example_for_pytest_passes_as_it_is_written(name: str, code: str, pytester: pytest.Pytester) -> None:
    for client in ("kopf", "lightkube", "kubernetes"):
        if re.search(rf"^(?:from|import) {client}\b", code, re.MULTILINE) and importlib.util.find_spec(client) is None:
            pytest.skip(f"{client} is not installed: it is in the dependency group `tests`")
    pytester.path.joinpath(name).write_text(code, encoding="utf-8")

    result = pytester.runpytest_subprocess("-q", timeout=120)

    assert result.ret == 0
    result.assert_outcomes(passed=len(re.findall(r"^def test_", code, re.MULTILINE)))
