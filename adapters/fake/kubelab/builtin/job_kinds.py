"""The definitions of the built-in kinds Job and CronJob, with checks of their specs and of a Job's conditions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.cron import schedule_causes
from kubelab.builtin.definition_builder import built_in, filled, pod_template
from kubelab.builtin.pod_checks import template_causes
from kubelab.builtin.pod_warnings import warnings_of_template
from kubelab.builtin.selector_checks import selector_causes
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import selects_labels
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import invalid_value, not_supported, required
from purekube.schema.structure import equal

# kubernetes: apis/batch/validation/validation.go, validateJobStatus.
_AFTER: Final = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The conditions that end a Job, each with the condition that must be true as well (it is set before the end)."""
_TIME: Final = "status.completionTime"


def check_job_status(new: Manifest, old: Manifest) -> list[StatusCause]:
    """Return the problems of a Job's new status, compared with its old one.

    Complete requires SuccessCriteriaMet, and Failed requires FailureTarget. None of these four conditions may be taken
    back.
    """
    # The rules are strict since another controller may write the status (KEP-4368, spec.managedBy).
    now, before = new.get("status") or {}, old.get("status") or {}
    said, was = _true(now), _true(before)
    return [*_completion(now, before, said), *_conditions(said, was), *_activity(now, said)]


def _true(status: Manifest) -> set[str]:
    return {condition["type"] for condition in status.get("conditions") or () if condition.get("status") == "True"}


def _completion(now: Manifest, before: Manifest, said: set[str]) -> Iterator[StatusCause]:
    time, old = now.get("completionTime"), before.get("completionTime")
    if "Complete" in said and not time:
        yield required(_TIME, "completionTime is required for Complete jobs")
    elif "Complete" not in said and time:
        yield invalid_value(_TIME, time, "cannot set completionTime when there is no Complete=True condition")
    elif old and time and not equal(time, old):
        yield invalid_value(_TIME, time, "field is immutable")


def _conditions(said: set[str], was: set[str]) -> Iterator[StatusCause]:
    for end, first in _AFTER.items():
        if end in said and first not in said:
            yield _of_conditions(f"cannot set {end}=True condition without the {first}=true condition")
    for lost in sorted(was - said):
        if lost in _AFTER:
            yield _of_conditions(f"cannot disable the terminal {lost}=True condition")
        elif lost in _AFTER.values():
            yield _of_conditions(f"cannot disable the {lost}=True condition")


def _of_conditions(why: str) -> StatusCause:
    return StatusCause("status.conditions", f"Invalid value: {why}", "FieldValueInvalid")


def _activity(now: Manifest, said: set[str]) -> Iterator[StatusCause]:
    active = now.get("active") or 0
    if active > 0 and said & _AFTER.keys():
        yield invalid_value("status.active", active, "active>0 is invalid for finished job")


_LABELS: Final = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


