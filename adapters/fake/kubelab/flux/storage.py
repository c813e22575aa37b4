"""Helm's own storage: the revisions of a release, and the Secrets in which Helm keeps these revisions.

The model is Helm 4.2.2 (`pkg/storage`); the digests are those of helm-controller 1.6.1 (`internal/release`).
"""

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from kubelab.flux.behaviour import ChartHook
from purekube.apimachinery.manifest import Manifest, canonical_json, get_path
from purekube.apimachinery.timestamps import format_time


class HelmReleaseStatus(StrEnum):
    """The statuses that Helm records for a revision of a release."""

    DEPLOYED = "deployed"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    UNINSTALLED = "uninstalled"
    UNINSTALLING = "uninstalling"
    PENDING_INSTALL = "pending-install"
    PENDING_UPGRADE = "pending-upgrade"
    PENDING_ROLLBACK = "pending-rollback"

    @property
    def pending(self) -> bool:
        """True if a Helm action (install, upgrade or rollback) has begun on the release and not ended."""
        return self.value.startswith("pending-")


@attrs.frozen
class StoredRelease:
    """One revision of a Helm release. `chart_version` is the chart's version with the digest that Flux added."""

    name: str
    namespace: str
    version: int
    status: HelmReleaseStatus
    chart_name: str
    chart_version: str
    config: Mapping[str, Any]
    config_digest: str
    first_deployed: datetime
    last_deployed: datetime
    deleted: datetime | None = None
    description: str = ""
    hooks: tuple[ChartHook, ...] = ()

    def digest(self, oci_digest: str = "") -> str:
        """Return the digest (`sha256:…`) that Flux records for this revision in `status.history`.

        The digest also covers `oci_digest`, the digest of the chart's OCI artifact.
        """
        # internal/release/digest.go uses a json.Encoder, which ends the document with a line feed.
        return "sha256:" + hashlib.sha256(_go_json(_observation(self, oci_digest)) + b"\n").hexdigest()

    def with_status(
        self, status: HelmReleaseStatus, description: str = "", deleted: datetime | None = None
    ) -> "StoredRelease":
        """Return this revision with another status, description and time of its uninstallation (`deleted`).

        An empty `description` and a `deleted` of None keep the present value.
        """
        return attrs.evolve(
            self, status=status, description=description or self.description, deleted=deleted or self.deleted
        )


def last_release(releases: Sequence[StoredRelease]) -> StoredRelease | None:
    """Return the newest of `releases`, the revisions of one release, or None if `releases` is empty."""
    return max(releases, key=lambda item: item.version, default=None)


def replace(releases: Sequence[StoredRelease], *changed: StoredRelease) -> tuple[StoredRelease, ...]:
    """Return `releases`, the revisions of one release, with `changed` added to them, oldest first.

    Each of `changed` replaces the revision with the same number, if there is one.
    """
    by_version = {item.version: item for item in (*releases, *changed)}
    return tuple(by_version[version] for version in sorted(by_version))


def prune(releases: Sequence[StoredRelease], limit: int) -> tuple[StoredRelease, ...]:
    """Return `releases`, the revisions of one release, without the oldest, so that one more fits into `limit`.

    A `limit` of 0 means no limit. The last deployed revision is always kept.
    """
    if limit <= 0:
        return tuple(releases)
    deployed = [item.version for item in releases if item.status is HelmReleaseStatus.DEPLOYED]
    # storage/storage.go, removeLeastRecent: so there may be one more than the limit, if the last deployed one is the
    # oldest.
    keep = max(deployed, default=0)
    remainder = list(releases)
    for item in releases:
        if len(remainder) >= limit and item.version != keep:
            remainder.remove(item)
    return tuple(remainder)


def secret_name(release: StoredRelease) -> str:
    """Return the name of the Secret in which Helm keeps `release`, one revision."""
    return f"sh.helm.release.v1.{release.name}.v{release.version}"


def release_secret(release: StoredRelease, namespace: str) -> dict[str, Any]:
    """Return the Secret with `release` in `namespace` (Helm's storage namespace), as Helm writes it."""
    # Once by Helm (storage/driver/util.go, encodeRelease), and once more below as in every Secret. `mtime=0` as in Go,
    # which makes equal releases equal bytes.
    packed = base64.b64encode(gzip.compress(_go_json(_document(release)), mtime=0))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(release),
            "namespace": namespace,
            "labels": {
                "name": release.name,
                "owner": "helm",
                "status": release.status.value,
                "version": str(release.version),
                "modifiedAt": str(int(release.last_deployed.timestamp())),
            },
        },
        "type": "helm.sh/release.v1",
        "data": {"release": base64.b64encode(packed).decode()},
    }


