"""The pages for `make docs-site`: `python -m tools.docs_site FOLDER`, then mkdocs builds FOLDER/mkdocs.yml.

FOLDER/pages has the pages that tools/site_pages.py has generated; they replace the committed ones of the same name.

With `--check` it reports afterwards whether a page fetches anything from another site.

Pages have the same paths as in the repository, so that their links work. Files that are not on the site (sources,
tests) are named instead of linked. The navigation is the index of docs/README.md.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
INDEX: Final = Path("docs/README.md")
_WHOLE: Final = ("docs", "examples")
"""The folders that are copied to the site with every file."""
_PLACES: Final = (*_WHOLE, "deploy", "adapters", "core", "kit", "contrib")
"""The folders whose pages are on the site."""
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_ENTRY: Final = re.compile(r"^\* \[([^\]]+)\]\(([^)#]+)(#[^)]*)?\)", re.MULTILINE)
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_FENCE: Final = re.compile(r"\A```(\w+) (\S.*)$", re.MULTILINE)
_ITEM: Final = re.compile(r"(?:[*-]|\d+\.) ")


def pages(root: Path) -> Iterator[Path]:
    """Yield the path of every page of the site, relative to the repository."""
    yield from sorted(path.relative_to(root) for path in root.glob("*.md"))
    for place in _PLACES:
        yield from sorted(path.relative_to(root) for path in (root / place).rglob("*.md"))


def staged(root: Path, into: Path, generated: Path | None = None) -> None:
    """Copy the pages, and the files that they link or show; pages below `generated` replace those of the same name."""
    for place in _WHOLE:
        shutil.copytree(root / place, into / place, dirs_exist_ok=True)
    for page in pages(root):
        (into / page).parent.mkdir(parents=True, exist_ok=True)
        (into / page).write_text(page_text(root, page, generated), encoding="utf-8")
    shutil.copy(root / "LICENSE", into / "LICENSE")


def page_text(root: Path, page: Path, generated: Path | None = None) -> str:
    """Return a page as mkdocs reads it, taken from `generated` if it exists there."""
    file = generated / page if generated is not None and (generated / page).is_file() else root / page
    there = {str(each) for each in pages(root)}

    def link(match: re.Match[str]) -> str:
        object_graph, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match.group()
        desired = (root / page.parent / path).resolve().relative_to(root)
        if desired.suffix == "" and str(desired / "README.md") in there:
            path = f"{path.rstrip('/')}/README.md"
            return f"{object_graph}[{text}]({path}{f'#{anchor}' if anchor else ''})"
        is_there = str(desired) in there or str(desired) == "LICENSE"
        is_file = (root / desired).is_file() and desired.parts[0] in _WHOLE
        return match.group() if is_there or is_file else text

    return "".join(
        _FENCE.sub(_titled, part, count=1) if part.startswith("```") else _spaced(_LINK.sub(link, part))
        for part in _FENCED.split(file.read_text(encoding="utf-8"))
    )


def _titled(match: re.Match[str]) -> str:
    """Turn the word after a code block's language into its title.

    It is a file, or a test's name for the block; mkdocs knows only titles.
    """
    language, name = match.groups()
    return f'```{language} title="{name}"' if "." in name else f"```{language}"


def _spaced(text: str) -> str:
    """Return the text with an empty line before each list: mkdocs' Markdown starts no list within a paragraph."""
    lines = text.split("\n")
    spaced: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if _ITEM.match(line) and before.strip() and not _ITEM.match(before) and not before.startswith((" ", "#")):
            spaced.append("")
        spaced.append(line)
    return "\n".join(spaced)


def navigation(root: Path) -> list[dict[str, Any]]:
    """Return the navigation of the site: by task, as in the index."""
    text = (root / INDEX).read_text(encoding="utf-8")
    sections: list[dict[str, Any]] = [{"Home": ["README.md", str(INDEX)]}]
    seen = {"README.md"}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        entries: list[Any] = []
        for name, target, _anchor in _ENTRY.findall(body):
            path = str((root / INDEX.parent / target).resolve().relative_to(root))
            if path.endswith(".md") and path not in seen and (root / path).exists():
                seen.add(path)
                entries.append({_title(root / path, name): path})
        if entries:
            sections.append({title.strip(): entries})
    return sections


def _title(page: Path, name: str) -> str:
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].replace("`", "") if heading else name


_FETCHED: Final = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel=["']?canonical))\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def fetched(page: str) -> list[str]:
    """Return what a page of the site would fetch from other sites when it is opened."""
    return _FETCHED.findall(page)


def check(folder: Path) -> int:
    """Print what the built pages fetch from other sites; return the exit status, 1 if there is anything."""
    found = [
        f"{page.relative_to(folder)} fetches {url}"
        for page in sorted(folder.rglob("*.html"))
        for url in fetched(page.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or f"{len(list(folder.rglob('*.html')))} pages; none fetches anything from elsewhere")
    return 1 if found else 0


def main(folder: Path) -> None:
    """Copy everything below `folder`, and write the configuration for mkdocs."""
    source = folder / "source"
    for former in (source, folder / "html"):
        shutil.rmtree(former, ignore_errors=True)
    source.mkdir(parents=True)
    staged(ROOT, source, folder / "pages")
    config = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": str(source),
        "site_dir": str(folder / "html"),
        "nav": navigation(ROOT),
    }
    (folder / "mkdocs.yml").write_text(json.dumps(config, indent=1), encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    main(place) if sys.argv[2:] != ["--check"] else sys.exit(check(place / "html"))
