"""The definitions of the built-in kinds ControllerRevision, Deployment, StatefulSet and DaemonSet."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import REPLICAS, built_in, filled, pod_template
from kubelab.builtin.pod_kinds import check_pod_spec
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, required
from purekube.schema.structure import equal

Manifest = Mapping[str, Any]
Defaults = Callable[[Mapping[str, Any]], dict[str, Any]]


_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
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
    return [*causes, *_negative(spec), *check_pod_spec(template.get("spec") or {}, "spec.template.spec")]


def _negative(spec: Mapping[str, Any]) -> list[StatusCause]:
    return [
        invalid_value(f"spec.{key}", spec[key], "must be greater than or equal to 0")
        for key in _COUNTS
        if (spec.get(key) or 0) < 0
    ]


def _check_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    causes = _check(new)
    if not equal(new["spec"].get("selector"), old["spec"].get("selector")):
        causes.append(invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable"))
    return causes


_SET_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _check_set_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    """Return the problems of a StatefulSet's update: most fields of its spec are immutable after creation."""
    now = {key: value for key, value in new["spec"].items() if key not in _SET_CHANGES}
    before = {key: value for key, value in old["spec"].items() if key not in _SET_CHANGES}
    if equal(now, before):
        return _check(new)
    listed = ", ".join(f"'{key}'" for key in _SET_CHANGES[:-1]) + f" and '{_SET_CHANGES[-1]}'"
    return [
        *_check(new),
        forbidden_value("spec", f"updates to statefulset spec for fields other than {listed} are forbidden"),
    ]


def _behaviour(
    defaults: Defaults,
    check_update: Callable[[Manifest, Manifest], list[StatusCause]] = _check_update,
    status: Mapping[str, Any] | None = None,
    **structs: Any,
) -> Behaviour:
    return Behaviour(
        skeleton={"spec": {"template": _PODS, **structs}, "status": dict(status or {})},
        generation=Generation.SPEC,
        unconditional_update=True,
        read=_reader(defaults),
        on_create=lambda manifest: {**manifest, "status": dict(status or {})},
        check=_check,
        check_update=check_update,
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
            skeleton={"revision": 0},
            generation=Generation.NEVER,
            read=lambda manifest: filled(manifest, revision=0),
            check=_check_revision,
            check_update=_check_revision_update,
        ),
    ),
    built_in(
        schemas.DEPLOYMENT,
        _behaviour(_deployment, strategy={}),
        short_names=("deploy",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.REPLICA_SET,
        _behaviour(lambda spec: filled(spec, replicas=1), status={"replicas": 0}),
        short_names=("rs",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.STATEFUL_SET,
        _behaviour(_stateful_set, _check_set_update, {"replicas": 0, "availableReplicas": 0}, updateStrategy={}),
        short_names=("sts",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.DAEMON_SET,
        _behaviour(_daemon_set, status=_DAEMON_STATUS, updateStrategy={}),
        short_names=("ds",),
        categories=("all",),
    ),
)
