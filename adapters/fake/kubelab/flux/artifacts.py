"""Artifacts in a source's status, source-controller's messages for failures, and chart versions in Flux's notation."""

import hashlib
import operator
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from kubelab.flux.behaviour import PullAnswer, PullRequest, SourceFault
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.timestamps import format_time

# Lenient like Flux's library: a leading v and missing minor or patch numbers are accepted.
_SEMVER: Final = re.compile(
    r"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+(?P<meta>[0-9A-Za-z.-]+))?"
)
_COMPARED: Final = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq}
# Helm's limit leaves ten of a label's 63 characters to the names that charts derive from the release.
_MAX_RELEASE_NAME: Final = 53
_SHORT_HASH: Final = 12


def sha256_of(text: str) -> str:
    """Return `sha256:<64 hex>` of the UTF-8 text."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def is_range(reference: str) -> bool:
    """Report whether `reference`, the version in a Flux source, is a range such as `>=1.0.0 <2.0.0`."""
    return reference[:1] in "<>=^~*" and bool(reference)


def newest_within(desired: str, versions: Iterable[str]) -> str | None:
    """Return the newest of `versions` that satisfies every comparison of the range `desired`, or None if none does.

    Raises ValueError for a part that is not a comparison. Ranges with `^`, `~` and `||` are not simulated.
    """
    bounds = [_bound(part) for part in desired.replace(",", " ").split() if part != "*"]
    fitting = [item for item in versions if all(_COMPARED[sign](_numbers(item), least) for sign, least in bounds)]
    return max(fitting, key=_numbers, default=None)


def _bound(part: str) -> tuple[str, tuple[int, ...]]:
    match = re.fullmatch(r"(>=|<=|>|<|=)(.+)", part)
    if match is None:
        raise ValueError(f"not simulated: the range {part}")
    return match[1], _numbers(match[2])


def _numbers(version: str) -> tuple[int, ...]:
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"invalid chart version {version}")
    return tuple(int(match[part] or "0") for part in ("major", "minor", "patch"))


def chart_version_of_tag(tag: str) -> str:
    """Return the version of the chart that was pushed under `tag`.

    Registries refuse `+`, so tags have `_` in its place. A tag that is not a version (`latest`) does not show the
    chart's version; such charts are simulated as 0.1.0.
    """
    # OCI allows no `+` in a tag; Helm pushes `_` in its place (Helm: pkg/registry/reference.go).
    version = tag.replace("_", "+")
    return version if _SEMVER.fullmatch(version) is not None else "0.1.0"


def with_digest_metadata(version: str, digest: str) -> str:
    """Return `version` with its build metadata replaced by 12 hex digits of `digest`, as helm-controller does."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"invalid chart version {version}")
    numbers = ".".join(match[part] or "0" for part in ("major", "minor", "patch"))
    # The chart's own build metadata is lost: SetMetadata replaces it (helmrelease_controller.go,
    # mutateChartWithSourceRevision).
    pre = f"-{match['pre']}" if match["pre"] else ""
    return f"{numbers}{pre}+{digest.rpartition(':')[2][:_SHORT_HASH]}"


def short_release_name(name: str) -> str:
    """Return `name`, shortened if it is longer than the 53 characters that Helm allows.

    A shortened name has the first 40 characters, a dash and 12 hex digits of the name's SHA-256.
    """
    if len(name) <= _MAX_RELEASE_NAME:
        return name
    # helm-controller: internal/release/name.go, ShortenName.
    digest = hashlib.sha256(name.encode()).hexdigest()[:_SHORT_HASH]
    return f"{name[: _MAX_RELEASE_NAME - _SHORT_HASH - 1]}-{digest}"


IMAGE_VERSION: Final = "org.opencontainers.image.version"
"""The annotation of a pushed chart with the chart's version.

It is copied to the artifact in a source's status if the artifact's revision does not contain the version.
"""
_STORAGE: Final = "http://source-controller.flux-system.svc.cluster.local."


def _folder(ref: ObjectRef) -> str:
    return f"{ref.kind.kind.lower()}/{ref.namespace}/{ref.name}"


def storage_url(ref: ObjectRef, file_name: str) -> str:
    """Return the URL at which source-controller serves the file `file_name` of the source `ref`."""
    return f"{_STORAGE}/{_folder(ref)}/{file_name}"


def new_artifact(ref: ObjectRef, revision: str, file_name: str, now: datetime) -> dict[str, Any]:
    """Return the value of `status.artifact` for a revision of the source `ref`, stored as the file `file_name`.

    `now` becomes the artifact's time of update. Digest and size are those of the file that source-controller stores,
    not of the file that it pulled.
    """
    digest = sha256_of(f"{ref.kind.kind}:{revision}")
    return {
        "digest": digest,
        "lastUpdateTime": format_time(now),
        "path": f"{_folder(ref)}/{file_name}",
        "revision": revision,
        "size": 1024 + int(digest[-4:], 16),
        "url": storage_url(ref, file_name),
    }


