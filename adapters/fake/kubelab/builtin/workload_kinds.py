"""The definitions of the built-in kinds ControllerRevision, Deployment, StatefulSet and DaemonSet."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import REPLICAS, built_in, filled, pod_template
from kubelab.builtin.pod_checks import share_causes, template_causes
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, not_supported, required
from purekube.schema.structure import equal

Defaults = Callable[[Mapping[str, Any]], dict[str, Any]]


_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_NOTHING: Final = (0, "0%")
_PODS: Final = {"metadata": {}, "spec": {"containers": None}}


def _reader(defaults: Defaults) -> Callable[[Manifest], Manifest]:
    def read(manifest: Manifest) -> Manifest:
        spec = defaults(manifest.get("spec") or {})
        if isinstance(spec.get("template"), Mapping):
            spec["template"] = pod_template(spec["template"])
        return filled({**manifest, "spec": spec}, status={})

    return read


def _deployment(spec: Mapping[str, Any]) -> dict[str, Any]:
    out = filled(spec, replicas=1, strategy={}, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    out["strategy"] = _rolling(out["strategy"], maxUnavailable="25%", maxSurge="25%")
    return out


def _rolling(strategy: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    out = filled(strategy, type="RollingUpdate")
    if out["type"] == "RollingUpdate":
        out["rollingUpdate"] = filled(out.get("rollingUpdate") or {}, **defaults)
    return out


def _stateful_set(spec: Mapping[str, Any]) -> dict[str, Any]:
    out = filled(
        spec,
        podManagementPolicy="OrderedReady",
        replicas=1,
        revisionHistoryLimit=10,
        persistentVolumeClaimRetentionPolicy={},
        updateStrategy={},
    )
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    out["persistentVolumeClaimRetentionPolicy"] = filled(out["persistentVolumeClaimRetentionPolicy"], **retention)
    out["updateStrategy"] = _rolling(out["updateStrategy"], partition=0)
    return out


def _daemon_set(spec: Mapping[str, Any]) -> dict[str, Any]:
    out = filled(spec, revisionHistoryLimit=10, updateStrategy={})
    out["updateStrategy"] = _rolling(out["updateStrategy"], maxSurge=0, maxUnavailable=1)
    return out


def _check(manifest: Manifest) -> list[StatusCause]:
    """Return the problems of a workload such as a Deployment.

    Its selector must select the pods of its template, and the template must be valid.
    """
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    match_labels = (spec.get("selector") or {}).get("matchLabels") or {}
    causes = [] if spec.get("selector") else [required("spec.selector")]
    if any(labels.get(key) != value for key, value in match_labels.items()):
        causes.append(
            invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        )
    return [*causes, *_negative(spec), *_template(manifest["kind"], template.get("spec") or {})]


def _template(kind: str, spec: Mapping[str, Any]) -> list[StatusCause]:
    """Return the problems of the pods' `spec` in the template of a workload whose pods are always restarted."""
    path, owner = "spec.template.spec", "ReplicaSet" if kind == "Deployment" else kind
    causes = template_causes(spec, path)
    if spec.get("restartPolicy") in ("Never", "OnFailure"):
        causes.append(not_supported(f"{path}.restartPolicy", spec["restartPolicy"], ("Always",)))
    if spec.get("activeDeadlineSeconds"):
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        causes.append(forbidden_value(f"{path}.activeDeadlineSeconds", text))
    return causes


def _check_deployment(manifest: Manifest) -> list[StatusCause]:
    spec = manifest["spec"]
    strategy, deadline = spec["strategy"], spec["progressDeadlineSeconds"]
    causes = [*_check(manifest), *_strategy(strategy)]
    if 0 <= deadline <= (spec.get("minReadySeconds") or 0):
        text = "must be greater than minReadySeconds"
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, text))
    return causes


def _strategy(strategy: Mapping[str, Any]) -> list[StatusCause]:
    """Return the problems of a Deployment's strategy.

    Recreate takes no `rollingUpdate`, not even the default one that an object had before: an apply has to remove it.
    """
    path, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            return _shares(strategy["rollingUpdate"], path)
        case "Recreate":
            text = "may not be specified when strategy `type` is 'Recreate'"
            return [] if rolling is None else [forbidden_value(path, text)]
        case other:
            return [not_supported("spec.strategy", other, ("Recreate", "RollingUpdate"))]


def _shares(rolling: Mapping[str, Any], path: str) -> list[StatusCause]:
    most, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = [*share_causes(most, f"{path}.maxUnavailable", most=100), *share_causes(surge, f"{path}.maxSurge")]
    if most in _NOTHING and surge in _NOTHING:
        causes.append(invalid_value(f"{path}.maxUnavailable", most, "may not be 0 when `maxSurge` is 0"))
    return causes


