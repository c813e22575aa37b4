"""Building the pinned programs with the ordinary go client, into a cache outside the checkout."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from tools.cluster.pins import FLAGS, Pin, hash_of, read_pins

Say: TypeAlias = Callable[[str], None]
"""Takes a line about progress."""

WITHOUT_GO: Final = (
    "Go is not installed: no cluster of real controllers can be built; make test and make demo need none (the embedded "
    "API server and the simulated controllers go on)"
)


class CannotBuild(Exception):
    """A program that cannot be built; the message is one line for a person, then what Go says."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that holds the programs of these pins."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "vworkspace-operator" / "cluster" / hash_of(read_pins())


def has_go() -> bool:
    """Say whether the go client is on the PATH."""
    return shutil.which("go") is not None


def build(names: Iterable[str], say: Say) -> Path:
    """Build what the cache lacks of these pins; return the folder of the programs. Raises CannotBuild."""
    pins, folder = read_pins(), cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        for pin in (pins[name] for name in names):
            if not all((folder / program.name).is_file() for program in pin.programs):
                _build(pin, folder, say)
    return folder


def _build(pin: Pin, folder: Path, say: Say) -> None:
    if not has_go():
        raise CannotBuild(WITHOUT_GO)
    began = time.monotonic()
    fresh = folder / f".{pin.folder.name}"
    fresh.mkdir(exist_ok=True)
    for program in pin.programs:
        command = ["build", *FLAGS, f"-ldflags={pin.linker_flags}", f"-o={fresh / program.name}", program.package]
        _go(command, pin)
        (fresh / program.name).replace(folder / program.name)
    fresh.rmdir()
    say(f"built {pin.folder.name} ({pin.module} {pin.version}) in {time.monotonic() - began:.0f} s")


def module_folder(pin: Pin, module: str) -> Path:
    """Return where the module cache holds a module that a pin requires: definitions of kinds are read there."""
    _go(["mod", "download", module], pin)
    listed = json.loads(_go(["list", "-m", "-json", module], pin))
    return Path(listed["Dir"])


def _go(arguments: list[str], pin: Pin) -> str:
    """Run the go client in the folder of a pin. Raises CannotBuild with the end of what it says."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    ended = subprocess.run(
        ["go", *arguments], cwd=pin.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if ended.returncode != 0:
        end = "\n".join(ended.stderr.splitlines()[-20:])
        raise CannotBuild(f"{pin.folder.name}: go {arguments[0]} of {pin.module} {pin.version} failed:\n{end}")
    return ended.stdout


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second build of the same programs waiting."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
