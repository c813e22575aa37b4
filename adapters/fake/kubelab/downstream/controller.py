"""The definition of a simulated downstream controller (such as Velero), and helpers for its pass over one object."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.simulation.effects import PassStep, Question, SimulatedPatch
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, patch_between
from purekube.apimachinery.resources import SERVICE_ACCOUNT
from purekube.apimachinery.timestamps import format_time


@attrs.frozen
class WipeMemories(Question[None]):
    """A request of a controller's pass to the simulator: forget all that its controllers remember of the object `ref`.

    A pass yields the request when the data of the object is deleted. The answer is None.
    """

    ref: ObjectRef


@attrs.frozen
class ObjectView:
    """All that a controller sees in one reconcile pass. `live` is the pass's object, or None if it has been deleted.

    `memory` is what the controller remembers of this object from earlier passes. `world` has every observed object of
    the kinds that the controller watches. `memories` has what all controllers remember, by object and uid.
    """

    ref: ObjectRef
    uid: str
    live: Manifest | None
    memory: Any
    now: datetime
    behaviour: DownstreamBehaviour
    world: Mapping[ObjectRef, Manifest]
    memories: Mapping[ObjectRef, Mapping[str, Any]]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The object's spec; empty if it has none."""
        spec = get_path(self.live, "spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def status(self) -> Mapping[str, Any]:
        """The object's status; empty if it has none."""
        status = get_path(self.live, "status")
        return status if isinstance(status, Mapping) else {}

    @property
    def generation(self) -> int:
        """The object's generation; 0 if it has none."""
        return int(metadata(self.live or {}).get("generation") or 0)

    @property
    def deleting(self) -> bool:
        """True if the object has a deletion timestamp."""
        return bool(get_path(self.live, "metadata", "deletionTimestamp"))

    def at(self, seconds: float) -> datetime:
        """Return the time `seconds` from now."""
        return self.now + timedelta(seconds=seconds)

    def timestamp(self) -> str:
        """Return the current time as a string in the format of status fields."""
        return format_time(self.now)

    def all_of(self, kind: Kind, namespace: str | None = None) -> Iterator[tuple[ObjectRef, Manifest]]:
        """Yield the observed objects of a kind, in one namespace or, if that is None, in all namespaces."""
        for ref in sorted(ref for ref in self.world if ref.kind == kind and namespace in (None, ref.namespace)):
            yield ref, self.world[ref]


@attrs.frozen
class PassResult:
    """The result of one reconcile pass: what the controller remembers of the object, and the time of the next pass.

    If `memory` is None, the controller forgets the object. `interval` is True if no work remains and the next pass is
    only a periodic one. `error` is the text that the controller would log.
    """

    memory: Any = None
    requeue_at: datetime | None = None
    interval: bool = False
    error: str = ""


NOTHING: Final = PassResult()
"""The result of a pass after which the controller remembers nothing of the object, and plans no further pass."""

Wakes: TypeAlias = Callable[[ObjectRef, Mapping[ObjectRef, Manifest]], Iterable[ObjectRef]]
"""A function that returns the objects to reconcile after the given object changed, in addition to that object."""


def waiting_for(
    kinds: Sequence[Kind], subjects: Sequence[Kind], waits: Callable[[Manifest, ObjectRef], bool] = lambda *_: True
) -> Wakes:
    """Return a function that finds the objects of the kinds `subjects` that may wait for a change of one of `kinds`.

    These are the objects in its namespace (in all namespaces if it is cluster-scoped) for which `waits`, a function of
    an object and of the reference of the changed one, is true.
    """

    def wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
        if ref.kind not in kinds:
            return []
        return [
            other
            for other, manifest in world.items()
            if other.kind in subjects and ref.namespace in (None, other.namespace) and waits(manifest, ref)
        ]

    return wakes


@attrs.frozen
class DownstreamController:
    """The definition of one simulated controller.

    `subjects` are the kinds that it reconciles; `watches` are further kinds that it observes. After an object changed,
    `wakes` returns the objects to reconcile in addition to the changed object. `restarted` takes the controller's
    memory of an object, and returns the part that a restart of the controller does not lose, or None.
    """

    name: str
    subjects: tuple[Kind, ...]
    reconcile: Callable[[ObjectView], PassStep[PassResult]]
    watches: tuple[Kind, ...] = ()
    wakes: Wakes = lambda _ref, _world: ()
    restarted: Callable[[Any], Any] = lambda memory: memory


def change(view: ObjectView, after: Mapping[str, Any], *, subresource: str = "") -> PassStep[None]:
    """Patch the object in `view`, so that it has the top-level fields of `after`.

    `subresource` is the subresource that is patched, such as `status`; empty for the object itself. No patch is sent if
    the object has the fields already.
    """
    before = view.live or {}
    body = {key: after[key] for key in after if after[key] != before.get(key)}
    patch: dict[str, Any] = {}
    for key, value in body.items():
        known = before.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        patch[key] = patch_between(known, value) if both else value  # type: ignore[arg-type]
    if patch:
        yield SimulatedPatch(view.ref, view.uid, patch, subresource)


def with_finalizers(view: ObjectView, *desired: str) -> dict[str, Any]:
    """Return the metadata of the object in `view`, with the finalizers `desired` added after the existing ones."""
    meta = metadata(view.live or {})
    present = list(meta.get("finalizers") or ())
    return {**meta, "finalizers": [*present, *(name for name in desired if name not in present)]}


def without_finalizers(ref: ObjectRef, live: Manifest | None, *gone: str) -> PassStep[None]:
    """Remove the finalizers `gone` from the object `ref`, which is `live` now. Send no patch if it has none of them."""
    present = metadata(live or {}).get("finalizers") or ()
    left = [name for name in present if name not in gone]
    if len(left) < len(present):
        yield SimulatedPatch(ref, uid_of(live or {}), {"metadata": {"finalizers": left}})


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the earliest of `moments`, of which some may be None. Return None if all are None."""
    return min((moment for moment in moments if moment is not None), default=None)


def with_condition(
    conditions: Sequence[Mapping[str, Any]], new: Mapping[str, Any], now: datetime, **extra: Any
) -> list[dict[str, Any]]:
    """Return `conditions` with the condition of the same type replaced by `new`, or with `new` added.

    `extra` are further fields of the condition, such as `lastUpdateTime`. They and the transition time, which becomes
    `now`, change only if the condition's status changes.
    """
    old = next((item for item in conditions if item.get("type") == new["type"]), None)
    moved = old is None or old.get("status") != new["status"]
    changed = format_time(now) if moved else (old or {}).get("lastTransitionTime")
    kept = extra if moved else {key: (old or {}).get(key, value) for key, value in extra.items()}
    entry = {**new, "lastTransitionTime": changed, **kept}
    if old is None:
        return [*map(dict, conditions), entry]
    return [entry if item is old else dict(item) for item in conditions]


def uid_of(manifest: Manifest) -> str:
    """Return the uid of the object `manifest`, or an empty string if it has none."""
    return str(metadata(manifest).get("uid", ""))


@attrs.frozen
class Attempt:
    """One try of a controller's work, such as a backup or the run of a pod.

    The attempt ends at `until`, which is None for a stalled attempt, because that never ends. `used` are the rules of
    this attempt and of those before it.
    """

    outcome: DownstreamOutcome
    began: datetime
    until: datetime | None
    rule: DownstreamRule | None = None
    used: tuple[DownstreamRule, ...] = ()


def begin(view: ObjectView, used: tuple[DownstreamRule, ...], seconds: float) -> Attempt:
    """Return a new attempt at the work for the object in `view`, such as a backup or the run of a pod.

    How the attempt ends is chosen by the rules with which a test has configured the controller. It takes `seconds`,
    unless the chosen rule sets another duration. `used` are the rules of earlier attempts, since a rule may
    apply to a limited number of them.
    """
    rule = view.behaviour.choose(view.ref, used)
    outcome = rule.outcome if rule is not None else DownstreamOutcome()
    takes = outcome.seconds if outcome.seconds is not None else seconds
    until = None if outcome.ending is Ending.STALL else view.at(takes)
    return Attempt(outcome, view.now, until, rule, used if rule is None else (*used, rule))


@attrs.frozen
class Trying:
    """A controller's memory of work on one object that is tried until it succeeds, such as providing a volume.

    A failed attempt is followed by another at `retry_at`; `failures` is the number of those that have failed. `used`
    are the rules of all attempts.
    """

    attempt: Attempt | None = None
    used: tuple[DownstreamRule, ...] = ()
    retry_at: datetime | None = None
    failures: int = 0

    def going_on(self, view: ObjectView, seconds: float) -> tuple["Trying", Attempt]:
        """Return the memory with the attempt in progress, and that attempt, which takes `seconds` if it is a new one.

        A new attempt begins if there is none, or if the rule that stalled the present one has been removed.
        """
        if self.attempt is not None and not released(view, self.attempt):
            return self, self.attempt
        attempt = begin(view, self.used, seconds)
        return attrs.evolve(self, attempt=attempt, used=attempt.used, retry_at=None), attempt


def released(view: ObjectView, attempt: Attempt) -> bool:
    """Report whether the rule that stalled `attempt` has been removed since, so that a new attempt may begin."""
    return attempt.until is None and attempt.rule not in view.behaviour.rules


def account_refusal(view: ObjectView, account: Any, pod: str) -> str:
    """Return the message that refuses the pod named `pod` because its service account `account` does not exist.

    Return an empty string if the account exists. The account `default` exists in every namespace.
    """
    name, space = str(account or "default"), view.ref.namespace
    if name == "default" or ObjectRef(SERVICE_ACCOUNT, space, name) in view.world:
        return ""
    missing = f'serviceaccount "{name}" not found'
    return f'pods "{pod}" is forbidden: error looking up service account {space}/{name}: {missing}'