def _check_set(manifest: Manifest) -> list[StatusCause]:
    """Return the problems of a StatefulSet. Its strategy OnDelete takes no `rollingUpdate`."""
    strategy, path = manifest["spec"]["updateStrategy"], "spec.updateStrategy.rollingUpdate"
    rolling, causes = strategy.get("rollingUpdate") or {}, _check(manifest)
    if strategy["type"] == "OnDelete" and rolling:
        causes.append(invalid_value(path, rolling, "only allowed for updateStrategy 'RollingUpdate'"))
    elif rolling.get("partition", 0) < 0:
        text = "must be greater than or equal to 0"
        causes.append(invalid_value(f"{path}.partition", rolling["partition"], text))
    return causes


def _check_daemons(manifest: Manifest) -> list[StatusCause]:
    strategy, causes = manifest["spec"]["updateStrategy"], _check(manifest)
    rolling = strategy.get("rollingUpdate")
    if (
        strategy["type"] == "RollingUpdate"
        and rolling["maxUnavailable"] in _NOTHING
        and rolling["maxSurge"] in _NOTHING
    ):
        causes.append(required("spec.updateStrategy.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _negative(spec: Mapping[str, Any]) -> list[StatusCause]:
    return [
        invalid_value(f"spec.{key}", spec[key], "must be greater than or equal to 0")
        for key in _COUNTS
        if (spec.get(key) or 0) < 0
    ]


def _check_selector(new: Manifest, old: Manifest) -> list[StatusCause]:
    if equal(new["spec"].get("selector"), old["spec"].get("selector")):
        return []
    return [invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")]


_SET_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _check_set_change(new: Manifest, old: Manifest) -> list[StatusCause]:
    """Return the problems of changed fields of a StatefulSet: most fields of its spec are immutable after creation."""
    now = {key: value for key, value in new["spec"].items() if key not in _SET_CHANGES}
    before = {key: value for key, value in old["spec"].items() if key not in _SET_CHANGES}
    if equal(now, before):
        return []
    listed = ", ".join(f"'{key}'" for key in _SET_CHANGES[:-1]) + f" and '{_SET_CHANGES[-1]}'"
    return [forbidden_value("spec", f"updates to statefulset spec for fields other than {listed} are forbidden")]


def _behaviour(
    defaults: Defaults,
    check: Callable[[Manifest], list[StatusCause]],
    check_change: Callable[[Manifest, Manifest], list[StatusCause]] = _check_selector,
    status: Mapping[str, Any] | None = None,
    **structs: Any,
) -> Behaviour:
    return Behaviour(
        skeleton={"spec": {"template": _PODS, **structs}, "status": dict(status or {})},
        generation=Generation.SPEC,
        read=_reader(defaults),
        on_create=lambda manifest: {**manifest, "status": dict(status or {})},
        check=check,
        check_update=lambda new, old: [*check(new), *check_change(new, old)],
    )


_DAEMON_STATUS: Final = {
    "currentNumberScheduled": 0,
    "numberMisscheduled": 0,
    "desiredNumberScheduled": 0,
    "numberReady": 0,
}


def _check_revision(manifest: Manifest) -> list[StatusCause]:
    causes = [] if manifest.get("data") is not None else [required("data", "data is mandatory")]
    number = manifest["revision"]
    negative = invalid_value("revision", number, "must be greater than or equal to 0")
    return [*causes, negative] if number < 0 else causes


def _check_revision_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    if equal(new.get("data"), old.get("data")):
        return _check_revision(new)
    return [*_check_revision(new), invalid_value("data", new.get("data"), "field is immutable")]


WORKLOADS: Final = (
    built_in(
        schemas.CONTROLLER_REVISION,
        Behaviour(
            unconditional_update=False,
            skeleton={"revision": 0},
            read=lambda manifest: filled(manifest, revision=0),
            check=_check_revision,
            check_update=_check_revision_update,
        ),
    ),
    built_in(
        schemas.DEPLOYMENT,
        _behaviour(_deployment, _check_deployment, strategy={}),
        short_names=("deploy",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.REPLICA_SET,
        _behaviour(lambda spec: filled(spec, replicas=1), _check, status={"replicas": 0}),
        short_names=("rs",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.STATEFUL_SET,
        _behaviour(
            _stateful_set, _check_set, _check_set_change, {"replicas": 0, "availableReplicas": 0}, updateStrategy={}
        ),
        short_names=("sts",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.DAEMON_SET,
        _behaviour(_daemon_set, _check_daemons, status=_DAEMON_STATUS, updateStrategy={}),
        short_names=("ds",),
        categories=("all",),
    ),
)
