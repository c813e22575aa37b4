"""The engine `job`: it runs a command in a new Kubernetes Job, under the restricted Pod Security profile (OPS-8)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.problems import Problem, index
from purekube.apimachinery.resources import JOB
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.operation import LogsRef, Operation, OperationType
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.contract import (
    DemoOperation,
    Engine,
    EngineContext,
    EngineObject,
    EngineRefusal,
    EngineStatus,
    EngineTemplate,
    Listing,
    Objects,
    Progress,
    Row,
    always,
)
from vworkspace_core.operations.engines.job_pods import (
    PODS_ACCESS,
    TROUBLES,
    end_from_events,
    listings,
    remedy_of_pods,
    trouble_of,
)
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
from vworkspace_core.operations.parameter_schemas import (
    ENV_NAME,
    IMAGE,
    NAME,
    SECONDS,
    TEXT,
    ParameterSchema,
    list_schema,
    record,
    with_description,
)
from vworkspace_core.operations.pods import account_problem, image_problem
from vworkspace_core.operations.settings import RUNNER

DEFAULT_REQUESTS: Final = {"cpu": "50m", "memory": "64Mi"}
DEFAULT_LIMITS: Final = {"cpu": "1", "memory": "512Mi"}

KEPT_SECONDS: Final = 86_400
"""The seconds for which a finished Job is kept, so that its logs can be read."""

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED


def _when(kind: str, progress: Progress, reason: str, meaning: str = "", *, shown: str = "", message: str = "") -> Row:
    """Return the row for a Job's condition `kind` that is True. The sample has the reason `shown`, and `message`."""
    condition = {"type": kind, "status": "True", "reason": shown, "message": message}
    return Row(f"{kind}=True", progress, reason, meaning, {"status": {"conditions": [condition]}})


TABLE: Final = (
    _when("Complete", _SUCCEEDED, "JobComplete", shown="CompletionsReached"),
    _when(
        "Failed",
        _FAILED,
        "JobFailed",
        "with the Job's own reason where it gives one: BackoffLimitExceeded, DeadlineExceeded, …",
        shown="BackoffLimitExceeded",
        message="Job has reached the specified backoff limit",
    ),
    _when("Suspended", _RUNNING, "JobSuspended", "somebody suspended the Job"),
    # Interim: its pods still terminate, and only Complete or Failed ends a Job (batch/v1 types.go,
    # JobSuccessCriteriaMet).
    _when("SuccessCriteriaMet", _RUNNING, "JobFinishing", "its last pods are ending"),
    _when("FailureTarget", _RUNNING, "JobFinishing", "its last pods are ending"),
    Row("active > 0", _RUNNING, "JobPodActive", "", {"status": {"active": 1}}),
    *TROUBLES,
    Row("", _RUNNING, "JobPending", "no pod is active yet, or the next try has not begun"),
)
"""The engine's table: what the Job's status means for the run. The rows are checked in this order.

Only the first two rows end a run. The rows of `TROUBLES` are found from the Job's Events and pods, since its status
does not show them.
"""

_ACTIVE, _PENDING = TABLE[5], TABLE[-1]
_LOOK_AGAIN_SECONDS: Final = 15.0
"""The seconds until the next pass while no pod is ready, since no watch reports what keeps the pods from running."""

JOB_TERMINAL_REASONS: Final = frozenset(row.reason for row in TROUBLES)
_REASON: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")


