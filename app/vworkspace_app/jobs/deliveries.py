"""The messages to the control plane about a job, each repeated by its queue until it is answered (PULL-3)."""

from collections.abc import Callable

import structlog

from purekube.apimachinery.errors import JobClosed, NotFound, OperatorError, Unavailable
from vworkspace_app.jobs.delivery_queue import Delivery
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.jobs import messages as m

log = structlog.get_logger("vworkspace.agent")


def ack(control: ControlPlane, job_id: str, feed: Callable[[m.JobEvent], None]) -> Delivery:
    """Return the delivery that acknowledges a job.

    `feed` gets the outcome: acked, closed, unknown, or perhaps acked.
    """

    def answered(error: OperatorError | None) -> None:
        match error:
            case JobClosed():
                feed(m.JobAlreadyClosed(job_id))
            case NotFound():
                feed(m.JobGone(job_id))
            case _:
                feed(m.Acked(job_id))

    def lost(error: OperatorError) -> None:
        if isinstance(error, Unavailable) and error.may_have_happened:
            feed(m.AckLost(job_id))

    return Delivery(f"ack/{job_id}", lambda: control.ack(job_id), answered, lost, final=(NotFound, JobClosed))


def result(control: ControlPlane, effect: m.PostResult, accepted: Callable[[], None]) -> Delivery:
    """Return the delivery of a job's result. A refused one is repeated: there is no other copy (PULL-4)."""
    job_id, body = effect.job_id, effect.body

    def answered(error: OperatorError | None) -> None:
        if error is not None:
            log.warning("the control plane has no use for a result any more", job_id=job_id, error=error.message)
        accepted()

    return Delivery(f"result/{job_id}", lambda: control.result(job_id, body), answered, final=(NotFound,))


def status(control: ControlPlane, effect: m.PostStatus) -> Delivery:
    """Return the delivery of a job's status; a newer one replaces it."""
    job_id, body = effect.job_id, effect.body

    def answered(error: OperatorError | None) -> None:
        if error is not None:
            log.debug("a status came too late or was refused", job_id=job_id, error=error.message)

    return Delivery(status_key(job_id), lambda: control.status(job_id, body), answered)


def status_key(job_id: str) -> str:
    """Return the key of a status in its queue, by which a newer one replaces it."""
    return f"status/{job_id}"
