"""helmHookJob: a chart's own hook, run once more as a Job of ours (OPS-8).

The hook is a live Job that Helm annotated, or else the one recorded in the release Secret of the deployed revision.
Its pod template is taken as it is; Helm's annotations are not, or Helm would take our Job for its own.
"""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.operation import Operation
from vworkspace_core.kinds.reasons import OperationReason as Reason
from vworkspace_core.known import JOB, SECRET
from vworkspace_core.manifest import Manifest, ObjectRef, dig
from vworkspace_core.operations.contract import (
    Engine,
    EngineContext,
    EngineObject,
    Lookup,
    Refusal,
    Selection,
    always,
)
from vworkspace_core.operations.engines.job import KEPT_SECONDS, TABLE, observe_job
from vworkspace_core.operations.engines.releases import UnreadableRelease, hooks_of, revision_of
from vworkspace_core.operations.identity import engine_manifest, parameters
from vworkspace_core.operations.settings import OperationSettings

__all__ = ["ENGINE"]

_HOOK: Final = "helm.sh/hook"
_RELEASE_TYPE: Final = "helm.sh/release.v1"
_KEPT_FIELDS: Final = ("activeDeadlineSeconds", "backoffLimit", "completions", "completionMode", "parallelism")
_CONTROLLER_LABELS: Final = frozenset(
    {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
)
_CONTROLLER_PREFIXES: Final = ("helm.sh/", "meta.helm.sh/")


class _NoHook(ValueError):
    """Why there is none."""


def _looks_up(operation: Operation, target: ApplicationInstance, _settings: OperationSettings) -> tuple[Lookup, ...]:
    job = ObjectRef(JOB, operation.metadata.namespace, parameters(operation)["hookName"])
    if target.spec.release is None:
        return (job,)
    selector = f"owner=helm,name={target.spec.release.name},status=deployed"
    return (job, Selection(SECRET, target.spec.release.namespace, selector))


def _check(operation: Operation, target: ApplicationInstance, context: EngineContext) -> Refusal | None:
    try:
        _find(operation, target, context)
    except _NoHook as error:
        return Refusal(Reason.HOOK_NOT_FOUND, str(error))
    return None


def _find(operation: Operation, target: ApplicationInstance, context: EngineContext) -> Mapping[str, Any]:
    """The spec of the hook's Job. Raises _NoHook."""
    name = parameters(operation)["hookName"]
    live = context.objects.get(ObjectRef(JOB, operation.metadata.namespace, name))
    if live is not None and dig(live, "metadata", "annotations", _HOOK):
        found = dig(live, "spec")
    else:
        found = dig(_recorded(name, target, context), "spec")
    if not isinstance(dig(found, "template", "spec", "containers"), list):
        raise _NoHook(f"the chart's hook {name} is no Job with a pod template")
    return found  # type: ignore[no-any-return]


def _recorded(name: str, target: ApplicationInstance, context: EngineContext) -> Any:
    """The hook's manifest as the deployed revision records it."""
    release = target.spec.release
    if release is None:
        raise _NoHook("the target has no release")
    secrets = [
        secret for ref, secret in context.objects.items() if ref.kind == SECRET and _is_release(secret, release.name)
    ]
    if not secrets:
        raise _NoHook(f"no Job {name} with the annotation {_HOOK}, and no deployed release {release.name}")
    try:
        for hook in hooks_of(max(secrets, key=revision_of)):
            if hook.get("name") == name and hook.get("kind") == JOB.kind:
                return context.parse_yaml(str(hook.get("manifest", "")))
    except UnreadableRelease as error:
        raise _NoHook(f"release {release.name}: {error}") from None
    except ValueError:
        raise _NoHook(f"the manifest of hook {name} in release {release.name} cannot be read") from None
    raise _NoHook(f"the deployed release {release.name} has no Job hook {name}")


def _is_release(secret: Manifest, name: str) -> bool:
    labels = dig(secret, "metadata", "labels") or {}
    marks = (secret.get("type"), labels.get("owner"), labels.get("name"), labels.get("status"))
    return marks == (_RELEASE_TYPE, "helm", name, "deployed")


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    hook = _find(operation, target, context)
    manifest = engine_manifest(JOB, operation, target, context)
    template = hook["template"]
    meta = {"labels": {**_labels(template), **manifest["metadata"]["labels"]}}
    if annotations := _annotations(template):
        meta["annotations"] = annotations
    pod = dict(template["spec"])
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        pod["restartPolicy"] = "Never"
    manifest["spec"] = {
        **{field: hook[field] for field in _KEPT_FIELDS if field in hook},
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": meta, "spec": pod},
    }
    return (EngineObject(JOB, manifest),)


def _labels(template: Manifest) -> dict[str, str]:
    """Without those that the Job controller sets for one Job: ours gets its own."""
    labels = dig(template, "metadata", "labels") or {}
    return {key: value for key, value in labels.items() if key not in _CONTROLLER_LABELS}


def _annotations(template: Manifest) -> dict[str, str]:
    annotations = dig(template, "metadata", "annotations") or {}
    return {key: value for key, value in annotations.items() if not key.startswith(_CONTROLLER_PREFIXES)}


ENGINE: Final = Engine(
    name="helmHookJob",
    kinds=always(JOB),
    desired=_desired,
    observe=observe_job,
    tables={"Job": TABLE},
    timeout_seconds=3600,
    check=_check,
    looks_up=_looks_up,
)
