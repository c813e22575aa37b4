"""Our own charts, in the folder `charts`: each as small as its purpose allows.

`web` is an application, `settings` one ConfigMap without pods, `hooked` has a hook, `defining` a CRD, `broken` a faulty
template, `large` is 1 MB. The values `pod` and `hook` set what becomes of their pods (stages.yaml).
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from vworkspace_app.demo import cluster_chart

FOLDER: Final = Path(__file__).resolve().parent / "charts"
NAMES: Final = tuple(sorted(path.name for path in FOLDER.iterdir()))
_VALUES: Final = {"image": "registry.example.com/web:1", "replicas": 1, "pod": "ready", "hook": "succeeds", "motto": ""}
_LARGE: Final = 1_000_000


def packaged(name: str, version: str, values: Mapping[str, object] | None = None, like: str = "") -> bytes:
    """Return a chart as `helm package` writes it, the same bytes for the same arguments.

    `like` is the chart whose templates it has.
    """
    return cluster_chart.packaged(name, version, dict(_files(version, values or {}, like or name)))


def _files(version: str, values: Mapping[str, object], like: str) -> Iterator[tuple[str, bytes]]:
    yield "values.yaml", yaml.safe_dump({**_VALUES, **values}).encode()
    for path in sorted((FOLDER / like).rglob("*")):
        if path.is_file():
            yield str(path.relative_to(FOLDER / like)), path.read_bytes()
    if like == "large":
        yield "files/noise.bin", hashlib.shake_256(version.encode()).digest(_LARGE)


class Repository:
    """The registry to which a test pushes charts: one listener of `front`, and a path of its own."""

    def __init__(self, address: str, place: str, authority: str = "", basic: str = "") -> None:
        self._registry = cluster_chart.OciRegistry(address, place, authority, basic, plain=not authority)
        self.place = place

    @property
    def oci(self) -> str:
        """Return the `chart.url` of an application for the OCI registry."""
        return self._registry.oci

    @property
    def http(self) -> str:
        """Return the `chart.url` of an application for the HTTP repository."""
        return f"{self._registry.scheme}://{self._registry.address}/charts/{self.place}"

    def push(self, name: str, version: str, values: Mapping[str, object] | None = None, like: str = "") -> str:
        """Push a chart to the OCI registry, with its version as the tag; return its digest."""
        return self._registry.push(name, version, packaged(name, version, values, like))

    def publish(self, *charts: tuple[str, str]) -> None:
        """Publish charts (name and version each) in the HTTP repository, whose index then has only these."""
        entries: dict[str, list[dict[str, Any]]] = {}
        for name, version in charts:
            content, file = packaged(name, version), f"{name}-{version}.tgz"
            self._registry.call("PUT", f"/charts/{self.place}/{file}", content)
            described = cluster_chart.chart_metadata(name, version)
            entry = {**described, "urls": [file], "digest": hashlib.sha256(content).hexdigest()}
            entries.setdefault(name, []).append(entry)
        index = yaml.safe_dump({"apiVersion": "v1", "entries": entries, "generated": "2026-01-01T00:00:00Z"})
        self._registry.call("PUT", f"/charts/{self.place}/index.yaml", index.encode())

    def fail(self, status: int) -> None:
        """Answer every request to this path with an HTTP status from now on; 0 ends it."""
        self._registry.call("PUT", f"/-/faults/{self.place}", str(status).encode())
