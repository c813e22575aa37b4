"""The jobs of the embedded control plane: offered until acknowledged, with exactly one result (PULL-1, PULL-4).

A job is a unit of work that the control plane sends to the operator in a cluster, not a Kubernetes Job.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from vworkspace_fake.controlplane.refusals import ApiRefusal


@attrs.define
class JobEntry:
    """A job of the control plane and everything that a cluster reported about it.

    `raw` is the job as it is sent, even if malformed. `offers` counts how often the job was sent.
    """

    id: str
    cluster_id: str
    raw: Any
    offers: int = 0
    offered_at: datetime | None = None
    acked_at: datetime | None = None
    acks: int = 0
    statuses: list[Any] = attrs.field(factory=list)
    result: Any = None
    results_refused: int = 0
    closed_at: datetime | None = None

    @property
    def open(self) -> bool:
        """True until the job has its result or is withdrawn."""
        return self.closed_at is None

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the JSON value that the admin API shows."""
        times = {name: getattr(self, name) for name in ("offered_at", "acked_at", "closed_at")}
        moments = {name.replace("_at", "At"): at.isoformat() if at else None for name, at in times.items()}
        counts = {"offers": self.offers, "acks": self.acks, "resultsRefused": self.results_refused}
        return {
            "id": self.id,
            "clusterId": self.cluster_id,
            "job": self.raw,
            "statuses": list(self.statuses),
            "result": self.result,
            **moments,
            **counts,
        }


@attrs.define
class JobBook:
    """All jobs of a control plane, which are requests to the operators in its clusters.

    A job that a cluster has fetched is offered to it again after the time `redelivery`, until the cluster acknowledges
    it.
    """

    redelivery: timedelta
    on_offer: list[Callable[[list[JobEntry]], None]] = attrs.field(factory=list, init=False, repr=False)
    """The functions to call with the jobs of each offer, in their order."""
    on_ack: list[Callable[[JobEntry], None]] = attrs.field(factory=list, init=False, repr=False)
    """The functions to call with each job when it is acknowledged for the first time."""
    on_result: list[Callable[[JobEntry], None]] = attrs.field(factory=list, init=False, repr=False)
    """The functions to call with each job when its result has been received."""
    order: Callable[[list[JobEntry]], list[JobEntry]] = attrs.field(default=list, init=False, repr=False)
    """The function that puts the jobs to offer into order. By default they stay in the order of their arrival."""
    _jobs: dict[str, JobEntry] = attrs.field(factory=dict, init=False, repr=False)

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(self._jobs.values())

    def add(self, entry: JobEntry) -> None:
        """Add a new job. Raises a 409 ApiRefusal if a job with this id exists."""
        if entry.id in self._jobs:
            raise ApiRefusal(409, f"job {entry.id} is there already")
        self._jobs[entry.id] = entry

    def get(self, job_id: str) -> JobEntry:
        """Return the job with this id. Raises a 404 ApiRefusal if it does not exist."""
        if job_id not in self._jobs:
            raise ApiRefusal(404, f"there is no job {job_id}")
        return self._jobs[job_id]

    def offer(self, cluster_id: str, now: datetime) -> list[Any]:
        """Return the jobs that are offered to the cluster now, each as it is sent, and record the offer of each."""
        due = self.order(
            [job for job in self._jobs.values() if job.cluster_id == cluster_id and self._is_due(job, now)]
        )
        for job in due:
            job.offers, job.offered_at = job.offers + 1, now
        for observe in self.on_offer if due else ():
            observe(due)
        return [job.raw for job in due]

    def next_offer(self, cluster_id: str) -> datetime | None:
        """Return the earliest time at which a job that the cluster has not acknowledged is offered to it again.

        Return None if there is no such job.
        """
        waiting = [job for job in self._jobs.values() if job.cluster_id == cluster_id and self._unacked(job)]
        return min((job.offered_at + self.redelivery for job in waiting if job.offered_at), default=None)

    def _is_due(self, job: JobEntry, now: datetime) -> bool:
        return self._unacked(job) and (job.offered_at is None or job.offered_at + self.redelivery <= now)

    @staticmethod
    def _unacked(job: JobEntry) -> bool:
        return job.open and job.acked_at is None

    def ack(self, cluster_id: str, job_id: str, now: datetime) -> None:
        """Record that the cluster has acknowledged a job, so that the job is not offered again.

        A repeated acknowledgement is not an error. Raises a 409 ApiRefusal for a job that already has a result.
        """
        job = self._own(cluster_id, job_id)
        if job.result is not None:
            raise ApiRefusal(409, f"job {job_id} is closed: it has its result")
        if not job.open:
            raise ApiRefusal(404, f"job {job_id} is closed")
        is_first = job.acks == 0
        job.acked_at, job.acks = job.acked_at or now, job.acks + 1
        for observe in self.on_ack if is_first else ():
            observe(job)

    def status(self, cluster_id: str, job_id: str, body: Any) -> None:
        """Record the progress report `body` of an open job of the cluster.

        A job is open until it has a result or is withdrawn. Raises ApiRefusal: 400 if the job is not acknowledged, 404
        if it is not open or not the cluster's.
        """
        job = self._own(cluster_id, job_id)
        if not job.open:
            raise ApiRefusal(404, f"job {job_id} is closed")
        self._must_be_acked(job)
        job.statuses.append(body)

    def result(self, cluster_id: str, job_id: str, body: Mapping[str, Any], now: datetime) -> None:
        """Record `body` as the result of a job, which closes the job.

        Raises ApiRefusal: 409 if the job has a result already, 404 if it is withdrawn or not the cluster's, and 400 if
        it is not acknowledged.
        """
        job = self._own(cluster_id, job_id)
        if job.result is not None:
            job.results_refused += 1
            raise ApiRefusal(409, f"job {job_id} has its result")
        if not job.open:
            raise ApiRefusal(404, f"job {job_id} is closed")
        self._must_be_acked(job)
        job.result, job.closed_at = body, now
        for observe in self.on_result:
            observe(job)

    def close(self, job_id: str, now: datetime) -> None:
        """Withdraw a job, so that it is not offered again."""
        job = self.get(job_id)
        job.closed_at = job.closed_at or now

    def _own(self, cluster_id: str, job_id: str) -> JobEntry:
        job = self.get(job_id)
        if job.cluster_id != cluster_id:
            raise ApiRefusal(404, f"there is no job {job_id}")
        return job

    @staticmethod
    def _must_be_acked(job: JobEntry) -> None:
        if job.acked_at is None:
            raise ApiRefusal(400, f"job {job.id} was not acknowledged")
