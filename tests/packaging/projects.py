"""The projects of this repository: each with a `pyproject.toml`, its import packages, and what it requires."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("core", "adapters/fake", "contrib", "kit", ".")
"""Each project's folder, those that others require first, as the Makefile installs them."""
OPERATOR: Final = "vworkspace-operator"


@attrs.frozen
class Project:
    """One distribution; `packages` are folders below the root of the repository."""

    folder: str
    metadata: dict[str, Any]
    packages: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.metadata["name"])

    @property
    def base(self) -> list[str]:
        """The requirements without extras."""
        return list(self.metadata["dependencies"])

    @property
    def extras(self) -> dict[str, list[str]]:
        """The requirements of each extra."""
        return dict(self.metadata.get("optional-dependencies", {}))

    def required(self, *extras: str) -> list[str]:
        """The requirements with these extras, without those of our own projects, whose requirements are added."""
        lines = [*self.base, *(line for extra in extras for line in self.extras[extra])]
        return list(_without_ours(lines))


def _without_ours(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        name, further = parts_of(line)
        if name in projects():
            yield from projects()[name].required(*further)
        else:
            yield line


def parts_of(line: str) -> tuple[str, tuple[str, ...]]:
    """The distribution and the extras that a requirement names."""
    match = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?.*", line)
    assert match is not None, line
    return match[1], tuple((match[2] or "").split(",")) if match[2] else ()


def ours_below(name: str, *extras: str) -> set[str]:
    """The import packages of ours that an installation of a project has."""
    project = projects()[name]
    lines = [*project.base, *(line for extra in extras for line in project.extras[extra])]
    lower = (parts_of(line) for line in lines)
    return {path.name for path in project.packages}.union(
        *(ours_below(below, *further) for below, further in lower if below in projects() and below != name)
    )


@cache
def projects() -> dict[str, Project]:
    """Every project, by name."""
    return {project.name: project for project in map(_read, FOLDERS)}


def _read(folder: str) -> Project:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)
    wheel = table["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = [Path(folder) / path for path in wheel["packages"]]
    if "hooks" in wheel:
        hook = (ROOT / folder / "hatch_build.py").read_text(encoding="utf-8")
        packages += [Path(path) for path in re.findall(r'"\.\./([\w/]+)":', hook)]
    return Project(folder, table["project"], tuple(packages))


PACKAGES: Final = [package for project in projects().values() for package in project.packages]
"""Every import package of ours, as a folder below the root of the repository."""
