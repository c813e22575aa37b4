"""Chart versions and OCI digests, in Flux's notation."""

import hashlib
import operator
import re
from collections.abc import Iterable
from typing import Final

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


def is_semver(version: str) -> bool:
    """Report whether Flux can read `version` as a semantic version."""
    return _SEMVER.fullmatch(version) is not None


def is_range(reference: str) -> bool:
    """Report whether a reference is a range of versions, such as `>=1.0.0 <2.0.0`."""
    return reference[:1] in "<>=^~*" and bool(reference)


def newest_within(desired: str, versions: Iterable[str]) -> str | None:
    """Return the newest version that satisfies every comparison of a range; None if there is none.

    Raises ValueError for a part that is no comparison, since `^`, `~` and `||` are not simulated.
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

    Registries refuse `+`, so tags have `_` in its place. A tag that is no version (`latest`) does not show the chart's
    version; such charts are simulated as 0.1.0.
    """
    version = tag.replace("_", "+")
    return version if is_semver(version) else "0.1.0"


def with_digest_metadata(version: str, digest: str) -> str:
    """Return `version` with its build metadata replaced by 12 hex digits of `digest`, as helm-controller does."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"invalid chart version {version}")
    numbers = ".".join(match[part] or "0" for part in ("major", "minor", "patch"))
    pre = f"-{match['pre']}" if match["pre"] else ""
    return f"{numbers}{pre}+{digest.rpartition(':')[2][:_SHORT_HASH]}"


def short_release_name(name: str) -> str:
    """Return `name` in at most Helm's 53 characters: its first 40, a dash and 12 hex digits of its SHA-256."""
    if len(name) <= _MAX_RELEASE_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_SHORT_HASH]
    return f"{name[: _MAX_RELEASE_NAME - _SHORT_HASH - 1]}-{digest}"
