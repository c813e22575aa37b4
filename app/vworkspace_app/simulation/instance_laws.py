"""The laws (required properties) of ApplicationInstances, their children, and jobs (PULL-3, PULL-4).

They are checked at every change. A job is a unit of work of the control plane.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import attrs

from kubelab.clock import START
from kubelab.model.records import Record
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import HELM_RELEASE, SECRET
from purekube.apimachinery.timestamps import parse_time
from purekube.controller.ownership import owner_uids
from purekube_run.simulation.laws import place_of
from vworkspace_app.simulation.checks import OperatorChecks, course_of, status_flaws, succession_flaws
from vworkspace_app.simulation.operator_world import CLUSTER_ID, OWN_NAMESPACE
from vworkspace_app.simulation.settled_laws import CHILDREN, is_abandoned, is_ready, sources_of
from vworkspace_app.simulation.workload_requests import FORGED, STRAY, is_forged
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.jobs.store.codec import head_name
from vworkspace_fake.controlplane.jobs import JobEntry

_UNANSWERED: Final = 60.0
"""The seconds within which some request meets a fault of the next request to the control plane."""


class JobLaws:
    """The checks of the laws (required properties) of jobs of the control plane in a simulated run.

    Several do not apply after a restore of etcd, in which records of answered jobs are lost.
    """

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._world = laws.operator_world
        self._confirmed: set[str] = set()
        """The keys of jobs whose instance was seen in the state that the job requests."""
        self._gone: dict[str, float] = {}
        self._done: set[ObjectRef] = set()
        """The Operations that were seen in the phase Succeeded."""
        self._answered: set[str] = set()
        """The keys of jobs that were answered."""
        self._forged: set[str] = set()
        """The ids of acknowledged jobs whose content was replaced after they were signed."""
        self._first: dict[str, str] = {}
        """The id of the first job of each key. Later jobs repeat that one, and may be answered earlier."""
        self._applied: set[str] = set()
        """The keys that were seen on an object."""
        self._succeeded: dict[str, datetime] = {}
        """The time at which the first job of each key succeeded."""
        self._places: dict[str, tuple[float, int]] = {}
        """The time at which each key was offered in a calm cluster, and its position in that offer."""
        self._newest: defaultdict[str, int] = defaultdict(int)
        """The highest generation that has succeeded, by object."""
        jobs, inform = self._world.control.jobs, self._world.inform
        jobs.on_offer.append(partial(inform, self._offered))
        jobs.on_ack.append(partial(inform, self._acked))
        jobs.on_result.append(partial(inform, self._resulted))

    def gone(self, ref: ObjectRef) -> None:
        """Record that the instance `ref` was deleted."""
        self._gone[f"{ref.namespace}/{ref.name}"] = self._world.seconds

    def operation_succeeded(self, ref: ObjectRef) -> None:
        """Record that the Operation `ref` has succeeded."""
        self._done.add(ref)

    def settled(self, live: Manifest, is_settled: bool) -> None:
        """Record that an instance has reached the state that its last job requested, if `is_settled` is true."""
        if is_settled:
            self._confirmed.add(_key(live))

    def applied(self, ref: ObjectRef, was: Manifest | None, live: Manifest) -> None:
        """Check the job that changed the instance `ref` from `was` to `live`.

        The job must be acknowledged, and must not have been answered before. It must not be older than a job that has
        succeeded, nor than a job of the same offer that had its effect earlier.
        """
        key, former = _key(live), "" if was is None else _key(was)
        if not key or key == former or self._world.was_restored:
            return
        told = f"{key} was not acknowledged yet"
        is_acked = key in self._first or self._may_be_acked(key)
        self._laws.check("PULL-1", "the ack precedes the effect", ref, is_acked, told)
        told = f"{key} was answered before"
        self._laws.check("PULL-4", "one effect per job", ref, key not in self._answered, told)
        name, generation = _generation_in(key)
        newest, told = self._newest[name], f"{key} after {name}@{self._newest[name]}"
        self._laws.check("PULL-4", "no older job over a newer one", ref, not 0 < generation < newest, told)
        (first, before), (then, place) = (self._places.get(each, (-1.0, 0)) for each in (former, key))
        holds = first != then or before <= place or first <= self._world.troubled_until
        self._laws.check("PULL-4", "jobs of one offer have their effects in order", ref, holds, f"{former} was later")
        self._applied.add(key)

    def _may_be_acked(self, key: str) -> bool:
        """Report whether a withdrawn job's first ack may have had no answer, because of a fault since its offer.

        The operator goes on then, as it cannot know that the ack did not arrive.
        """
        times = [job.offered_at for job in self._world.control.jobs if job.raw["idempotencyKey"] == key if not job.open]
        since = min(((at - START).total_seconds() for at in times if at is not None), default=float("inf"))
        return self._world.troubled_until > since - _UNANSWERED

    def _offered(self, jobs: list[JobEntry]) -> None:
        """Record the order of jobs without a generation that are offered first in a calm cluster."""
        if self._world.is_calm and self._world.control.faults.are_over:
            keys = [job.raw["idempotencyKey"] for job in jobs if job.offers == 1]
            places = ((key, (self._world.seconds, place)) for place, key in enumerate(keys))
            self._places.update((key, place) for key, place in places if not _generation_in(key)[1])

    def _acked(self, job: JobEntry) -> None:
        """Check that the operator stored the record of a job before it acknowledged the job.

        Jobs that are forged, or were answered before, are exempt.
        """
        key = job.raw["idempotencyKey"]
        if self._first.setdefault(key, job.id) in self._forged:
            self._first[key] = job.id  # a forged job may have the key of a later one
        if is_forged(job.raw):
            self._forged.add(job.id)
        record = self._world.server.store.get(place_of(SECRET), (OWN_NAMESPACE, head_name(job.id)))
        is_new = key not in self._answered and not is_forged(job.raw)
        if is_new and not self._world.was_restored:
            self._laws.check("PULL-4", "the record precedes the ack", job.id, record is not None, "there is none")

    def _was_open(self, job: JobEntry, key: str) -> bool:
        """Report whether `job` was acknowledged before a job with this key succeeded."""
        done = self._succeeded.get(key)
        return done is not None and job.acked_at is not None and job.acked_at <= done

    def _resulted(self, job: JobEntry) -> None:
        outcome, raw = str(job.result["outcome"]), job.raw
        key = raw["idempotencyKey"]
        if is_forged(raw):
            self._laws.check("PULL-9", "a forged job fails", job.id, outcome == "failed", f"it {outcome}")
            return
        if raw["expiresAt"] < raw["createdAt"]:
            self._laws.check("PULL-3", "an expired job does nothing", job.id, outcome == "noop", f"it {outcome}")
            return
        if raw["kind"] == "delete" and raw["payload"]["name"].startswith(STRAY):
            self._check_stray(job, raw["payload"])
            return
        repeats = key in self._succeeded or (key in self._answered and self._first.get(key) != job.id)
        # Two equal jobs that delete an object and are open together both wait until it is gone.
        repeats = repeats and not (raw["kind"] == "delete" and self._was_open(job, key))
        if repeats and not self._world.was_restored:
            told = f"{key} was answered before, and now {outcome}"
            self._laws.check("PULL-3", "a repeated job does nothing", job.id, outcome != "succeeded", told)
        elif outcome == "succeeded" and raw["kind"] == "apply":
            told = f"{key} was never seen Ready"
            self._laws.check("PULL-3", "succeeded is never told early", job.id, key in self._confirmed, told)
        elif outcome == "succeeded" and raw["kind"] == "delete":
            self._check_deleted(job)
        elif outcome == "succeeded" and "operation" in raw["payload"] and not _is_recurring(raw):
            ref = ref_of(raw["payload"]["operation"], OPERATION)
            told = f"{ref} was never seen Succeeded"
            self._laws.check("PULL-3", "an Operation's end is never told early", job.id, ref in self._done, told)
        # Of two equal jobs, the one without an effect may be answered first, and may be offered again.
        if outcome == "succeeded" or (outcome != "noop" and (raw["kind"] != "apply" or key in self._applied)):
            self._answered.add(key)
        if outcome == "succeeded":
            self._succeeded.setdefault(key, self._world.loop.now())
            name, generation = _generation_in(key)
            self._newest[name] = max(self._newest[name], generation)

    def _check_stray(self, job: JobEntry, payload: Mapping[str, Any]) -> None:
        """Check that a job that would delete an instance of others has failed, and that the instance still exists."""
        live = self._world.get(ObjectRef(APPLICATION_INSTANCE, payload["namespace"], payload["name"]))
        stays = job.result["outcome"] == "failed" and live is not None and not live["metadata"].get("deletionTimestamp")
        told = f"it {job.result['outcome']}"
        holds = stays or self._world.was_restored
        self._laws.check("PULL-10", "a job deletes only what is managed", job.id, holds, told)

    def _check_deleted(self, job: JobEntry) -> None:
        payload = job.raw["payload"]
        name = f"{payload['namespace']}/{payload['name']}"
        there = self._world.server.store.get(place_of(APPLICATION_INSTANCE), (payload["namespace"], payload["name"]))
        generation = 0 if there is None else _generation_in(_key(there.shared()))[1]
        is_made_anew = generation > _generation_in(job.raw["idempotencyKey"])[1]
        gone = (
            there is None or is_made_anew or name in self._gone or self._world.was_restored
        )  # jobs that are offered again come in any order
        self._laws.check("PULL-3", "deleted is never told early", job.id, gone, f"{name} exists")


def _generation_in(key: str) -> tuple[str, int]:
    """Return the object and the generation in a job's key, with 0 for a key that has a hash instead."""
    name, _, generation = key.rpartition("@")
    return name, int(generation) if generation.isdigit() else 0


