"""The laws (required properties) of the results of jobs of the control plane, and of the jobs' records (PULL-2 to
PULL-4, PULL-7, PULL-10).
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from kubelab.model.records import Record
from purekube.apimachinery.conditions import condition_of, conditions_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.apimachinery.timestamps import parse_time
from vworkspace_app.settings.table import shard_in
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.operator_replica import OperatorReplica
from vworkspace_app.simulation.operator_world import OWN_NAMESPACE
from vworkspace_app.simulation.workload_requests import EXPIRED, OUTSIDE, STRAY, is_forged
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.jobs.store.codec import head_name
from vworkspace_fake.controlplane.jobs import JobEntry

_EARLY: Final = timedelta(seconds=2)
"""The most that a job may expire early: times on the wire are whole seconds."""
_AFTERMATH: Final = 90.0
"""The seconds after a fault in which a progress report may be missing: the control plane may still be held for away."""
_SHORTEST: Final = 5.0
"""The seconds that a job takes of which progress must have been reported."""
_MOST_CALLS: Final = 600
"""The number of requests to the control plane within a minute that counts as a hot loop."""
_NEVER: Final = frozenset({"NotPermitted", "ValidationFailed", "InvalidJob", "PayloadTooLarge"})
"""The reasons with which no job of the simulated control plane may fail, unless it is forged or beyond its scope."""
_OF_FAULTS: Final = frozenset({"Forbidden", "KindMissing", "ClusterRefused", "NamespaceTerminating", "RecordDamaged"})
"""The reasons with which jobs may fail in a fault."""


class OutcomeLaws:
    """The checks of the laws (required properties) of results and records of jobs in a simulated run.

    None applies after a restore of etcd, in which records of answered jobs are lost.
    """

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._world = laws.operator_world
        self._uids: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of the instances that were seen with each job's key."""
        self._since: dict[str, float] = {}
        """The time at which an instance was seen with each key first."""
        self._failed: set[str] = set()
        """The keys of the jobs whose instance was seen to have failed, or to be blocked."""
        self._gone: set[tuple[str, str]] = set()
        """The instances that were deleted at some time, as namespaces with names."""
        laws.observe(APPLICATION_INSTANCE, self._instance)
        laws.observe(SECRET, self._secret)
        laws.observe(CONFIG_MAP, self._config_map)
        self._calls: deque[float] = deque(maxlen=_MOST_CALLS)
        """The times of the last requests to the control plane."""
        self._world.control.jobs.on_result.append(partial(self._world.inform, self._resulted))
        for replica in self._world.operators:
            replica.on_token.append(partial(self._world.inform, self._called, replica))

    def _called(self, replica: OperatorReplica, token: str) -> None:
        is_first = shard_in(replica.settings).is_first
        self._laws.check("RUN-13", "one shard does the jobs", replica.name, is_first, "it calls the control plane")
        self._calls.append(self._world.seconds)
        if len(self._calls) == _MOST_CALLS:
            told, is_slow = f"{_MOST_CALLS} requests within a minute", self._calls[-1] - self._calls[0] > 60.0
            self._laws.check("PULL-7", "the control plane is spared", "the control plane", is_slow, told)

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is not None and (after is None or after.deleting):
            self._gone.add(before.key)
        if after is None:
            return
        live = after.shared()
        key = str(get_path(live, "metadata", "annotations", labels.IDEMPOTENCY_KEY) or "")
        if ref.name.startswith(OUTSIDE):
            # A restore of etcd may take the object of others away: then a job that is offered again makes its own.
            holds, told = not key or self._world.was_restored, f"{key} has changed it"
            self._laws.check("PULL-10", "a job stays within its scope", ref, holds, told)
        if key:
            self._uids[key].add(after.uid)
            self._since.setdefault(key, self._world.seconds)
            if _has_failed(live):
                self._failed.add(key)

    def _config_map(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None and ref.name.startswith(OUTSIDE):
            self._laws.check("PULL-10", "a job stays within its scope", ref, False, "a job has made it")

    def _secret(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        """Check that the record of a job is removed only when the control plane has the job's result."""
        if after is not None or before is None or before.labels.get(labels.JOB_STORE) != "record":
            return
        job = next((each for each in self._world.control.jobs if head_name(each.id) == ref.name), None)
        if job is not None and ref.namespace == OWN_NAMESPACE and not self._world.was_restored:
            self._laws.check("PULL-4", "a record outlives its job", job.id, not job.open, "it has no result yet")

    # --- results -----------------------------------------------------------------------------------------------------

    def _resulted(self, job: JobEntry) -> None:
        raw, outcome = job.raw, str(job.result["outcome"])
        name = str(_named(raw).get("name") or "")
        reason = str(job.result.get("error") or "").partition(":")[0]
        if self._world.was_restored or is_forged(raw) or name.startswith((STRAY, EXPIRED)):
            return
        if name.startswith(OUTSIDE):
            told, is_refused = f"it {outcome}", (outcome, reason) == ("failed", "NotPermitted")
            self._laws.check("PULL-10", "a job stays within its scope", job.id, is_refused, told)
        elif reason == "expired" or (reason == "Timeout" and _named(raw).get("kind") == APPLICATION_INSTANCE.kind):
            is_due = self._world.loop.now() >= parse_time(raw["expiresAt"]) - _EARLY
            holds = is_due or bool(self._world.happened["clock-jump"])
            self._laws.check("PULL-3", "no job expires early", job.id, holds, f"it ends at {raw['expiresAt']}")
        elif _named(raw).get("kind") == APPLICATION_INSTANCE.kind:
            self._check_outcome(job, outcome, reason, name)

    def _check_outcome(self, job: JobEntry, outcome: str, reason: str, name: str) -> None:
        key, about = job.raw["idempotencyKey"], (str(_named(job.raw).get("namespace")), name)
        others = [other for other in self._world.control.jobs if other is not job and not is_forged(other.raw)]
        match outcome:
            case "noop":
                is_repeated = any(other.raw["idempotencyKey"] == key for other in others)
                told = f"no other job has the key {key}"
                self._laws.check("PULL-3", "noop is for what repeats", job.id, is_repeated, told)
            case "failed" if reason == "Superseded":
                later = [other for other in others if _is_known(other) and _is_other_of(other.raw, key)]
                told = "there is no other job for the object"
                self._laws.check("PULL-3", "only a later job supersedes", job.id, bool(later), told)
            case "failed" if job.raw["kind"] == "apply":
                has_failed = key in self._failed or (reason == "Deleted" and about in self._gone)
                holds = reason not in _NEVER and (has_failed or reason in _OF_FAULTS)
                told = f"{job.result.get('error')}, but its instance was never seen to fail"
                self._laws.check("PULL-3", "failed is never told early", job.id, holds, told)
            case "succeeded" if job.raw["kind"] == "apply":
                self._check_success(job, key, name)
            case _:
                pass

    def _check_success(self, job: JobEntry, key: str, name: str) -> None:
        named = job.result.get("appliedRef") or {}
        is_right = named.get("name") == name and named.get("uid") in self._uids[key]
        self._laws.check("PULL-2", "a result names its object", job.id, is_right, f"it names {named}")
        since, calm = self._since.get(key, float("inf")), self._world.troubled_until + _AFTERMATH
        if since > calm and self._world.control.faults.are_over and self._world.seconds - since > _SHORTEST:
            self._laws.check("PULL-2", "progress is reported", job.id, bool(job.statuses), "there was no status")


def _named(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return kind, namespace and name of the object that a job names; empty for a job that names none."""
    payload = raw.get("payload") or {}
    meta = payload.get("metadata") or payload
    return {"kind": payload.get("kind"), "namespace": meta.get("namespace"), "name": meta.get("name")}


def _is_known(job: JobEntry) -> bool:
    """Report whether the operator may have carried out a job: it has acknowledged or answered the job."""
    return job.acks > 0 or job.result is not None


def _is_other_of(raw: Mapping[str, Any], key: str) -> bool:
    """Report whether a job is for the object of the job with the key `key`, and has another key."""
    mine = str(raw["idempotencyKey"])
    return mine != key and mine.rpartition("@")[0] == key.rpartition("@")[0]


def _has_failed(live: Manifest) -> bool:
    """Report whether the status of an instance shows an end of which a job may report a failure."""
    true = {each.get("type") for each in conditions_of(live) if each.get("status") == "True"}
    is_down = condition_of(live, "Ready").get("status") == "False"
    return not true.isdisjoint({"Stalled", "Blocked"}) or (is_down and "Degraded" in true)
