"""The versions of the real programs: one small Go module per tool, a `go.mod` with its `tool` lines or a `main.go`.

A folder whose name ends in a version, such as `kubernetes-1.34`, has an older version of that tool, for `--oldest`.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

FOLDER: Final = Path(__file__).resolve().parent
FLAGS: Final = ("-trimpath", "-buildvcs=false")
_VERSION: Final = re.compile(r"-\d+(?:\.\d+)*$")
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
    def name(self) -> str:
        """Return the tool's name, which is the folder's without a version."""
        return _VERSION.sub("", self.folder.name)

    @property
    def is_older(self) -> bool:
        """Report whether another folder has a newer version of the tool."""
        return self.name != self.folder.name

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
    """Return the pin in a folder with a `go.mod`.

    Without a `tool` line the folder is the program, of a library module that has the folder's name. Raises ValueError
    if there is no program.
    """
    text = (folder / "go.mod").read_text(encoding="utf-8")
    name = _VERSION.sub("", folder.name)
    packages = [package for block, single in _BLOCK.findall(text) for package in (block.split() or [single])]
    required = sorted(_requirements(text), key=lambda item: -len(item[0]))
    if not packages and not (folder / "main.go").is_file():
        raise ValueError(f"{folder / 'go.mod'} has no tool line, and {folder.name} no main.go")
    if packages:
        module, version = next(requirement for requirement in required if packages[0].startswith(requirement[0]))
    else:
        packages = ["."]
        module, version = next(requirement for requirement in required if requirement[0].endswith(f"/{name}"))
    names = [name] if len(packages) == 1 else [package.rpartition("/")[2] for package in packages]
    programs = tuple(Program(name, package) for name, package in zip(names, packages, strict=True))
    return Pin(folder, programs, module, version)


def _requirements(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^(?:require )?\t?(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)


def read_pins(folder: Path = FOLDER, *, oldest: bool = False) -> dict[str, Pin]:
    """Return every pin by the name of its tool: the newest, or with `oldest` the older one where there is one."""
    pins = [read_pin(path.parent) for path in folder.glob("*/go.mod")]
    return {pin.name: pin for pin in sorted(pins, key=lambda pin: (pin.is_older == oldest, pin.folder))}


def hash_of(*pins: Pin) -> str:
    """Return a hash of everything that determines the build."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for pin in sorted(pins, key=lambda pin: pin.folder):
        digest.update(pin.linker_flags.encode())
        for file in (pin.folder / "go.mod", pin.folder / "go.sum", *sorted(pin.folder.glob("*.go"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
