"""The site of `make docs-site`: what is laid out for the generator, which is strict about it.

The build itself is `make docs-site`, a step of `.ci/run`, in an environment of its own.
"""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, links
from tools.docs_site import INDEX, check, fetched, navigation, page_text, pages, staged
from tools.site_pages import main as write_site_pages


def test_the_navigation_is_the_index_by_task() -> None:
    sections = navigation(ROOT)
    titles = [title for section in sections for title in section]
    assert titles[:4] == ["Home", "Try it", "Install it", "Run a first application"]
    named = [path for section in sections[1:] for entry in next(iter(section.values())) for path in entry.values()]
    assert len(named) == len(set(named)) >= 25
    assert {ROOT / path for path in named} == {
        path
        for path, _ in links(ROOT / INDEX)
        if path.suffix == ".md" and path != ROOT / "README.md" and path.name != "proofs.md"
    }


@pytest.mark.slow
def test_every_page_is_laid_out_and_every_link_of_it_leads_to_what_is_there(tmp_path: Path) -> None:
    generated, laid_out = tmp_path / "generated", tmp_path / "laid-out"
    write_site_pages(generated)
    staged(ROOT, laid_out, generated)
    assert "## By number" in (laid_out / "docs/decisions/README.md").read_text(encoding="utf-8")
    for page in pages(ROOT):
        dead = [str(path) for path, _ in links(laid_out / page) if not path.is_file()]
        assert dead == [], page


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("[deploy](../deploy) and [a](b.md#c)", "deploy and [a](b.md#c)"),
        ("[decisions](decisions)", "[decisions](decisions/README.md)"),
        ("[`x.py`](../core/x.py)", "`x.py`"),
        ("[site](https://example.com)", "[site](https://example.com)"),
        ("text\n* one\n* two", "text\n\n* one\n* two"),
        ("```yaml shop.yaml\n[x](y)\n```", '```yaml title="shop.yaml"\n[x](y)\n```'),
        ("```sh begin\nls\n```", "```sh\nls\n```"),
    ],
)
def test_what_the_site_does_not_have_is_named_and_not_linked(tmp_path: Path, written: str, read: str) -> None:
    for folder in ("docs/decisions", "examples", "deploy", "core"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("docs/b.md", "docs/decisions/README.md", "core/x.py"):
        (tmp_path / file).write_text("# c\n", encoding="utf-8")
    (tmp_path / "docs" / "a.md").write_text(written, encoding="utf-8")
    assert page_text(tmp_path, Path("docs/a.md")) == read


def test_a_page_that_fetches_from_elsewhere_fails_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = '<a href="https://example.com">x</a><script src="a.js"></script>'
    (tmp_path / "a.html").write_text(own, encoding="utf-8")
    assert check(tmp_path) == 0
    (tmp_path / "b.html").write_text('<link rel="stylesheet" href="https://fonts.example.com/a.css">', encoding="utf-8")
    assert check(tmp_path) == 1
    assert "b.html fetches https://fonts.example.com/a.css" in capsys.readouterr().out
    assert fetched('<img src="//cdn.example.com/a.svg">') == ["//cdn.example.com/a.svg"]


def test_it_is_built_before_a_change_lands() -> None:
    assert "make docs-site" in (ROOT / ".ci/run").read_text(encoding="utf-8")
