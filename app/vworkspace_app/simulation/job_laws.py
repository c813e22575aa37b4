"""The laws of the control plane's jobs: nothing acknowledged is lost, and nothing happens twice (PULL-3, PULL-4)."""

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import SECRET
from purekube_run.simulation.laws import place_of
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.control_jobs import is_forged
from vworkspace_app.simulation.world import OWN_NAMESPACE
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.jobs.store.codec import head_name
from vworkspace_fake.controlplane.jobs import JobEntry


class JobLaws:
    """The laws of jobs. After a restore of etcd what was known of answered jobs is lost with it."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._world = laws.operator_world
        self._confirmed: set[str] = set()
        """The keys whose instance was seen as the job asked for it."""
        self._gone: dict[str, float] = {}
        self._answered: set[str] = set()
        """The keys of jobs that were answered."""
        self._world.control.jobs.on_ack.append(self._acked)
        self._world.control.jobs.on_result.append(self._resulted)

    @property
    def _was_restored(self) -> bool:
        return self._world.restored_at > float("-inf")

    def gone(self, ref: ObjectRef) -> None:
        """Note that an instance is gone."""
        self._gone[f"{ref.namespace}/{ref.name}"] = self._world.seconds

    def settled(self, live: Manifest, is_settled: bool) -> None:
        """Note that an instance is as its last job asked for it."""
        if is_settled:
            self._confirmed.add(_key(live))

    def applied(self, ref: ObjectRef, was: Manifest | None, live: Manifest) -> None:
        """Check that a job that was answered has no effect any more."""
        key = _key(live)
        if key and (was is None or _key(was) != key) and not self._was_restored:
            told = f"{key} was answered before"
            self._laws.check("PULL-4", "one effect per job", ref, key not in self._answered, told)

    def _acked(self, job: JobEntry) -> None:
        """Check that the record of a job precedes its ack; one that is refused or known needs none."""
        record = self._world.server.store.get(place_of(SECRET), (OWN_NAMESPACE, head_name(job.id)))
        is_new = job.raw["idempotencyKey"] not in self._answered and not is_forged(job.raw)
        if is_new and not self._was_restored:
            self._laws.check("PULL-4", "the record precedes the ack", job.id, record is not None, "there is none")

    def _resulted(self, job: JobEntry) -> None:
        outcome, raw = str(job.result["outcome"]), job.raw
        key = raw["idempotencyKey"]
        if is_forged(raw):
            self._laws.check("PULL-9", "a forged job fails", job.id, outcome == "failed", f"it {outcome}")
            return
        if key in self._answered and not self._was_restored:
            told = f"{key} was answered before, and now {outcome}"
            self._laws.check("PULL-3", "a repeated job does nothing", job.id, outcome != "succeeded", told)
        elif outcome == "succeeded" and raw["kind"] == "apply":
            told = f"{key} was never seen Ready"
            self._laws.check("PULL-3", "succeeded is never told early", job.id, key in self._confirmed, told)
        elif outcome == "succeeded" and raw["kind"] == "delete":
            self._check_deleted(job)
        self._answered.add(key)

    def _check_deleted(self, job: JobEntry) -> None:
        payload = job.raw["payload"]
        name = f"{payload['namespace']}/{payload['name']}"
        there = self._world.server.store.get(place_of(APPLICATION_INSTANCE), (payload["namespace"], payload["name"]))
        gone = there is None or name in self._gone
        self._laws.check("PULL-3", "deleted is never told early", job.id, gone, f"{name} exists")


def _key(live: Manifest) -> str:
    return str(get_path(live, "metadata", "annotations", labels.IDEMPOTENCY_KEY) or "")