def release_document(secret: Manifest) -> dict[str, Any]:
    """Return Helm's record in a Secret, decoded. The record is gzipped JSON that is encoded in base64 twice."""
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    return document


def release_from_secret(secret: Manifest) -> StoredRelease:
    """Return the Helm revision that `secret` stores, a Secret from `release_secret`."""
    document = release_document(secret)
    info, chart = document["info"], document["chart"]["metadata"]
    deleted = info.get("deleted")
    return StoredRelease(
        name=document["name"],
        namespace=document["namespace"],
        version=document["version"],
        status=HelmReleaseStatus(info["status"]),
        chart_name=chart["name"],
        chart_version=chart["version"],
        config=document.get("config", {}),
        config_digest=get_path(chart, "annotations", "config-digest") or "",
        first_deployed=datetime.fromisoformat(info["first_deployed"]),
        last_deployed=datetime.fromisoformat(info["last_deployed"]),
        deleted=None if deleted is None else datetime.fromisoformat(deleted),
        description=info.get("description", ""),
        hooks=tuple(
            ChartHook(hook["name"], hook["kind"], hook.get("manifest", ""), tuple(hook.get("events", ())))
            for hook in document.get("hooks", ())
        ),
    )


def readable_releases(secrets: Iterable[Manifest]) -> Iterator[StoredRelease]:
    """Yield the release in each of `secrets`, which have Helm's labels. Unreadable Secrets are skipped, as by Helm."""
    for secret in secrets:
        # A user may have stored anything: no data, no base64, no gzip, no JSON, no release.
        with suppress(
            ValueError, LookupError, TypeError, AttributeError, OSError, EOFError, zlib.error, RecursionError
        ):
            yield release_from_secret(secret)


# Go escapes these for HTML by default (encoding/json, Marshal); without it the digest in the history would differ.
_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def _go_json(value: Any) -> bytes:
    """Return `value` as JSON in the form of Go's encoding/json.

    The text has no spaces, keys in the given order, and `<`, `>`, `&`, U+2028 and U+2029 escaped.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_GO_ESCAPES).encode()


def _present(**fields: Any) -> dict[str, Any]:
    """Return those of `fields` that are not empty, because Helm omits empty fields."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


def _info(release: StoredRelease) -> dict[str, Any]:
    return _present(
        first_deployed=format_time(release.first_deployed),
        last_deployed=format_time(release.last_deployed),
        deleted=format_time(release.deleted) if release.deleted else None,
        description=release.description,
        status=release.status.value,
    )


def _chart_metadata(release: StoredRelease) -> dict[str, Any]:
    # The values' digest is kept in the chart's annotations, as `config` does not include the values of valuesFrom.
    annotations = {"config-digest": release.config_digest}
    return {
        "name": release.chart_name,
        "version": release.chart_version,
        "apiVersion": "v2",
        "annotations": annotations,
    }


def _config(release: StoredRelease) -> Any:
    return json.loads(canonical_json(dict(release.config)))


def _hooks(release: StoredRelease) -> list[dict[str, Any]]:
    return [
        {
            **_present(
                name=hook.name,
                kind=hook.kind,
                path=f"{release.chart_name}/templates/{hook.name}.yaml",
                manifest=hook.manifest,
                events=list(hook.events),
            ),
            "last_run": {"phase": ""},
        }
        for hook in release.hooks
    ]


def _document(release: StoredRelease) -> dict[str, Any]:
    """Return the release as the JSON document that Helm stores."""
    return _present(
        name=release.name,
        info=_info(release),
        chart={
            "metadata": _chart_metadata(release),
            "lock": None,
            "templates": [],
            "values": {},
            "schema": None,
            "files": [],
        },
        config=_config(release),
        hooks=_hooks(release),
        version=release.version,
        namespace=release.namespace,
        apply_method="ssa",
    )


def _observation(release: StoredRelease, oci_digest: str) -> dict[str, Any]:
    """Return the document whose SHA-256 Flux records in its history.

    It is the release without the content of the chart and without test hooks.
    """
    return {
        "name": release.name,
        "version": release.version,
        "info": _info(release),
        "chartMetadata": _chart_metadata(release),
        "config": _config(release) or None,
        "manifest": "",
        # Without test hooks, or `helm test` by hand would change the digest (internal/release/observation.go,
        # ObserveRelease).
        "hooks": [hook for hook in _hooks(release) if "test" not in hook.get("events", ())] or None,
        "namespace": release.namespace,
        **_present(ociDigest=oci_digest),
    }
