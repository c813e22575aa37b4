"""The readiness of Job and CronJob. A running Job is not ready: a dependent object waits for its end."""

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import Conditions, count, mapping
from purekube.readiness.result import Readiness, failed, progressing, ready


def job(manifest: Manifest) -> Readiness:
    """Judge a Job. Only Complete and Failed are final; `FailureTarget` and `SuccessCriteriaMet` come before them."""
    conditions, status = Conditions.of(manifest), mapping(manifest, "status")
    if conditions.holds("Failed"):
        return failed(
            conditions.reason("Failed") or "JobFailed", conditions.message_or_reason("Failed", "the Job has failed")
        )
    if conditions.holds("Complete"):
        return ready("JobCompleted", "the Job has ended well")
    if conditions.holds("Suspended"):
        return progressing("JobSuspended", "the Job is suspended")
    want = count(mapping(manifest, "spec"), "completions", 1)
    active, done = count(status, "active"), count(status, "succeeded")
    if not active and not done:
        return progressing("JobPending", "no pod of the Job is active yet")
    return progressing("JobRunning", f"{done} of {want} completions, {active} pods are active")


def cron_job(manifest: Manifest) -> Readiness:
    """Judge a CronJob: ready once it exists; its Jobs have their own readiness."""
    suspended = mapping(manifest, "spec").get("suspend") is True
    return ready("Suspended" if suspended else "Scheduled")
