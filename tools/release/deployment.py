"""Files that install a release: the chart as a package, the manifests and the bill of materials."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from purekube_run.process.yaml_documents import Format, dump
from tools.release.errors import ReleaseError
from tools.release.version import BILL, CHART
from vworkspace_app.demo.cluster_chart import archived
from vworkspace_app.install import InstallOptions, installation
from vworkspace_app.install.names import NAME
from vworkspace_core.api.crd import crd_manifests

_BY_DIGEST: Final = re.compile(r"([^@\s]+/[^@\s]+)@(sha256:[0-9a-f]{64})")


def deployment(root: Path, into: Path, image: str, *, version: str, time: int) -> Path:
    """Write the chart of an image by digest, the manifests and the bill; return the chart. Raises ReleaseError."""
    named = _BY_DIGEST.fullmatch(image)
    if not named:
        raise ReleaseError(f"image {image}: not REGISTRY/NAME@sha256:DIGEST")
    into.mkdir(parents=True, exist_ok=True)
    (into / "crds.yaml").write_text(dump(crd_manifests(), Format.YAML), encoding="utf-8")
    (into / "operator.yaml").write_text(dump(list(installation(InstallOptions(image=image))), Format.YAML))
    (into / f"{NAME}-{version}.sbom.cdx.json").write_bytes((root / BILL).read_bytes())
    packed = into / f"{NAME}-{version}.tgz"
    packed.write_bytes(packed_chart(chart_of(root, named[1], named[2]), time))
    return packed


def chart_of(root: Path, repository: str, digest: str) -> dict[str, bytes]:
    """Return the files of the chart by their paths in it; its values name the image."""
    folder = root / CHART
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    for key, value in (("repository", repository), ("digest", digest)):
        files["values.yaml"] = _once(files["values.yaml"], f'  {key}: ""\n', f'  {key}: "{value}"\n')
        files["README.md"] = _once(files["README.md"], f'| `image.{key}` | `""`', f'| `image.{key}` | `"{value}"`')
    return files


def _once(content: bytes, old: str, new: str) -> bytes:
    """Return the content with its only `old` replaced. Raises ReleaseError."""
    if content.count(old.encode()) != 1:
        raise ReleaseError(f"{CHART}: {content.count(old.encode())} times {old.strip()}, expected once")
    return content.replace(old.encode(), new.encode())


def packed_chart(files: Mapping[str, bytes], time: int) -> bytes:
    """Return the package of the chart: Chart.yaml first, the other files by path."""
    return archived(NAME, dict(sorted(files.items(), key=lambda file: (file[0] != "Chart.yaml", file[0]))), time)


def rendered(chart: Path, image: str) -> str:
    """Render a packed chart with its own values by Helm, and return a line about it. Raises ReleaseError."""
    if shutil.which("helm") is None:
        return f"{chart.name}: not rendered here, there is no helm; tests/packaging/test_release.py does it"
    with TemporaryDirectory() as home:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home}
        words = [str(shutil.which("helm")), "template", NAME, str(chart), "--namespace", "vworkspace-system"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise ReleaseError(f"{chart.name}: {done.stderr.strip().splitlines()[-1]}")
    if image not in done.stdout:
        raise ReleaseError(f"{chart.name}: does not render {image}")
    return f"{chart.name}: rendered with {image}"
