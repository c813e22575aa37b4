"""Events in the core group and in `events.k8s.io`: the same stored objects under two schemas."""

from collections.abc import Iterator
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in
from kubelab.model.definition import Behaviour
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import EVENT
from purekube.schema.builtin import basic_schemas as schemas
from purekube.schema.causes import invalid_value, required
from purekube.schema.structure import equal

# The server counts bytes, although its message says characters.
MAX_NOTE: Final = 1024
_SERVED: Final = frozenset(("v1", "events.k8s.io/v1"))

# The name in events.k8s.io, then the name in the core group.
_RENAMED: Final = (
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_TO_CORE: Final = dict(_RENAMED)
_TO_NEW: Final = {core: new for new, core in _RENAMED}


def core_event_of(event: Manifest) -> dict[str, Any]:
    """Return an `events.k8s.io/v1` Event in the form of the core group. A core Event is returned unchanged."""
    if event["apiVersion"] == "v1":
        return dict(event)
    return {_TO_CORE.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}


def new_event_of(event: Manifest) -> dict[str, Any]:
    """Return a core Event in the form of `events.k8s.io/v1`. An Event of that group is returned unchanged."""
    if event["apiVersion"] == EVENT.api_version:
        return dict(event)
    return {_TO_NEW.get(key, key): value for key, value in event.items()} | {"apiVersion": EVENT.api_version}


def _check_new(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a new `events.k8s.io` Event: its fields, text lengths, type, series and namespace."""
    # pkg/apis/core/validation/events.go: its messages show no value.
    for key in ("reportingController", "reportingInstance", "action", "reason"):
        if not manifest.get(key):
            yield required(key)
        elif len(manifest[key]) > 128:
            yield invalid_value(key, "", "can have at most 128 characters")
    if not manifest.get("eventTime"):
        yield required("eventTime")
    if manifest.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", "", "has invalid value: " + str(manifest.get("type") or ""))
    if len((manifest.get("note") or "").encode()) > MAX_NOTE:
        yield invalid_value("note", "", "can have at most 1024 characters")
    yield from _check_series(manifest)
    yield from _check_place(manifest, "regarding")


def _check_series(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of an Event's `series`, the record of its repetitions.

    It must count two occurrences or more, and have the time of the last one.
    """
    series = manifest.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _check_place(manifest: Manifest, field: str) -> Iterator[StatusCause]:
    """Yield a problem if an Event is in the wrong namespace.

    An Event belongs in the namespace of the object that it is about or, if that object is cluster-scoped, in `default`
    or `kube-system`. `field` is the Event's field with the reference to that object.
    """
    about = (manifest.get(field) or {}).get("namespace") or ""
    here = manifest["metadata"].get("namespace")
    # kubernetes: apis/core/validation/events.go, legacyValidateEvent: for a cluster-scoped object.
    if about != here and (about or here not in ("default", "kube-system")):
        # The path is that of the core group even for an Event of events.k8s.io.
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


def _check_new_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of an update of an Event, which may change only the series."""
    fixed = ("action", "reason", "note", "type", "regarding", "related", "reportingController", "reportingInstance")
    for key in (*fixed, "eventTime"):
        if not equal(new.get(key), old.get(key)):
            yield invalid_value(key, new.get(key), "field is immutable")
    yield from _check_series(new)


EVENTS: Final = (
    built_in(
        schemas.CORE_EVENT,
        Behaviour(
            skeleton={"involvedObject": {}, "source": {}},
            check=lambda manifest: _check_place(manifest, "involvedObject"),
            check_update=lambda new, old: (),
        ),
        short_names=("ev",),
        served=_SERVED,
        selectable_fields=(
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "reason",
            "type",
        ),
    ),
    built_in(
        schemas.EVENT,
        Behaviour(
            skeleton={"regarding": {}, "deprecatedSource": {}},
            check=_check_new,
            check_update=_check_new_update,
        ),
        short_names=("ev",),
        served=_SERVED,
        selectable_fields=("regarding.kind", "regarding.name", "regarding.namespace", "reason", "type"),
    ),
)
