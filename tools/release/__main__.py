"""The command: `python -m tools.release STEP …`, one line for each reason not to release."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.release.deployment import deployment, rendered
from tools.release.errors import ReleaseError
from tools.release.notes import notes, with_links
from tools.release.version import BILL, check, current_tag, version_of
from tools.release.wheels import commit_time, wheels

ROOT: Final = Path(__file__).resolve().parents[2]
SUMS: Final = "SHA256SUMS"
_IMAGE: Final = f"ghcr.io/rehearsal/vworkspace-operator@sha256:{'0' * 64}"


def main(words: list[str], root: Path = ROOT) -> None:
    """Take one step. Raises ReleaseError."""
    match words:
        case ["check", tag]:
            check(root, tag)
        case ["notes", tag]:
            repository = os.environ.get("GITHUB_REPOSITORY", "OWNER/vworkspace-operator")
            print(with_links(notes(root, version_of(tag)), version_of(tag), repository))
        case ["wheels", folder]:
            wheels(root, Path(folder))
        case ["deploy", folder, image]:
            version = version_of(current_tag(root))
            print(rendered(deployment(root, Path(folder), image, version=version, time=int(commit_time(root))), image))
        case ["sums", folder]:
            sums(Path(folder))
        case ["dry-run"]:
            dry_run(root, current_tag(root), rehearsal=True)
        case ["dry-run", tag]:
            dry_run(root, tag, rehearsal=False)
        case _:
            raise ReleaseError("steps: check TAG, notes TAG, wheels DIR, deploy DIR IMAGE, sums DIR, dry-run [TAG]")


def sums(folder: Path) -> None:
    """Write the checksum of each file in the folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def dry_run(root: Path, tag: str, *, rehearsal: bool) -> None:
    """Take every step that needs no network, for the commit; without a tag of its own the notes may be unreleased."""
    check(root, tag, rehearsal=rehearsal)
    version = version_of(tag)
    print(f"{tag}: versions agree; notes of {len(notes(root, version, rehearsal=rehearsal))} characters")
    _same_bill(root)
    _pinned_base(root, version)
    with TemporaryDirectory() as folder:
        wheels(root, Path(folder))
        packed = deployment(root, Path(folder), _IMAGE, version=version, time=int(commit_time(root)))
        print(rendered(packed, _IMAGE))
        sums(Path(folder))
        subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=folder, check=True)
        print(f"{len(list(Path(folder).iterdir()))} files, checksums hold")


def _same_bill(root: Path) -> None:
    words = [sys.executable, "scripts/sbom.py", "deploy/image/requirements.txt"]
    made = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
    if made != (root / BILL).read_text(encoding="utf-8"):
        raise ReleaseError(f"{BILL}: not that of the lock; run scripts/lock")
    print(f"{BILL}: that of the lock")


def _pinned_base(root: Path, version: str) -> None:
    """Ask deploy/image/base.py, as the build of the image does."""
    lines = (root / "Dockerfile").read_text(encoding="utf-8").splitlines()
    base = next(line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE="))
    words = [sys.executable, "deploy/image/base.py"]
    environment = {**os.environ, "BASE": base, "RELEASE": version}
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(done.stderr.strip())
    print(f"Dockerfile: {base}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ReleaseError as error:
        sys.exit(str(error))
