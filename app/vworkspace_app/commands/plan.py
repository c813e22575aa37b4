"""`plan`: the Decision for one source object and what was observed of the cluster, offline."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from vworkspace_app.documents import Format, dump, read_documents
from vworkspace_app.problems import USAGE, CommandError
from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.border import read_application_instance
from vworkspace_core.kinds.labels import (
    CLUSTER_ID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    NAMESPACE_GATE,
    NAMESPACE_GATE_VALUE,
)
from vworkspace_core.kinds.problems import ValidationProblems
from vworkspace_core.known import ALL_KINDS, APPLICATION_INSTANCE, NAMESPACE, OPERATION, known_kind
from vworkspace_core.manifest import Kind, Manifest, ObjectRef, dig, metadata, ref_of
from vworkspace_core.reconcile import Context, Observed, Settings, reconcile
from vworkspace_core.reconcile.render import as_data

__all__ = ["PlanRequest", "plan"]


@attrs.frozen
class PlanRequest:
    """What the command line asked for. `now` is RFC 3339 text; empty means the present."""

    files: Sequence[str]
    cluster_id: str = ""
    now: str = ""
    missing: Sequence[str] = ()
    output: Format = Format.YAML


def plan(request: PlanRequest) -> str:
    """The Decision as text. Raises CommandError for options and input that cannot be understood."""
    if not request.files:
        raise CommandError("give at least one FILE (see vworkspace-operator plan --help)", status=USAGE)
    now, missing = _time(request.now), frozenset(_kind_named(name) for name in request.missing)
    documents = read_documents(request.files)
    manifest, others = _split(documents)
    source = _read(_as_stored(manifest))
    observed = _observed(source, others, missing)
    settings = Settings(cluster_id=request.cluster_id or _cluster_of(manifest))
    if source.metadata.labels.get(MANAGED_BY) != MANAGED_BY_VALUE:
        _note(f"the operator ignores this object: it lacks the label {MANAGED_BY}={MANAGED_BY_VALUE}")
    decision = reconcile(source, observed, Context(settings, now))
    return dump([as_data(decision)], request.output)


def _split(documents: Sequence[Mapping[str, Any]]) -> tuple[Manifest, list[Manifest]]:
    sources = [one for one in documents if _is(one, APPLICATION_INSTANCE)]
    if any(_is(one, OPERATION) for one in documents) and not sources:
        raise CommandError("Operations cannot be planned yet; give one ApplicationInstance")
    if len(sources) != 1:
        raise CommandError(f"exactly one ApplicationInstance is needed to plan; found {len(sources)}")
    return sources[0], [one for one in documents if one is not sources[0]]


def _is(manifest: Manifest, kind: Kind) -> bool:
    return manifest.get("kind") == kind.kind and manifest.get("apiVersion") == kind.api_version


def _as_stored(manifest: Manifest) -> Manifest:
    """As an API server would hold it: a manifest from a file has no uid, generation or resourceVersion yet."""
    stored = {"uid": "00000000-0000-0000-0000-000000000000", "generation": 1, "resourceVersion": "1"}
    return {**manifest, "metadata": {**stored, **metadata(manifest)}}


def _read(manifest: Manifest) -> ApplicationInstance:
    try:
        return read_application_instance(manifest)
    except ValidationProblems as error:
        told = "; ".join(str(problem) for problem in error.problems)
        raise CommandError(f"the ApplicationInstance cannot be read: {told}") from error


def _observed(source: ApplicationInstance, others: Sequence[Manifest], missing: frozenset[Kind]) -> Observed:
    objects: dict[ObjectRef, Manifest] = {}
    namespace: Manifest | None = None
    for manifest in others:
        kind = known_kind(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        if kind is None:
            _note(f"{manifest.get('kind')} {dig(manifest, 'metadata', 'name')} is of no kind that decides anything")
        elif kind == NAMESPACE:
            namespace = manifest if dig(manifest, "metadata", "name") == source.metadata.namespace else namespace
        else:
            objects[ref_of(manifest, kind)] = manifest
    if namespace is None:
        _note(f"no Namespace was given: {source.metadata.namespace} is taken to be gated")
        namespace = _gated(source.metadata.namespace)
    return Observed(namespace, objects, missing)


def _gated(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}},
    }


def _kind_named(name: str) -> Kind:
    for kind in ALL_KINDS:
        if name in (kind.crd_name, kind.kind, kind.plural):
            return kind
    known = ", ".join(sorted(kind.kind for kind in ALL_KINDS))
    raise CommandError(f"--missing {name}: not a kind that the operator knows; those are {known}", status=USAGE)


def _cluster_of(manifest: Manifest) -> str:
    return str(dig(manifest, "metadata", "labels", CLUSTER_ID) or "")


def _time(text: str) -> datetime:
    if not text:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--now {text}: not an RFC 3339 time such as 2026-01-31T12:00:00Z", status=USAGE) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
