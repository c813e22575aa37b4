"""The wheels of a commit, built twice in different surroundings: equal to the byte, or there is no release."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.release.errors import ReleaseError
from tools.release.version import PROJECTS

_SURROUNDINGS: Final = (
    ("a", 0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"}),
    ("elsewhere/b", 0o077, {"TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}),
)
"""Folder, umask and environment of each build."""


def commit_time(root: Path) -> str:
    """Return the time of the commit in seconds since 1970: nothing of a release has another."""
    return _git(root, "log", "-1", "--format=%ct").decode().strip()


def wheels(root: Path, into: Path, projects: Sequence[str] = PROJECTS) -> None:
    """Write the wheel of each project of the commit, untracked and changed files left out. Raises ReleaseError."""
    with TemporaryDirectory() as folder:
        builds = [_built(root, Path(folder, place), umask, extra, projects) for place, umask, extra in _SURROUNDINGS]
        first, second = ({path.name: path.read_bytes() for path in build.iterdir()} for build in builds)
    if differing := sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name)):
        raise ReleaseError(f"{', '.join(differing)}: two builds of one commit differ")
    into.mkdir(parents=True, exist_ok=True)
    for name, content in first.items():
        (into / name).write_bytes(content)
        print(f"{sha256(content).hexdigest()}  {name}: twice the same")


def _built(root: Path, folder: Path, umask: int, extra: Mapping[str, str], projects: Sequence[str]) -> Path:
    """Build the wheels of the commit below `folder`, and return where they are."""
    source, target = folder / "source", folder / "wheels"
    source.mkdir(parents=True)
    archive = _git(root, "archive", "--format=tar", "HEAD")
    subprocess.run(["tar", "--extract", "--touch", "--directory", source], input=archive, check=True, umask=umask)
    environment = {**os.environ, **extra, "SOURCE_DATE_EPOCH": commit_time(root)}
    for project in projects:
        words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
        done = subprocess.run(
            words, cwd=source / project, env=environment, umask=umask, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ReleaseError(f"{project}: no wheel: {done.stderr.strip().splitlines()[-1]}")
    return target


def _git(root: Path, *words: str) -> bytes:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {words[0]}: {done.stderr.decode().strip()}")
    return done.stdout
