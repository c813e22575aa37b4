"""The step of a job that a task of the agent carries out, for observers of its writes (SIM-3)."""

from typing import assert_never

import attrs

from purekube_run.controller.observer import DECISION
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.performer import ClusterEffect
from vworkspace_core.jobs.state import JobState

Effect = ClusterEffect | m.SendAck | m.PostStatus | m.PostResult


@attrs.frozen
class JobDecision:
    """The decision of the job state machine that one effect of a job follows now, with the job as it was decided.

    As text it is what a simulation reports as the decision if a write breaks a law. `job` is None if it is unknown.
    """

    job: JobState | None
    effect: Effect

    def enter(self) -> None:
        """Make this the decision that the current task carries out."""
        DECISION.set(self)

    def __str__(self) -> str:
        where = "" if self.job is None else f"[PULL-4 {self.job.stage}] "
        key = "" if self.job is None else f" ({self.job.key})"
        return f"{where}job {self.effect.job_id}{key} {_words(self.effect)}"


def _words(effect: Effect) -> str:
    match effect:
        case m.PutRecord():
            return "writes its record"
        case m.CloseRecord(tombstone=tombstone):
            return f"removes its record and leaves {'no' if tombstone is None else 'a'} tombstone"
        case m.Inspect(ref=ref):
            return f"reads {ref}"
        case m.ApplyForJob(ref=ref, force=force):
            return f"applies {ref}{' by force' if force else ''}"
        case m.CancelOperation(ref=ref):
            return f"cancels {ref}"
        case m.DeleteForJob(ref=ref, uid=uid):
            return f"deletes {ref} with the uid {uid}"
        case m.RotateCredential():
            return "renews the credential"
        case m.SendAck():
            return "acknowledges"
        case m.PostStatus(body=body):
            return f"reports {body.get('phase')}"
        case m.PostResult(body=body):
            return f"answers {body['outcome']} {body.get('error', '')}".rstrip()
        case _:
            assert_never(effect)
