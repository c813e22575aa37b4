"""The replay of a cluster's recording: what would this version have decided at each recorded moment (SIM-3)?

An instance or Operation is decided whenever an object that its decision reads has changed. The recorded operator needed
a moment for its writes: a decision counts as different once the recorded objects have lacked its writes for ten
seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Apply, Decision, effects_of
from purekube.controller.drift import needs_apply
from purekube_run.process.yaml_documents import parse_yaml
from purekube_run.simulation.laws import clock
from vworkspace_app.simulation.masking import MARK, holds_masked
from vworkspace_app.simulation.recording import RecordedObject, Recording
from vworkspace_app.simulation.run_history import RunDecision, RunHistory, RunMoment
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID, OPERATION_UID
from vworkspace_core.api.operation import TERMINAL_PHASES, Operation, Phase
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.context import OperationContext, OperationObserved, operations_on
from vworkspace_core.operations.identity import target_ref
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.settings import OperationSettings

IN_PROGRESS: Final = 10.0
"""The seconds for which the recorded objects may lack the writes of a decision before it counts as different."""
_DECIDED: Final = (APPLICATION_INSTANCE, OPERATION)
_OWNERS: Final = {INSTANCE_UID: APPLICATION_INSTANCE, OPERATION_UID: OPERATION}


@attrs.frozen
class RecordedDifference:
    """A difference: writes that this version of the operator decides, but that the recorded objects do not show.

    `decision` has these writes, decided for the object `ref`. `since` and `until` limit the time in which the recorded
    objects lacked them, in seconds since the recording began.
    """

    ref: ObjectRef
    since: float
    until: float
    decision: RunDecision

    def __str__(self) -> str:
        when = f"from {clock(self.since)} to {clock(self.until)}"
        return f"{self.ref} {when}: this version {', '.join(self.decision.effects)} [{self.decision.row}]"


@attrs.frozen
class ReplayedRecording:
    """The result of a replay: the recording's history with the decisions of this version of the operator.

    `differences` are the decided writes that the recorded objects do not show. `decided` is the number of decisions.
    """

    history: RunHistory
    differences: tuple[RecordedDifference, ...]
    decided: int

    def verdict(self) -> Iterator[str]:
        """Yield the lines of the verdict: one for each difference, or a single line if there is none."""
        for difference in self.differences:
            yield f"differs  {difference}"
        if not self.differences:
            yield f"the recorded objects show what this version decides: {self.decided:,} decisions"


def replayed(recording: Recording, settings: Settings) -> ReplayedRecording:
    """Make the decisions of this version of the operator on the recorded objects, and return them with the recording.

    `settings` are those of the recorded operator.
    """
    replay = _Replay(recording, settings)
    replay.run()
    return ReplayedRecording(replay.history, tuple(replay.differences), replay.decided)


class _Replay:
    """A running replay of a recording. It has the objects in their state at the present moment.

    It also remembers each decision whose writes the recorded objects do not show yet.
    """

    def __init__(self, recording: Recording, settings: Settings) -> None:
        self.recording = recording
        self.settings = settings
        self.history = RunHistory(recording.start)
        self.differences: list[RecordedDifference] = []
        self.decided = 0
        self._objects: dict[ObjectRef, Manifest] = {}
        self._open: dict[ObjectRef, tuple[float, RunDecision]] = {}
        self._templates = builtin_templates()

    def run(self) -> None:
        """Replay all changes. No decision is made before the first lists are complete."""
        changes = self.recording.changes
        first = max((number for number, change in enumerate(changes) if change.is_listed), default=-1)
        for number, change in enumerate(changes):
            self._take(change)
            if number == first:
                self._decide(change.at, sorted(ref for ref in self._objects if ref.kind in _DECIDED))
            elif number > first:
                self._decide(change.at, self._concerned(change))
        end = self.recording.seconds
        for ref, (since, decision) in sorted(self._open.items(), key=lambda each: each[0]):
            self._conclude(ref, since, decision, until=end)

    def _take(self, change: RecordedObject) -> None:
        if change.manifest is None:
            self._objects.pop(change.ref, None)
            if change.ref in self._open:
                self._conclude(change.ref, *self._open.pop(change.ref), until=change.at)
        else:
            self._objects[change.ref] = change.manifest
        raw = None if change.manifest is None else msgspec.json.encode(change.manifest)
        self.history.objects.note(change.ref, raw)
        what = (
            "is gone"
            if change.manifest is None
            else f"resourceVersion {metadata(change.last).get('resourceVersion', '')}"
        )
        text = _event_text(change.last) if change.ref.kind == EVENT else what
        self._note(change.at, "cluster", safe(f"{change.ref}: {text}"))

    def _note(
        self, at: float, actor: str, text: str, decision: RunDecision | None = None, *, differs: bool = False
    ) -> None:
        self.history.moments.append(RunMoment(at, actor, text, self.history.objects.count, decision, differs))

    def _concerned(self, change: RecordedObject) -> Iterable[ObjectRef]:
        """Return the instances and Operations whose decisions read the changed object."""
        ref = change.ref
        if ref.kind == EVENT:
            return ()
        labels = metadata(change.last).get("labels") or {}
        owners = {(kind, labels[label]) for label, kind in _OWNERS.items() if label in labels}
        if ref.kind in (CUSTOM_RESOURCE_DEFINITION, NAMESPACE):
            concerned = (other for other in self._objects if ref.kind != NAMESPACE or other.namespace == ref.name)
        elif owners:
            concerned = (o for o, live in self._objects.items() if (o.kind, metadata(live).get("uid")) in owners)
        else:
            concerned = (other for other in self._objects if other.namespace == ref.namespace)
        return sorted(other for other in concerned if other.kind in _DECIDED)

    def _decide(self, at: float, refs: Iterable[ObjectRef]) -> None:
        for ref in refs:
            decision = self._decision(ref, self.recording.start + timedelta(seconds=at))
            shown = RunDecision(ref.kind.kind.lower(), ref, decision.row, tuple(effects_of(decision)))
            self.decided += 1
            if ref in self._open and self._open[ref][1].effects != shown.effects:
                self._conclude(ref, *self._open.pop(ref), until=at)
            if shown.effects:
                self._open.setdefault(ref, (at, shown))
            self._note(at, "this version", str(shown), shown)

    def _conclude(self, ref: ObjectRef, since: float, decision: RunDecision, *, until: float) -> None:
        """Record a difference that lasted from `since` to `until`, in seconds, unless it was too short to count.

        A decision takes some time to be executed.
        """
        if until - since >= IN_PROGRESS:
            difference = RecordedDifference(ref, since, until, decision)
            self.differences.append(difference)
            self._note(until, "law", f"differs: {difference}", differs=True)

    def _decision(self, ref: ObjectRef, now: datetime) -> Decision:
        manifest = self._objects[ref]
        try:
            return (
                self._of_instance(ref, manifest, now)
                if ref.kind == APPLICATION_INSTANCE
                else self._of_operation(ref, manifest, now)
            )
        except ValidationProblems:
            return Decision(row="not decided: it cannot be read")

    def _of_instance(self, ref: ObjectRef, manifest: Manifest, now: datetime) -> Decision:
        if get_path(manifest, "status", "releaseOverride") and holds_masked(manifest.get("spec")):
            return Decision(row="not decided: whether its override holds depends on masked values")
        source = read_application_instance(manifest)
        mine = [live for other, live in self._objects.items() if other.kind == OPERATION]
        override, withdrawn = release_request(source, list(operations_on(ref, mine, self.settings.cluster_id)))
        observed = self._snapshot(ref)
        context = Context(self.settings, now)
        full = InstanceObserved(
            observed.namespace, observed.objects, observed.missing, override=override, withdrawn=withdrawn
        )
        decision = reconcile(source, full, context)
        stamped = _with_desired_hashes(decision.applies, full.objects)
        return decision if stamped is None else reconcile(source, attrs.evolve(full, objects=stamped), context)

    def _of_operation(self, ref: ObjectRef, manifest: Manifest, now: datetime) -> Decision:
        source = read_operation(manifest)
        if self._is_secretly_decided(source):
            return Decision(row="not decided: its approval is not recorded")
        mine = [live for other, live in self._objects.items() if other.kind == OPERATION and other != ref]
        siblings = tuple(operations_on(target_ref(source), mine, self.settings.cluster_id))
        snapshot = self._snapshot(ref)
        observed = OperationObserved(snapshot.namespace, snapshot.objects, snapshot.missing, siblings=siblings)
        cluster_id = self.settings.cluster_id
        context = OperationContext(
            OperationSettings(cluster_id),
            now,
            Claims(None, cluster_id),
            templates=self._templates,
            parse_yaml=parse_yaml,
        )
        return reconcile_operation(source, observed, context)

    def _is_secretly_decided(self, operation: Operation) -> bool:
        """Report whether the decision on an Operation depends on an approval, which a recording does not contain.

        That is so if the Operation has not started, and may need an approval.
        """
        if operation.status.phase in (Phase.RUNNING, *TERMINAL_PHASES):
            return False
        template = self._templates.find(operation.spec.type, operation.spec.engine)
        approvals = operation.spec.approvals
        return template is None or template.needs_approval or (approvals is not None and approvals.required)

    def _snapshot(self, ref: ObjectRef) -> "_Snapshot":
        objects = {other: live for other, live in self._objects.items() if other != ref and other.kind != EVENT}
        definitions = {other.name for other in objects if other.kind == CUSTOM_RESOURCE_DEFINITION}
        missing = frozenset(kind for kind in DOWNSTREAM_KINDS if kind.group and kind.crd_name not in definitions)
        return _Snapshot(objects.get(ObjectRef(NAMESPACE, None, ref.namespace or "")), objects, missing)


@attrs.frozen
class _Snapshot:
    namespace: Manifest | None
    objects: Mapping[ObjectRef, Manifest]
    missing: frozenset[Any]


def _event_text(event: Manifest) -> str:
    regarding = get_path(event, "regarding") or {}
    namespace = f"{place}/" if (place := get_path(regarding, "namespace")) else ""
    about = f"{get_path(regarding, 'kind')} {namespace}{get_path(regarding, 'name')}"
    return f"{event.get('type')} {event.get('reason')} about {about}: {event.get('note', '')}"


def _with_desired_hashes(
    applies: Iterable[Apply], objects: Mapping[ObjectRef, Manifest]
) -> dict[ObjectRef, Manifest] | None:
    """Return `objects`, in which masked hashes are replaced by the hashes in `applies`.

    A recording has masked hashes for objects with values, so hashes cannot be compared. Instead a hash is replaced if
    the object does not differ from the apply in anything else. Return None if no hash was replaced.
    """
    stamped = {}
    for apply in applies:
        live = objects.get(apply.ref)
        if live is None or not str(get_path(live, "metadata", "annotations", APPLIED_HASH)).startswith(MARK):
            continue
        meta = metadata(live)
        hashes = {APPLIED_HASH: get_path(apply.manifest, "metadata", "annotations", APPLIED_HASH)}
        same = {**live, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **hashes}}}
        values = (get_path(manifest, "spec", "values") for manifest in (live, apply.manifest))
        if len({msgspec.json.encode(each, order="sorted") for each in values}) == 1 and not needs_apply(
            apply.manifest, same
        ):
            stamped[apply.ref] = same
    return {**objects, **stamped} if stamped else None
