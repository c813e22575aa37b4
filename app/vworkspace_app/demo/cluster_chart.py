"""The Helm chart of the demo on a real cluster: pushed to an OCI registry as by `helm push`, or already published."""

import base64
import gzip
import hashlib
import io
import json
import ssl
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.error import HTTPError

import attrs
import yaml

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.demo.scene import BROKEN, EDITED, FIRST, WANTED

_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_PATIENCE: Final = 60.0


def chart_metadata(name: str, version: str) -> dict[str, str]:
    """Return the content of the Chart.yaml of a chart with this name and version, as a mapping."""
    return {"apiVersion": "v2", "name": name, "version": version, "appVersion": version}


def packaged(name: str, version: str, files: Mapping[str, bytes]) -> bytes:
    """Return the archive (.tgz) of a chart: a Chart.yaml with its name and version, and `files`, the contents by path.

    The same arguments always give the same bytes.
    """
    return archived(name, {"Chart.yaml": yaml.safe_dump(chart_metadata(name, version)).encode(), **files})


def archived(name: str, files: Mapping[str, bytes], time: int = 0) -> bytes:
    """Return a .tar.gz archive of the files, by path, in a folder `name`, like `helm package`.

    `time` is the date of all files. The same arguments always give the same bytes.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime = len(content), time
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=time)


class OciRegistry:
    """A client of the repositories below the path `place` of an OCI registry.

    `authority` (PEM) is trusted instead of this machine's authorities. `basic` is USER:PASSWORD. All calls block. They
    raise OSError if the registry cannot be reached, and its subclass urllib.error.HTTPError if the registry refuses.
    """

    def __init__(self, address: str, place: str, authority: str = "", basic: str = "", *, plain: bool = False) -> None:
        self.address = address
        self.place = place
        self.scheme = "http" if plain else "https"
        self._trust = None if plain else ssl.create_default_context(cadata=authority or None)
        self._basic = basic

    @property
    def oci(self) -> str:
        """The `oci://` URL below which the repositories are: the value of `chart.url` in an application."""
        return f"oci://{self.address}/{self.place}"

    def push(self, name: str, version: str, archive: bytes) -> str:
        """Push the chart `archive` to the repository `name` with `version` as the tag, and return its manifest's
        digest.
        """
        config = json.dumps(chart_metadata(name, version)).encode()
        layers = [self._blob(name, archive, _CONTENT)]
        described = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": self._blob(name, config, _CONFIG)}
        body = json.dumps({**described, "layers": layers}).encode()
        self.call("PUT", f"/v2/{self.place}/{name}/manifests/{version}", body, _MANIFEST)
        return _digest(body)

    def remove(self, name: str, digest: str) -> None:
        """Delete from the repository `name` the pushed chart whose manifest has this digest. Raises HTTPError if the
        registry does not permit deletion.
        """
        self.call("DELETE", f"/v2/{self.place}/{name}/manifests/{digest}")

    def _blob(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        digest = _digest(content)
        location = self.call("POST", f"/v2/{self.place}/{name}/blobs/uploads/")
        with_digest = f"{location}{'&' if '?' in location else '?'}digest={digest}"
        self.call("PUT", with_digest, content, "application/octet-stream")
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def call(self, verb: str, path: str, body: bytes = b"", content_type: str = "") -> str:
        """Send a request to the registry, and return the path in the response's Location header.

        `verb` is the HTTP method, and `content_type` the type of `body`. Return an empty string if the response has no
        such header.
        """
        request = urllib.request.Request(f"{self.scheme}://{self.address}{path}", body, method=verb)
        if self._basic:
            request.add_header("authorization", "Basic " + base64.b64encode(self._basic.encode()).decode())
        request.add_header("content-type", content_type or "application/octet-stream")
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=self._trust) as answer:
            location = str(answer.headers.get("location") or "")
        return "/" + location.partition("://")[2].partition("/")[2] if "://" in location else location


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CHART: Final = "nextcloud"
_SCHEME: Final = "oci://"
_SETTINGS: Final = b"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
data:
  version: {{ .Chart.Version | quote }}
"""
_SERVICE: Final = b"""\
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  ports:
    - port: 80
"""


@attrs.frozen
class NamedChart:
    """A chart in one version that is published in an OCI registry.

    `url` is the `oci://` URL of the path that contains the chart's repository, without the chart's name.
    """

    url: str
    name: str
    version: str


def named_chart(chart: str, version: str) -> NamedChart:
    """Return the chart at the URL `chart` (oci://HOST/PATH/NAME), in this version. Raises CommandError if either is
    invalid.
    """
    url, _, name = chart.removesuffix("/").rpartition("/")
    if not chart.startswith(_SCHEME) or not url.removeprefix(_SCHEME) or not name:
        message = f"--chart {chart}: not a chart in an OCI registry, such as oci://ghcr.io/stefanprodan/charts/podinfo"
        raise CommandError(message, status=USAGE)
    if not version:
        raise CommandError(f"--chart {chart} needs --chart-version", status=USAGE)
    return NamedChart(url, name, version)


def registry_of(address: str, place: str) -> OciRegistry:
    """Return a client of the registry at `address` (oci://HOST[:PORT][/PATH]), for repositories below PATH and `place`.

    Raises CommandError for an invalid address.
    """
    host, _, path = address.removeprefix(_SCHEME).strip("/").partition("/")
    if not host or "@" in host or "://" in address.removeprefix(_SCHEME):
        raise CommandError(f"--registry {address}: not oci://HOST[:PORT][/PATH]", status=USAGE)
    return OciRegistry(host, f"{path}/{place}" if path else place)


@contextmanager
def pushed(registry: OciRegistry) -> Iterator[None]:
    """Push all versions of the demo's chart before the block, and remove them after it if the registry permits.

    All versions have a ConfigMap. One also has a Service, which a quota in the namespace forbids, so that its upgrade
    fails. Raises CommandError if a version cannot be pushed.
    """
    digests: list[str] = []
    try:
        _push(registry, digests)
        yield
    finally:
        for digest in digests:
            try:
                registry.remove(CHART, digest)
            except OSError:  # the registry does not delete: the place is named for this run only
                break


def _push(registry: OciRegistry, digests: list[str]) -> None:
    try:
        for version in (FIRST, BROKEN, EDITED, WANTED):
            service = {"templates/service.yaml": _SERVICE} if version == BROKEN else {}
            archive = packaged(CHART, version, {"templates/settings.yaml": _SETTINGS, **service})
            digests.append(registry.push(CHART, version, archive))
    except OSError as error:
        raise CommandError(
            f"the chart cannot be pushed to {registry.oci}: {_why(error)}. Give --registry an OCI registry that takes "
            "it from this machine without a password and that the cluster reaches, or name a chart with --chart"
        ) from error


def _why(error: OSError) -> str:
    if isinstance(error, HTTPError):
        return f"it answers {error.code} {error.reason}"
    return str(getattr(error, "reason", error))