def _read_job(manifest: Manifest) -> Manifest:
    out = filled({**manifest, "spec": _job_spec(manifest.get("spec") or {})}, status={})
    labels = ((out["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not out["metadata"].get("labels"):
        out["metadata"] = {**out["metadata"], "labels": labels}
    return out


def _job_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Job's spec with defaults for absent fields. With all defaults the Job runs one pod to completion.

    `completions` gets the default 1 only if `parallelism` is absent as well.
    """
    # kubernetes: apis/batch/v1/defaults.go, SetDefaults_Job: with parallelism alone the Job is a work queue, which any
    # success ends.
    alone = spec.get("completions") is None and spec.get("parallelism") is None
    out = filled(
        spec,
        completions=1 if alone else None,
        parallelism=1,
        backoffLimit=2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    )
    if isinstance(out.get("template"), Mapping):
        out["template"] = pod_template(out["template"], restart_policy=None)
    return out


def _create_job(manifest: Manifest) -> Manifest:
    """Return a new Job with the selector and labels that its uid determines, unless `manualSelector` is true."""
    spec = manifest["spec"]
    if spec.get("manualSelector"):
        return {**manifest, "status": {}}
    meta = manifest["metadata"]
    values = (meta["uid"], meta.get("name", ""), meta["uid"], meta.get("name", ""))
    # kubernetes: registry/batch/job/strategy.go, generateSelector writes the labels with and without a domain, for old
    # clients.
    labels = dict(zip(_LABELS, values, strict=True))
    template = spec.get("template") or {}
    inner = template.get("metadata") or {}
    labelled = {**inner, "labels": {**(inner.get("labels") or {}), **labels}}
    # kubernetes: apis/batch/v1/defaults.go, SetDefaults_Job: a Job without labels shares the map of its template.
    is_shared = not meta.get("labels") or meta["labels"] is inner.get("labels")
    own = labelled["labels"] if is_shared else meta["labels"]
    return {
        **manifest,
        "metadata": {**meta, "labels": own},
        "spec": {
            **spec,
            "selector": {"matchLabels": {_LABELS[0]: meta["uid"]}},
            "template": {**template, "metadata": labelled},
        },
        "status": {},
    }


def _check_job(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if (selector := spec.get("selector")) is None:
        yield required("spec.selector")
    elif not selects_labels(selector, labels or {}):
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from selector_causes(selector, "spec.selector")
    yield from _check_job_spec(spec, "spec")


def _check_job_spec(spec: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    pods = (spec.get("template") or {}).get("spec") or {}
    policy = pods.get("restartPolicy")
    if policy is None:
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    yield from _negative(spec, path, _COUNTS)
    yield from template_causes(spec.get("template") or {}, f"{path}.template")


_COUNTS: Final = (
    "parallelism",
    "completions",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
)


def _negative(spec: Mapping[str, Any], path: str, counts: Iterable[str]) -> Iterator[StatusCause]:
    for key in counts:
        if isinstance(value := spec.get(key), int) and value < 0:
            yield invalid_value(f"{path}.{key}", value, "must be greater than or equal to 0")


def _check_job_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a Job's update: selector, template, `completions` and similar fields are immutable.

    The scheduling fields of a suspended Job that has never started may change.
    """
    yield from _check_job(new)
    now, before = new["spec"], old["spec"]
    for key in ("completions", "selector", "completionMode", "backoffLimitPerIndex", "managedBy", "podFailurePolicy"):
        free = key == "completions" and now.get("completionMode") == "Indexed"
        if not free and not equal(now.get(key), before.get(key)):
            yield invalid_value(f"spec.{key}", now.get(key), "field is immutable")
    # kubernetes: registry/batch/job/strategy.go, AllowMutableSchedulingDirectives: a queue can still place a Job that
    # has never run.
    suspended = before.get("suspend") and not (old.get("status") or {}).get("startTime")
    fixed, was = _fixed(now["template"], suspended), _fixed(before["template"], suspended)
    for key in ("metadata", "spec"):
        if not equal(fixed.get(key), was.get(key)):
            yield invalid_value(f"spec.template.{key}", now["template"].get(key), "field is immutable")


_SCHEDULING: Final = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def _fixed(template: Mapping[str, Any], suspended: Any) -> Any:
    """Return the part of `template`, a Job's pod template, that an update may not change: usually the whole template.

    For a Job that is `suspended` and has never started, the immutable part is the template without labels, annotations
    and scheduling fields.
    """
    if not suspended:
        return template
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _SCHEDULING}
    inner = template.get("metadata") or {}
    return {"metadata": {key: inner[key] for key in inner if key not in ("labels", "annotations")}, "spec": spec}


def _read_cron_job(manifest: Manifest) -> Manifest:
    spec = filled(
        manifest.get("spec") or {},
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = spec.get("jobTemplate")
    if isinstance(template, Mapping):
        inner = dict(template.get("spec") or {})
        if isinstance(inner.get("template"), Mapping):
            inner["template"] = pod_template(inner["template"], restart_policy=None)
        spec["jobTemplate"] = {**filled(template, metadata={}), "spec": inner}
    return filled({**manifest, "spec": spec}, status={})


def _check_cron_job(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a new CronJob.

    Its name must be short, because the names of its Jobs are this name with the time appended.
    """
    yield from _cron_job_causes(manifest)
    name = str(manifest["metadata"].get("name", ""))
    if len(name) > _LONGEST_NAME:
        yield invalid_value("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")


def _cron_job_causes(new: Manifest, old: Manifest | None = None) -> Iterator[StatusCause]:
    spec = new["spec"]
    if spec["schedule"]:
        yield from schedule_causes(spec, None if old is None else old["spec"])
    else:
        yield required("spec.schedule")
    counts = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from _negative(spec, "spec", counts)
    yield from _check_job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


# A CronJob appends eleven characters to its name for each Job, whose name is a label value of at most 63.
_LONGEST_NAME: Final = 52
_SKELETON: Final = {"spec": {"template": {"metadata": {}, "spec": {"containers": None}}}, "status": {}}

JOBS: Final = (
    built_in(
        schemas.JOB,
        Behaviour(
            skeleton=_SKELETON,
            generation=Generation.SPEC,
            # kubernetes: registry/batch/job/strategy.go, DefaultGarbageCollectionPolicy: only batch/v1 Jobs still
            # orphan their pods by default.
            orphans=True,
            read=_read_job,
            on_create=_create_job,
            check=_check_job,
            check_update=_check_job_update,
            check_status=check_job_status,
            warnings=warnings_of_template("spec", "template"),
        ),
        categories=("all",),
        selectable_fields=("status.successful",),
    ),
    built_in(
        schemas.CRON_JOB,
        Behaviour(
            skeleton={"spec": {"jobTemplate": {"metadata": {}, "spec": _SKELETON["spec"]}}, "status": {}},
            generation=Generation.SPEC,
            read=_read_cron_job,
            on_create=lambda manifest: {**manifest, "status": {}},
            check=_check_cron_job,
            check_update=_cron_job_causes,
            warnings=warnings_of_template("spec", "jobTemplate", "spec", "template"),
        ),
        short_names=("cj",),
        categories=("all",),
    ),
)