def _check(operation: Operation, _target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    problems = list(_problems(parameters_of(operation), context))
    return EngineRefusal(Reason.VALIDATION_FAILED, "; ".join(map(str, problems))) if problems else None


def _problems(given: Mapping[str, Any], context: EngineContext) -> Iterator[Problem]:
    yield from account_problem(given.get("serviceAccountName"), context.settings, "spec.parameters.serviceAccountName")
    yield from image_problem(given["image"], context.settings, "spec.parameters.image")
    env = given.get("env", {})
    for number, variable in enumerate(env if isinstance(env, list | tuple) else ()):
        if ("value" in variable) == ("valueFrom" in variable):
            yield Problem(index("spec.parameters.env", number), "must have either value or valueFrom")


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    parameters = parameters_of(operation)
    manifest = engine_manifest(JOB, operation, target, context)
    spec: dict[str, Any] = {
        # The API's default of 6 would run a command again that may have done half of its work.
        "backoffLimit": parameters.get("backoffLimit", 0),
        **one_at_a_time(parameters.get("backoffLimit", 0)),
        # The controller deletes pods and logs with the Job, so its end may be missed (end_from_events).
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": {"labels": dict(manifest["metadata"]["labels"])}, "spec": _pod(parameters)},
    }
    if "timeoutSeconds" in parameters:
        spec["activeDeadlineSeconds"] = parameters["timeoutSeconds"]
    return (EngineObject(JOB, {**manifest, "spec": spec}),)


def one_at_a_time(backoff_limit: Any) -> dict[str, str]:
    """Return the field of a Job's spec by which a pod is replaced only once it has ended.

    By default it is replaced as soon as its eviction begins, so that two pods do the same work at once. A Job whose
    `backoff_limit` is 0 replaces none, and servers before Kubernetes 1.28 do not know the field: it is left out then.
    """
    return {} if backoff_limit == 0 else {"podReplacementPolicy": "Failed"}


def _pod(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with one unprivileged container that can write only to /tmp.

    `given` has the Operation's parameters.
    """
    container: dict[str, Any] = {
        "name": "run",
        "image": given["image"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "resources": _resources(given.get("resources", {})),
    }
    container |= {name: list(given[name]) for name in ("command", "args") if name in given}
    if env := _env(given.get("env", {})):
        container["env"] = env
    if given.get("envFrom"):
        container["envFrom"] = [dict(source) for source in given["envFrom"]]
    account = given.get("serviceAccountName", RUNNER)
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        # The runner has no rights, so a command needs no token of it; an account that was allowed by name may be used.
        "automountServiceAccountToken": account != RUNNER,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


def _resources(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of a container: those that the parameters request (`given`), completed by small defaults.

    Where only a request or only a limit is given, the other is set to the same value.
    """
    requests, limits = given.get("requests", {}), given.get("limits", {})
    return {
        "requests": {name: requests.get(name, limits.get(name, usual)) for name, usual in DEFAULT_REQUESTS.items()},
        "limits": {name: limits.get(name, requests.get(name, usual)) for name, usual in DEFAULT_LIMITS.items()},
    }


def _env(given: Any) -> list[dict[str, Any]]:
    """Return a container's `env` list from a mapping of names to values, or from such a list.

    If a name occurs several times in the list, its last entry counts.
    """
    if isinstance(given, Mapping):
        return [{"name": name, "value": value} for name, value in given.items()]
    # Names are the key of the list for server-side apply, which refuses a duplicate.
    return [dict(variable) for variable in {variable["name"]: variable for variable in given}.values()]


def observe_job(operation: Operation, objects: Objects) -> EngineStatus:
    """Return the state of the Operation's run, read from the status of its Job, which is in `objects`.

    The Job may have been written by the engine `job`, or taken from a chart's Helm hook.
    """
    engine_object = own_object(operation, objects)
    if engine_object is None:
        return EngineStatus(_RUNNING, "JobMissing")
    ref, live = engine_object
    status = live.get("status") or {}
    row, condition = _row(live, status)
    ended = row.progress is not _RUNNING
    trouble = trouble_of(live, objects) if row in (_ACTIVE, _PENDING) else None
    if trouble is not None:
        row, condition = trouble[0], {"message": trouble[1]}
    outputs: dict[str, Any] = {"jobName": ref.name}
    if ended:
        outputs |= {"succeededPods": status.get("succeeded", 0), "failedPods": status.get("failed", 0)}
    own_reason = str(condition.get("reason") or "") if row.progress is _FAILED else ""
    return EngineStatus(
        row.progress,
        own_reason if _REASON.fullmatch(own_reason) else row.reason,
        str(condition.get("message") or row.meaning),
        outputs,
        LogsRef(JOB.kind, ref.name, ref.namespace or ""),
        requeue_after=None if ended or status.get("ready") else _LOOK_AGAIN_SECONDS,
    )


def job_diagnostics(operation: Operation, objects: Objects) -> tuple[Listing, ...]:
    """Return the requests to list Events and pods that show why no pod is ready, or how a vanished Job ended.

    The Job is that of `operation`, if it is in `objects`. The result is empty if a pod is ready or the Job has ended.
    """
    known, engine_object = operation.status.engine_ref, own_object(operation, objects)
    if engine_object is None:
        gone = known is not None and known.kind == JOB.kind and bool(known.uid)
        return listings(known.namespace, known.uid, pods=False) if gone and known is not None else ()
    ref, live = engine_object
    status, uid = live.get("status") or {}, metadata(live).get("uid")
    if status.get("ready") or not uid or _row(live, status)[0].progress is not _RUNNING:
        return ()
    return listings(ref.namespace or "", str(uid))


def _row(live: Manifest, status: Mapping[str, Any]) -> tuple[Row, Mapping[str, Any]]:
    true = {
        f"{get_path(condition, 'type')}=True": condition
        for condition in status.get("conditions") or ()
        if get_path(condition, "status") == "True"
    }
    for row in TABLE:
        if row.phase in true:
            return row, true[row.phase]
    return _ACTIVE if status.get("active") else _PENDING, {}


def _needs_seconds(operation: Operation, _objects: Objects) -> int:
    """Return the deadline in the Job's parameters plus 60 seconds, so that the Job ends first.

    Return 0 if the parameters have no deadline.
    """
    timeout_seconds = parameters_of(operation).get("timeoutSeconds")
    return timeout_seconds + 60 if isinstance(timeout_seconds, int) else 0


_KEY: Final[ParameterSchema] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[-._a-zA-Z0-9]+$"}
_OPTIONAL: Final[ParameterSchema] = {"type": "boolean"}
_NAMED: Final = record(("name",), name=NAME, optional=_OPTIONAL)
_KEY_OF: Final = record(("name", "key"), name=NAME, key=_KEY, optional=_OPTIONAL)
_VALUE_FROM: Final[ParameterSchema] = {
    **record((), secretKeyRef=_KEY_OF, configMapKeyRef=_KEY_OF),
    "minProperties": 1,
    "maxProperties": 1,
}
_AMOUNT: Final[ParameterSchema] = {"type": "string", "maxLength": 16, "pattern": "^[1-9][0-9]{0,8}(m|[KMGT]i?)?$"}
_AMOUNTS: Final = record((), cpu=_AMOUNT, memory=_AMOUNT)
_JOB: Final = record(
    ("image",),
    image=with_description("Image of the one container; limited where the cluster allows only some.", IMAGE),
    command=with_description("Its entry point, as a list: no shell is put around it.", list_schema(TEXT)),
    args=with_description("Its arguments.", list_schema(TEXT)),
    env={
        "description": "Environment: a map of names to values, or a list of `name` with `value` or with `valueFrom`"
        " (`secretKeyRef` or `configMapKeyRef`: `name`, `key`). Secrets come by reference only.",
        "type": ["object", "array"],
        "propertyNames": ENV_NAME,
        "additionalProperties": TEXT,
        "items": record(("name",), name=ENV_NAME, value=TEXT, valueFrom=_VALUE_FROM),
        "maxProperties": 256,
        "maxItems": 256,
    },
    envFrom=with_description(
        "Whole Secrets (`secretRef: {name}`) or ConfigMaps (`configMapRef: {name}`) as environment.",
        list_schema(
            {**record((), secretRef=_NAMED, configMapRef=_NAMED, prefix=ENV_NAME), "minProperties": 1}, most=16
        ),
    ),
    resources=with_description(
        "CPU and memory of the container, as `requests` and `limits`; small ones unless given.",
        record((), requests=_AMOUNTS, limits=_AMOUNTS),
    ),
    serviceAccountName=with_description(
        "Another service account than `vworkspace-operation-runner`; the cluster has to allow it.", NAME
    ),
    timeoutSeconds=with_description("`activeDeadlineSeconds` of the Job.", SECONDS),
    backoffLimit=with_description(
        "How often a failed pod is replaced; 0 unless given.", {"type": "integer", "minimum": 0, "maximum": 10}
    ),
)

ENGINE: Final = Engine(
    name="job",
    kinds=always(JOB),
    desired=_desired,
    observe=observe_job,
    tables={"Job": TABLE},
    timeout_seconds=3600,
    check=_check,
    needs_seconds=_needs_seconds,
    diagnostics=job_diagnostics,
    final_status=end_from_events,
    terminal_reasons=JOB_TERMINAL_REASONS,
    templates=(
        EngineTemplate(
            OperationType.RUN_COMMAND,
            _JOB,
            example={
                "image": "registry.example.com/nextcloud:30",
                "command": ["php", "occ"],
                "args": ["maintenance:repair"],
                "env": {"LANG": "C"},
            },
            refused=({"serviceAccountName": "cluster-admin"}, {"command": "php occ"}, {"privileged": True}),
            needs_ready_target=True,
        ),
    ),
    tenant_access=PODS_ACCESS,
    remedy=remedy_of_pods,
    demo=DemoOperation(
        "rescan", OperationType.RUN_COMMAND, {"image": "nextcloud:30", "command": ["php", "occ", "files:scan", "--all"]}
    ),
)
