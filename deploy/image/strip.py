"""Take out of a Debian image with Python what the operator never runs: package managers and shells (Dockerfile).

The argument is where the image's file system begins; without one it is the machine's own.
"""

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

DEBIAN = ("etc/apt", "var/lib/apt", "var/cache/apt", "usr/lib/apt", "usr/share/perl5")
COMMANDS = ("apt", "dpkg", "pip", "idle", "perl", "sh", "bash", "dash", "rbash")
FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin")


def main(root: Path) -> None:
    """Delete, and say how much. A base that is laid out in another way is refused before anything is deleted."""
    doomed = {path for path in (*_installers(root), *(root / name for name in DEBIAN), *_commands(root)) if _is(path)}
    if not any(path.name in ("sh", "dash") for path in doomed):
        sys.exit("no shell was found: is this a Debian image?")
    for path in sorted(doomed, reverse=True):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # /bin and /usr/bin are one folder
    print(f"{len(doomed)} files and folders taken out")
    shutil.rmtree(Path(__file__).parent)


def _is(path: Path) -> bool:
    """Report whether the path exists, or is a link that leads nowhere."""
    return path.exists() or path.is_symlink()


def _installers(root: Path) -> Iterator[Path]:
    python = root / Path(sysconfig.get_path("stdlib")).relative_to("/")
    yield from (python / "ensurepip", python / "idlelib")
    yield from (python / "site-packages").glob("*")


def _commands(root: Path) -> Iterator[Path]:
    """Yield the commands of these names, also with a version or suffix: `pip3.13`, `perl5.40`, `apt-get`."""
    for path in (path for folder in FOLDERS for path in (root / folder).glob("*")):
        if any(path.name == name or path.name.startswith((f"{name}-", f"{name}3", f"{name}5")) for name in COMMANDS):
            yield path


main(Path(*sys.argv[1:2] or ["/"]))
