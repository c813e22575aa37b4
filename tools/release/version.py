"""The version of a release: its tag, and the files that must agree with it."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tools.release.errors import ReleaseError
from tools.release.notes import notes

PROJECTS: Final = ("core", "adapters/fake", "contrib", "kit", ".")
"""The folder of each distribution."""
CODE: Final = Path("app/vworkspace_app/__init__.py")
CHART: Final = Path("deploy/chart")
BILL: Final = Path("deploy/image/sbom.cdx.json")
_TAG: Final = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_CODE_VERSION: Final = re.compile(r'^VERSION: Final = "(.*)"$', re.MULTILINE)
_OURS: Final = re.compile(r"(?:purekube|kubelab|vworkspace)[\w-]*(?:\[[\w,]+\])?==(.+)")


def version_of(tag: str) -> str:
    """Return the version that a tag names: three numbers, which Python and Helm read alike. Raises ReleaseError."""
    if not _TAG.fullmatch(tag):
        raise ReleaseError(f"tag {tag}: not v and three numbers, such as v1.2.3")
    return tag.removeprefix("v")


def current_tag(root: Path) -> str:
    """Return the tag that the version in pyproject.toml asks for."""
    return f"v{_project(root / 'pyproject.toml')['version']}"


def check(root: Path, tag: str, *, rehearsal: bool = False) -> None:
    """Raise ReleaseError with a line for each disagreement with the tag; a rehearsal accepts unreleased notes."""
    version = version_of(tag)
    lines = [f"{place}: {found}, but the tag is {tag}" for place, found in _versions(root) if found != version]
    try:
        notes(root, version, rehearsal=rehearsal)
    except ReleaseError as error:
        lines.append(str(error))
    if f"\n## To {version}\n" not in (root / "docs/upgrade.md").read_text(encoding="utf-8"):
        lines.append(f"docs/upgrade.md: no section '## To {version}'")
    if lines:
        raise ReleaseError("\n".join(lines))


def _versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every place that names the version, and what it says."""
    for folder in PROJECTS:
        path = Path(folder, "pyproject.toml")
        project = _project(root / path)
        yield f"{path}: version", str(project["version"])
        extras = project.get("optional-dependencies", {}).values()
        for line in [*project.get("dependencies", ()), *(line for extra in extras for line in extra)]:
            if pinned := _OURS.fullmatch(line):
                yield f"{path}: {line}", pinned[1]
    yield from ((f"{CODE}: VERSION", found) for found in _CODE_VERSION.findall((root / CODE).read_text("utf-8")))
    chart = yaml.safe_load((root / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    yield from ((f"{CHART / 'Chart.yaml'}: {key}", str(chart[key])) for key in ("version", "appVersion"))
    bill = json.loads((root / BILL).read_text(encoding="utf-8"))
    yield f"{BILL}: version", str(bill["metadata"]["component"]["version"])


def _project(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return project
