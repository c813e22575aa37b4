"""helmHookJob: a chart's own hook, run once more as a Job of ours (OPS-8).

The hook is a live Job that Helm annotated, or else the one recorded in the release Secret of the deployed revision.
Its pod template is taken as it is; Helm's annotations are not, or Helm would take our Job for its own.
"""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.operation import Operation
from vworkspace_core.kinds.reasons import OperationReason as Reason
from vworkspace_core.known import HELM_RELEASE, JOB, SECRET
from vworkspace_core.manifest import Manifest, ObjectRef, dig
from vworkspace_core.operations.contract import (
    Engine,
    EngineContext,
    EngineObject,
    Objects,
    Refusal,
    always,
)
from vworkspace_core.operations.engines.job import KEPT_SECONDS, TABLE, observe_job
from vworkspace_core.operations.engines.releases import UnreadableRelease, hooks_of, revision_of
from vworkspace_core.operations.identity import engine_manifest, parameters
from vworkspace_core.operations.settings import OperationSettings

__all__ = ["ENGINE"]

_HOOK: Final = "helm.sh/hook"
_MARK: Final = ("metadata", "annotations", _HOOK)
_RELEASE_TYPE: Final = "helm.sh/release.v1"
_KEPT_FIELDS: Final = ("activeDeadlineSeconds", "backoffLimit", "completions", "completionMode", "parallelism")
_CONTROLLER_LABELS: Final = frozenset(
    {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
)
_CONTROLLER_PREFIXES: Final = ("helm.sh/", "meta.helm.sh/")


class _NoHook(ValueError):
    """Why there is none."""


def _looks_up(operation: Operation, target: ApplicationInstance, _settings: OperationSettings) -> tuple[ObjectRef, ...]:
    release = target.spec.release
    return (_hook_ref(operation),) if release is None else (_hook_ref(operation), _release_ref(operation, release.name))


def _hook_ref(operation: Operation) -> ObjectRef:
    return ObjectRef(JOB, operation.metadata.namespace, parameters(operation)["hookName"])


def _release_ref(operation: Operation, name: str) -> ObjectRef:
    return ObjectRef(HELM_RELEASE, operation.metadata.namespace, name)


def _follows(operation: Operation, objects: Objects) -> tuple[ObjectRef, ...]:
    """Helm's record of the deployed revision, by the name that Flux's history gives it.

    By name, not by label: who may list Secrets may read every one of the namespace.
    """
    known = operation.status.engine_ref
    is_made = known is not None and bool(known.uid)
    if is_made or dig(objects.get(_hook_ref(operation)), *_MARK) is not None:
        return ()
    releases = (live for ref, live in objects.items() if ref.kind == HELM_RELEASE)
    history = [entry for release in releases for entry in dig(release, "status", "history") or ()]
    deployed = (entry for entry in history if dig(entry, "status") == "deployed")
    return tuple(
        ObjectRef(SECRET, operation.metadata.namespace, f"sh.helm.release.v1.{entry['name']}.v{entry['version']}")
        for entry in deployed
        if dig(entry, "name") and dig(entry, "version")
    )


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
    if live is not None and dig(live, *_MARK):
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
    follows=_follows,
)
