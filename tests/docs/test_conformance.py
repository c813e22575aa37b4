"""docs/conformance.md does what it says: its commands run as written, and show what the page shows (CONF-1)."""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("name", ["operator", "kopf", "box"])
def test_each_example_runs_and_shows_what_the_page_shows(page: Tutorial, name: str) -> None:
    shown = page.shell(page.block("sh", name))

    for line in page.block("console", name).splitlines():
        assert line in shown