def _is_recurring(raw: Mapping[str, Any]) -> bool:
    """Report whether a job requests an Operation with a schedule: such a job succeeds with the first sync."""
    return get_path(raw["payload"], "operation", "spec", "parameters", "schedule") is not None


def _key(live: Manifest) -> str:
    return str(get_path(live, "metadata", "annotations", labels.IDEMPOTENCY_KEY) or "")


_NO_FIELDS: Final[Any] = {}
BY_US: Final = f'"manager":"{labels.FIELD_MANAGER}"'.encode()
"""The bytes that an object's JSON contains if the operator wrote the object; an object from a backup lacks them."""


@attrs.define
class _Memory:
    """The facts about one object that later checks need.

    `wishes` has the requested chart version and values by generation.
    """

    live: Manifest | None = None
    """The state after the last change."""
    released: bool = False
    wishes: dict[int, tuple[str, Any]] = attrs.field(factory=dict)
    """The chart version and values that each generation requests."""


class InstanceLaws:
    """The checks of the laws (required properties) of instances, HelmReleases and chart sources in a simulated run."""

    def __init__(self, laws: OperatorChecks, jobs: JobLaws) -> None:
        self._laws = laws
        self._jobs = jobs
        self._check = laws.check
        self._memories: defaultdict[str, _Memory] = defaultdict(_Memory)
        self._released: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        """The values with which Flux reported a version as deployed, by the uid of the instance and the version."""
        self._owners: dict[str, str] = {}
        self.used: defaultdict[str, set[str]] = defaultdict(set)
        """The names of the sources with which Flux has reported a release Ready, by the uid of the instance."""
        laws.keep_notes(APPLICATION_INSTANCE, "REC-8", "annotations of others stay")
        laws.keep_notes(HELM_RELEASE, "REC-8", "annotations of others stay")
        laws.keep_finalizers(APPLICATION_INSTANCE, "REC-8", "finalizers of others stay")
        laws.observe(APPLICATION_INSTANCE, self._instance)
        for kind in CHILDREN:
            laws.observe(kind, self._child)

    def owner_of(self, uid: str) -> str:
        """Return the uid of the instance that owns the child with the uid `uid`, or "" if it is unknown."""
        return self._owners.get(uid, "")

    def _remembered(self, record: Record) -> _Memory:
        if self._laws.is_restored_now:
            # A restore brought back an earlier state: earlier wishes are known, and later generations are issued again.
            known, generation = self._memories[record.uid].wishes, int(record.shared()["metadata"]["generation"])
            self._memories[record.uid] = _Memory(wishes={key: wish for key, wish in known.items() if key < generation})
        return self._memories[record.uid]

    # --- instances ---------------------------------------------------------------------------------------------------

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is not None and (after is None or labels.FINALIZER not in after.finalizers):
            self._check_left(ref, before)
        if after is None:
            self._jobs.gone(ref)
            self._laws.prompt.gone(ref)
            return
        memory = self._remembered(after)
        was, live = memory.live, after.shared()
        memory.live = live
        if was is None or course_of(was) != course_of(live):
            self._laws.prompt.changed(ref)
        version, values = str(get_path(live, "spec", "chart", "version")), get_path(live, "spec", "values", "inline")
        memory.wishes[int(live["metadata"]["generation"])] = version, values or {}
        self._check_wishes(ref, was, live)
        if was is None or was.get("status") != live.get("status"):
            self._check_status(ref, was, live, memory)
        self._jobs.applied(ref, was, live)

    def _check_left(self, ref: ObjectRef, before: Record) -> None:
        """Check that an instance loses its finalizer only when its HelmRelease no longer exists.

        A HelmRelease is exempt if another client has just created it again, as Velero does in a restore. It is not in
        the operator's cache yet, and the garbage collector removes it, since its owner is gone.
        """
        if labels.FINALIZER not in before.finalizers or self._laws.is_restored_now:
            return
        store = self._laws.world.server.store
        if is_abandoned(before.shared()):
            found = (each for kind in CHILDREN for each in store.scan(place_of(kind), ref.namespace))
            owned = [each.key for each in found if before.uid in owner_uids(each.shared())]
            self._check("REC-10", "what is abandoned stays", ref, not owned, f"{owned} would go with it")
            return
        left = [
            each.key
            for each in store.scan(place_of(HELM_RELEASE), ref.namespace)
            if each.labels.get(labels.INSTANCE_UID) == before.uid and not self._has_just_come_back(each)
        ]
        self._check("REC-10", "the finalizer outlives the release", ref, not left, f"{left} exists")

    def _has_just_come_back(self, record: Record) -> bool:
        """Report whether a client other than the operator created the object within the last two seconds."""
        meta = metadata(record.shared())
        age = START + timedelta(seconds=self._laws.world.seconds) - parse_time(meta["creationTimestamp"])
        ours = any(entry["manager"] == labels.FIELD_MANAGER for entry in _entries(record.shared()))
        return not ours and age <= timedelta(seconds=2)

    def _check_wishes(self, ref: ObjectRef, was: Manifest | None, live: Manifest) -> None:
        """Check the spec of an instance after a change from `was` to `live`.

        The change must not come from a forged job, or from a job that is older than the last, and it must not remove a
        field that a GitOps tool owns.
        """
        version = get_path(live, "spec", "chart", "version")
        self._check("PULL-9", "a forged job has no effect", ref, version != FORGED, f"it wants {version}")
        if was is None:
            return
        jobs = [int(_annotation(each, labels.LAST_APPLIED_GENERATION) or 0) for each in (was, live)]
        self._check("PULL-4", "no older job over a newer one", ref, jobs[1] >= jobs[0], f"{jobs[0]}, then {jobs[1]}")
        values = ("spec", "values", "inline", "gitops")
        kept = get_path(live, *values) is not None or get_path(was, *values) is None
        self._check("REC-8", "fields of others stay", ref, kept, f"{'.'.join(values)} is gone")

    def _check_status(self, ref: ObjectRef, was: Manifest | None, live: Manifest, memory: _Memory) -> None:
        for clause, law, told in status_flaws(ref.kind.kind, live):
            self._check(clause, law, ref, False, told)
        now = self._laws.earliest_now
        for clause, law, told in succession_flaws(ref.kind.kind, was, live, now) if was is not None else ():
            self._check(clause, law, ref, False, told)
        self._check("RES-4", "a status follows the conventions", ref, True, "")
        shows = self._laws.shows_secret(live.get("status", {}))
        self._check("RES-7", "no secret in a status", ref, not shows, "a secret")
        ready = condition_of(live, "Ready")
        # What a restore of etcd brings back is no decision, and an earlier restore may have made its wishes forgotten.
        is_new = (was is None or condition_of(was, "Ready") != ready) and not self._laws.is_restored_now
        if ready.get("status") == "True" and is_new:
            version, values = memory.wishes.get(int(ready.get("observedGeneration") or 0), ("", {}))
            override = str(get_path(live, "status", "releaseOverride", "version") or "")
            released = self._was_released(str(live["metadata"]["uid"]), (version, override), values)
            told = f"{version} was never released with values {values}"
            self._check("REC-7", "Ready only when Flux confirmed", ref, released, told)
        self._jobs.settled(live, is_ready(live) or condition_of(live, "Suspended").get("status") == "True")

    # --- children ----------------------------------------------------------------------------------------------------

    def _child(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        uid = after.labels.get(labels.INSTANCE_UID, "")
        if uid:
            self._owners[after.uid] = uid
        if before is None and uid and BY_US in after.raw and not self._laws.is_restored_now:
            self._check_born(ref, uid)
        if ref.kind == HELM_RELEASE:
            self._release(ref, uid, after)

    def _release(self, ref: ObjectRef, uid: str, after: Record) -> None:
        memory = self._remembered(after)
        was, live = memory.live, after.shared()
        memory.live = live
        if was is not None and condition_of(was, "Ready") != condition_of(live, "Ready"):
            owner = self._memories[uid].live
            if owner is not None and uid in owner_uids(live):
                self._laws.prompt.changed(ref_of(owner, APPLICATION_INSTANCE))
        if was is not None:
            forced = taken_by(labels.FIELD_MANAGER, was, live)
            self._check("REC-8", "nothing is forced", ref, not forced, f"{', '.join(sorted(forced))} was another's")
        if uid and condition_of(live, "Ready").get("status") == "True":
            self._note_release(uid, live)
            if condition_of(live, "Ready").get("observedGeneration") == live["metadata"]["generation"]:
                self.used[uid] |= set(sources_of(live))

    def _note_release(self, uid: str, live: Manifest) -> None:
        """Record the chart version and values that Flux reports as deployed, if the report is about the present
        generation.
        """
        if get_path(live, "status", "observedGeneration") != live["metadata"]["generation"]:
            return
        history: Any = get_path(live, "status", "history") or ({},)
        known = self._released[uid, str(history[0].get("chartVersion", "")).partition("+")[0]]
        values = get_path(live, "spec", "values") or {}
        if values not in known:
            known.append(values)

    def _was_released(self, uid: str, versions: tuple[str, str], values: Mapping[str, Any]) -> bool:
        """Report whether Flux has reported one of `versions` as deployed, with values that include `values`."""
        known = (each for version in versions for each in self._released.get((uid, version), ()))
        return any(all(each.get(key) == value for key, value in values.items()) for each in known)

    def _check_born(self, ref: ObjectRef, uid: str) -> None:
        """Check a new child of the instance with the uid `uid`.

        The instance must exist and have the operator's finalizer, and must not have two HelmReleases.
        """
        store = self._laws.world.server.store
        instances = store.scan(place_of(APPLICATION_INSTANCE), ref.namespace)
        owner = next((each for each in instances if each.uid == uid), None)
        is_ours = owner is not None and owner.labels.get(labels.CLUSTER_ID) == CLUSTER_ID
        self._check("RES-5", "only what is this cluster's is managed", ref, is_ours, f"the instance {uid} is not")
        held = owner is not None and labels.FINALIZER in owner.finalizers
        self._check("RES-5", "the finalizer precedes the first child", ref, held, f"the instance {uid} has none")
        if ref.kind == HELM_RELEASE:
            releases = store.scan(place_of(HELM_RELEASE), ref.namespace)
            own = [each for each in releases if each.labels.get(labels.INSTANCE_UID) == uid and not each.deleting]
            self._check("REC-9", "one HelmRelease of an instance", ref, len(own) <= 1, f"{len(own)} HelmReleases")


def taken_by(manager: str, before: Manifest, after: Manifest) -> set[str]:
    """Return the fields that a write takes over from another field manager for `manager`.

    They are fields that `manager` owns only after the write, and another field manager only before it. `before` and
    `after` are the object before and after the write.
    """
    first, second = _entries(before), _entries(after)
    if first == second:
        return set()
    held, now = _holders(first), _holders(second)
    if set(held) == {manager}:
        return set()
    gained = now.get(manager, set()) - held.get(manager, set())
    lost: set[str] = set().union(*(paths - now.get(other, set()) for other, paths in held.items() if other != manager))
    return {path for path in gained & lost if not path.startswith(_REQUESTS)}


_REQUESTS: Final = "/f:metadata/f:annotations/f:reconcile.fluxcd.io"
"""The path in managedFields of the annotations that request a reconcile from Flux. No manager owns them (REC-14)."""


def _entries(live: Manifest) -> list[Mapping[str, Any]]:
    """Return the managedFields entries of an object, without entries of subresources."""
    return [entry for entry in metadata(live).get("managedFields") or () if not entry.get("subresource")]


def _holders(entries: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the fields that each field manager owns, keyed by the manager's name."""
    held: dict[str, set[str]] = {}
    for entry in entries:
        held.setdefault(entry["manager"], set()).update(_paths(entry.get("fieldsV1") or _NO_FIELDS, ""))
    return held


def _paths(fields: Any, path: str) -> list[str]:
    """Return the paths of the leaves of a FieldsV1 set, below `path`."""
    found: list[str] = []
    for key, beneath in fields.items():
        if key != ".":
            found += _paths(beneath, f"{path}/{key}") if set(beneath) - {"."} else [f"{path}/{key}"]
    return found


def _annotation(live: Manifest, name: str) -> str:
    return str(get_path(live, "metadata", "annotations", name) or "")
