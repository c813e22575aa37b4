"""The notes of a release, cut from CHANGELOG.md."""

import re
from pathlib import Path
from typing import Final

from tools.release.errors import ReleaseError

LONGEST: Final = 125_000
"""The number of characters that the page of a release holds."""
_HEADING: Final = re.compile(r"^## \[?([^\]\s]+)\]?(?: - \d{4}-\d{2}-\d{2})?$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


def notes(root: Path, version: str, *, rehearsal: bool = False) -> str:
    """Return the section of a version, or in a rehearsal the unreleased one. Raises ReleaseError."""
    sections = _sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    name = "Unreleased" if rehearsal and version not in sections else version
    if name not in sections:
        raise ReleaseError(f"CHANGELOG.md: no section '## {version}'")
    if not sections[name]:
        raise ReleaseError(f"CHANGELOG.md: the section '## {name}' is empty")
    if len(sections[name]) > LONGEST:
        raise ReleaseError(f"CHANGELOG.md: the section '## {name}' has {len(sections[name])} characters, of {LONGEST}")
    return sections[name]


def with_links(text: str, version: str, repository: str) -> str:
    """Return notes whose links lead to the files of the tag: they are read outside the repository."""
    return _LINK.sub(lambda link: f"](https://github.com/{repository}/blob/v{version}/{link[1]})", text)


def _sections(changelog: str) -> dict[str, str]:
    """Return the text of each section by its version."""
    _, *parts = _HEADING.split(changelog)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
