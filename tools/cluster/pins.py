"""The versions of the real programs: one small Go module per tool, a `go.mod` with its `tool` lines."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

FOLDER: Final = Path(__file__).resolve().parent
FLAGS: Final = ("-trimpath", "-buildvcs=false")
_BLOCK: Final = re.compile(r"^tool (?:\(\n(.*?)^\)|(\S+)$)", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Program:
    """One executable and the package that it is built from."""

    name: str
    package: str


@attrs.frozen
class Pin:
    """One Go module of ours: its folder, its programs, and the version of the module that has their packages."""

    folder: Path
    programs: tuple[Program, ...]
    module: str
    version: str

    @property
    def linker_flags(self) -> str:
        """Return the linker's flags; Kubernetes' programs get their version from them."""
        if self.module != "k8s.io/kubernetes":
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".")
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        return " ".join(
            ["-s -w", *(f"-X {place}.{key}={value}" for place in packages for key, value in values.items())]
        )


def read_pin(folder: Path) -> Pin:
    """Return the pin in a folder with a `go.mod`. Raises ValueError if it has no tool, or not the tool's module."""
    text = (folder / "go.mod").read_text(encoding="utf-8")
    packages = [package for block, single in _BLOCK.findall(text) for package in (block.split() or [single])]
    if not packages:
        raise ValueError(f"{folder / 'go.mod'} has no tool line")
    module, version = next(
        found
        for found in sorted(_requirements(text), key=lambda item: -len(item[0]))
        if packages[0].startswith(found[0])
    )
    names = [folder.name] if len(packages) == 1 else [package.rpartition("/")[2] for package in packages]
    programs = tuple(Program(name, package) for name, package in zip(names, packages, strict=True))
    return Pin(folder, programs, module, version)


def _requirements(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^(?:require )?\t?(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)


def read_pins(folder: Path = FOLDER) -> dict[str, Pin]:
    """Return every pin by the name of its folder."""
    return {path.parent.name: read_pin(path.parent) for path in sorted(folder.glob("*/go.mod"))}


def hash_of(*pins: Pin) -> str:
    """Return a hash of everything that determines the build."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for pin in sorted(pins, key=lambda pin: pin.folder):
        digest.update(pin.linker_flags.encode())
        for file in ("go.mod", "go.sum"):
            digest.update((pin.folder / file).read_bytes())
    return digest.hexdigest()[:16]
