"""The chart of the demo on a real cluster: one that the demo pushes, or a published one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.error import HTTPError

import attrs

from purekube_run.process.errors import USAGE, CommandError
from vworkspace_app.demo.registry import OciRegistry, packaged
from vworkspace_app.demo.scene import BROKEN, EDITED, FIRST, WANTED

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
    """A published chart; `url` is without its name."""

    url: str
    name: str
    version: str


def named_chart(chart: str, version: str) -> NamedChart:
    """Return the chart that the options name. Raises CommandError."""
    url, _, name = chart.removesuffix("/").rpartition("/")
    if not chart.startswith(_SCHEME) or not url.removeprefix(_SCHEME) or not name:
        message = f"--chart {chart}: not a chart in an OCI registry, such as oci://ghcr.io/stefanprodan/charts/podinfo"
        raise CommandError(message, status=USAGE)
    if not version:
        raise CommandError(f"--chart {chart} needs --chart-version", status=USAGE)
    return NamedChart(url, name, version)


def registry_of(address: str, place: str) -> OciRegistry:
    """Return the place in the registry that `--registry` names. Raises CommandError."""
    host, _, path = address.removeprefix(_SCHEME).strip("/").partition("/")
    if not host or "@" in host or "://" in address.removeprefix(_SCHEME):
        raise CommandError(f"--registry {address}: not oci://HOST[:PORT][/PATH]", status=USAGE)
    return OciRegistry(host, f"{path}/{place}" if path else place)


@contextmanager
def pushed(registry: OciRegistry) -> Iterator[None]:
    """Push every version of the story for the duration of the block, then remove them if the registry permits.

    All versions have a ConfigMap; one also has a Service, for which the namespace has no room. Raises CommandError.
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
