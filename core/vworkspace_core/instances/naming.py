"""Names of the objects that a HelmRelease reads: derived from content, so new content is a new object (REC-3, REC-6 b).

A source that was changed in place would be fetched by Flux before the HelmRelease with the new values is applied: a new
chart would run with old values, for as long as that apply is refused or its process is gone.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.names import closed_name
from vworkspace_core.api.application_instance import Release

_HASH_DIGITS: Final = 8
_INTEGRATIONS: Final = "-integrations"
_CLOSED: Final = re.compile(r"-[0-9a-f]{8}\Z")


@attrs.frozen
class Names:
    """Names of the chart's source, and of the ConfigMap with the integrations below values that are not ours."""

    source: str
    fragment: str


def names_of(release: Release, fetched: Mapping[str, Any], fragment: Mapping[str, Any], uid: str) -> Names:
    """Return the names derived from the content; the ConfigMap's also from the instance's uid, so that it is unique.

    `fetched` is the part of the source's spec that decides what is fetched; the interval does not.
    """
    return Names(
        source=closed_name(release.name, content_hash(fetched)[:_HASH_DIGITS]),
        fragment=closed_name(
            f"{release.name}{_INTEGRATIONS}", content_hash({"uid": uid, "values": fragment})[:_HASH_DIGITS]
        ),
    )


def former_names(release: Release) -> Names:
    """Return the names that were used before sources were immutable."""
    return Names(source=release.name, fragment=f"{release.name}{_INTEGRATIONS}")


def releases_of(name: str) -> Iterator[str]:
    """Yield the releases for which an object of that name may have been created, or whose object it may obstruct."""
    yield name
    bare = _CLOSED.sub("", name)
    if bare != name:
        yield bare
    if bare.endswith(_INTEGRATIONS):
        yield bare.removesuffix(_INTEGRATIONS)
