"""The build of the pinned programs with the ordinary go client, into a cache outside the checkout."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from tools.cluster.pins import FLAGS, Pin, hash_of

Say: TypeAlias = Callable[[str], None]
"""A function that prints a line about progress."""

WITHOUT_GO: Final = (
    "Go is not installed: no cluster of real controllers can be built; make test and make demo need none (the embedded "
    "API server and the simulated controllers go on)"
)


_AT_ONCE: Final = 2
"""The number of pins that are built at once: while one is linked on a single core, another is compiled on the rest."""


class CannotBuild(Exception):
    """A program cannot be built; the message is one line for users, then Go's output."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cached builds, outside the checkout."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "vworkspace-operator" / "cluster"


def has_go() -> bool:
    """Report whether the go client is on the PATH."""
    return shutil.which("go") is not None


def build(pins: Collection[Pin], say: Say) -> Path:
    """Build the programs of these pins that the cache lacks; return a folder with all of them. Raises CannotBuild."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / hash_of(*pins)
    with _alone(cache):
        folder.mkdir(exist_ok=True)
        homes = {pin.folder.name: _home(cache, pin) for pin in pins}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            missing = [pin for pin in pins if not homes[pin.folder.name].is_dir()]
            list(pool.map(lambda pin: _build(pin, homes[pin.folder.name], say), missing))
        for pin in pins:
            for program in pin.programs:
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(homes[pin.folder.name] / program.name)
    return folder


def is_built(pins: Iterable[Pin]) -> bool:
    """Report whether the cache holds the programs of these pins."""
    return all(_home(cache_folder(), pin).is_dir() for pin in pins)


def _home(cache: Path, pin: Pin) -> Path:
    return cache / f"{pin.folder.name}-{hash_of(pin)}"


def _build(pin: Pin, home: Path, say: Say) -> None:
    """Build the programs of a pin into a folder that appears only when all of them are built."""
    if not has_go():
        raise CannotBuild(WITHOUT_GO)
    began = time.monotonic()
    fresh = home.with_name(f".{home.name}")
    fresh.mkdir(exist_ok=True)
    single = len(pin.programs) == 1  # of several, each is named by the last part of its package, as Go does
    target = fresh / pin.programs[0].name if single else f"{fresh}{os.sep}"
    packages = [program.package for program in pin.programs]
    _go(["build", *FLAGS, f"-ldflags={pin.linker_flags}", f"-o={target}", *packages], pin)
    fresh.rename(home)
    say(f"built {pin.folder.name} ({pin.module} {pin.version}) in {time.monotonic() - began:.0f} s")


def module_folder(pin: Pin, module: str) -> Path:
    """Return the folder of a required module in the module cache, for reading its CRDs."""
    _go(["mod", "download", module], pin)
    listed = json.loads(_go(["list", "-m", "-json", module], pin))
    return Path(listed["Dir"])


def _go(arguments: list[str], pin: Pin) -> str:
    """Run the go client in the folder of a pin. Raises CannotBuild with the end of its output."""
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
    """Hold a lock while the block runs, so that a second build of the same programs waits."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