def has_revision(manifest: Manifest, revision: str) -> bool:
    """Report whether the present artifact of the source `manifest` has the revision `revision`."""
    return bool(revision) and get_path(manifest, "status", "artifact", "revision") == revision


def _host(url: str) -> tuple[str, str]:
    host, _, path = url.partition("://")[2].partition("/")
    return host, path


def oci_failure(request: PullRequest, answer: PullAnswer) -> tuple[str, str]:
    """Return two values: reason and message of the condition FetchFailed of an OCIRepository whose pull failed.

    `answer` is the registry's answer to `request`. A 401 gives the reason OCIArtifactPullFailed.
    """
    host, path = _host(request.url)
    address = f"https://{host}/v2/{path}/manifests/{request.version}"
    match answer.fault:
        case SourceFault.CREDENTIALS:
            return "AuthenticationFailed", f"failed to get credential: {answer.message or 'invalid pull secret'}"
        case SourceFault.INVALID_URL:
            detail = answer.message or f"could not parse reference: {path}"
            return "URLInvalid", f"URL validation failed for '{request.url}': {detail}"
        case SourceFault.CORRUPT:
            return "OCIArtifactLayerOperationFailed", answer.message or "no layers found in artifact"
        case SourceFault.UNAUTHORIZED:
            detail = answer.message or f"GET {address}: UNAUTHORIZED: authentication required"
        case SourceFault.NOT_FOUND:
            detail = answer.message or f"GET {address}: MANIFEST_UNKNOWN: manifest unknown; map[Tag:{request.version}]"
        case _:
            detail = answer.message or f'Get "https://{host}/v2/": dial tcp: lookup {host}: no such host'
    return "OCIArtifactPullFailed", f"failed to determine artifact digest: {detail}"


def index_failure(request: PullRequest, answer: PullAnswer) -> tuple[str, str]:
    """Return the reason and the message of the condition FetchFailed, for a HelmRepository whose index was not fetched.

    `answer` is the repository's answer to `request`.
    """
    index = f"{request.url.rstrip('/')}/index.yaml"
    match answer.fault:
        case SourceFault.CREDENTIALS:
            return "AuthenticationFailed", answer.message or "failed to get authentication secret"
        case SourceFault.INVALID_URL:
            detail = answer.message or f'parse "{request.url}": invalid character in host name'
            return "URLInvalid", f"invalid Helm repository URL: {detail}"
        case SourceFault.CORRUPT:
            detail = answer.message or "failed to load index: no API version specified"
            return "IndexationFailed", f"failed to load Helm repository from index YAML: {detail}"
        case SourceFault.UNAUTHORIZED:
            detail = answer.message or f"failed to cache index: failed to fetch {index} : 401 Unauthorized"
        case SourceFault.NOT_FOUND:
            detail = answer.message or f"failed to cache index: failed to fetch {index} : 404 Not Found"
        case _:
            host = _host(request.url)[0]
            detail = answer.message or f'failed to cache index: Get "{index}": dial tcp: lookup {host}: no such host'
    return "Failed", f"failed to fetch Helm repository index: {detail}"


def chart_failure(request: PullRequest, answer: PullAnswer) -> tuple[str, str]:
    """Return the reason and the message of the condition FetchFailed, for a HelmChart that could not be fetched.

    `answer` is the repository's answer to `request`.
    """
    match answer.fault:
        case SourceFault.NOT_FOUND:
            detail = answer.message or (
                f"failed to get chart version for remote reference: "
                f"no '{request.chart}' chart with version matching '{request.version}' found"
            )
            return "InvalidChartReference", f"invalid chart reference: {detail}"
        case SourceFault.UNAUTHORIZED:
            detail = answer.message or "failed to download chart for remote reference: 401 Unauthorized"
            return (
                "AuthenticationFailed",
                f"failed to authenticate with the Helm repository: chart pull error: {detail}",
            )
        case SourceFault.CREDENTIALS:
            return "AuthenticationFailed", answer.message or "failed to get authentication secret"
        case SourceFault.INVALID_URL:
            return "URLInvalid", f"invalid Helm repository URL: {answer.message or request.url}"
        case _:
            detail = answer.message or "failed to download chart for remote reference: i/o timeout"
            return "ChartPullError", f"chart pull error: {detail}"


def not_found(kind: Kind, name: str) -> str:
    """Return the message that the object `name` of `kind` is missing, in the words of controller-runtime's client."""
    return f'{kind.kind}.{kind.group} "{name}" not found'
