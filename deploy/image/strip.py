"""Take out of a Debian image with Python what the operator never runs: package managers and shells (Dockerfile)."""

import shutil
import sysconfig
from pathlib import Path

PYTHON = Path(sysconfig.get_path("stdlib"))
INSTALLERS = (PYTHON / "ensurepip", PYTHON / "idlelib", *(PYTHON / "site-packages").glob("*"))
DEBIAN = (
    Path("/etc/apt"),
    Path("/var/lib/apt"),
    Path("/var/cache/apt"),
    Path("/usr/lib/apt"),
    Path("/usr/share/perl5"),
)
COMMANDS = ("apt", "dpkg", "pip", "idle", "perl", "sh", "bash", "dash", "rbash")
FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")


def main() -> None:
    """Delete, and say how much: a base that is laid out in another way is noticed."""
    doomed = {path for path in (*INSTALLERS, *DEBIAN) if path.exists()}
    for folder in FOLDERS:
        for path in Path(folder).glob("*"):
            if any(
                path.name == name or path.name.startswith((f"{name}-", f"{name}3", f"{name}5")) for name in COMMANDS
            ):
                doomed.add(path)
    for path in sorted(doomed, reverse=True):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    assert any(path.name in ("sh", "dash") for path in doomed), "no shell was found: is this a Debian image?"
    print(f"{len(doomed)} files and folders taken out")
    shutil.rmtree(Path(__file__).parent)


main()
