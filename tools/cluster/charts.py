"""Our own charts, in the folder `charts`: each as small as its purpose allows.

`web` is an application, `settings` one ConfigMap without pods, `hooked` has a hook, `defining` a CRD, `broken` a faulty
template, `large` is 1 MB. The values `pod` and `hook` set what becomes of their pods (stages.yaml).
"""

import base64
import gzip
import hashlib
import io
import json
import ssl
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).resolve().parent / "charts"
NAMES: Final = tuple(sorted(path.name for path in FOLDER.iterdir()))
_VALUES: Final = {"image": "registry.example.com/web:1", "replicas": 1, "pod": "ready", "hook": "succeeds", "motto": ""}
_LARGE: Final = 1_000_000
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


def packaged(name: str, version: str, values: Mapping[str, object] | None = None, like: str = "") -> bytes:
    """Return a chart as `helm package` writes it, the same bytes for the same arguments.

    `like` is the chart whose templates it has.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in _files(name, version, values or {}, like or name):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=0)


def _files(name: str, version: str, values: Mapping[str, object], like: str) -> Iterator[tuple[str, bytes]]:
    yield "Chart.yaml", yaml.safe_dump(_metadata(name, version)).encode()
    yield "values.yaml", yaml.safe_dump({**_VALUES, **values}).encode()
    for path in sorted((FOLDER / like).rglob("*")):
        if path.is_file():
            yield str(path.relative_to(FOLDER / like)), path.read_bytes()
    if like == "large":
        yield "files/noise.bin", hashlib.shake_256(version.encode()).digest(_LARGE)


def _metadata(name: str, version: str) -> dict[str, str]:
    return {"apiVersion": "v2", "name": name, "version": version, "appVersion": version}


class Repository:
    """The registry to which a test pushes charts: one listener of `front`, and a path of its own."""

    def __init__(self, address: str, place: str, authority: str = "", basic: str = "") -> None:
        self.address = address
        self.place = place
        self._scheme = "https" if authority else "http"
        self._trust = ssl.create_default_context(cadata=authority) if authority else None
        self._basic = basic

    @property
    def oci(self) -> str:
        """Return the `chart.url` of an application for the OCI registry."""
        return f"oci://{self.address}/{self.place}"

    @property
    def http(self) -> str:
        """Return the `chart.url` of an application for the HTTP repository."""
        return f"{self._scheme}://{self.address}/charts/{self.place}"

    def push(self, name: str, version: str, values: Mapping[str, object] | None = None, like: str = "") -> str:
        """Push a chart to the OCI registry, with its version as the tag; return its digest."""
        content, config = packaged(name, version, values, like), json.dumps(_metadata(name, version)).encode()
        layers = [self._blob(name, content, _CONTENT)]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._blob(name, config, _CONFIG),
            "layers": layers,
        }
        body = json.dumps(manifest).encode()
        self._call("PUT", f"/v2/{self.place}/{name}/manifests/{version}", body, _MANIFEST)
        return _digest(body)

    def publish(self, *charts: tuple[str, str]) -> None:
        """Publish charts (name and version each) in the HTTP repository, whose index then has only these."""
        entries: dict[str, list[dict[str, Any]]] = {}
        for name, version in charts:
            content, file = packaged(name, version), f"{name}-{version}.tgz"
            self._call("PUT", f"/charts/{self.place}/{file}", content)
            entry = {**_metadata(name, version), "urls": [file], "digest": hashlib.sha256(content).hexdigest()}
            entries.setdefault(name, []).append(entry)
        index = yaml.safe_dump({"apiVersion": "v1", "entries": entries, "generated": "2026-01-01T00:00:00Z"})
        self._call("PUT", f"/charts/{self.place}/index.yaml", index.encode())

    def fail(self, status: int) -> None:
        """Answer every request to this path with an HTTP status from now on; 0 ends it."""
        self._call("PUT", f"/-/faults/{self.place}", str(status).encode())

    def _blob(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        digest = _digest(content)
        location = self._call("POST", f"/v2/{self.place}/{name}/blobs/uploads/")
        self._call("PUT", f"{location}?digest={digest}", content, "application/octet-stream")
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def _call(self, verb: str, path: str, body: bytes = b"", content_type: str = "") -> str:
        """Send a request and return the path of the answer's Location."""
        request = urllib.request.Request(f"{self._scheme}://{self.address}{path}", body, method=verb)
        if self._basic:
            request.add_header("authorization", "Basic " + base64.b64encode(self._basic.encode()).decode())
        request.add_header("content-type", content_type or "application/octet-stream")
        with urllib.request.urlopen(request, timeout=60, context=self._trust) as answer:
            location = str(answer.headers.get("location") or "")
        return "/" + location.partition("://")[2].partition("/")[2] if "://" in location else location


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
