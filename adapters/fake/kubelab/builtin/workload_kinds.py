"""The definitions of the built-in kinds ControllerRevision, Deployment, StatefulSet and DaemonSet."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from kubelab.builtin.definition_builder import REPLICAS, built_in, filled, pod_template
from kubelab.builtin.pod_checks import share_causes, template_causes
from kubelab.builtin.pod_warnings import warnings_of_template
from kubelab.builtin.selector_checks import selector_causes
from kubelab.builtin.storage_kinds import claim_causes
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import selects_labels
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, not_supported, required
from purekube.schema.structure import equal

Defaults = Callable[[Mapping[str, Any]], dict[str, Any]]

_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_NOTHING: Final = (0, "0%")
_RETENTION: Final = ("Retain", "Delete")
_SELECTORS: Final = frozenset({"matchLabels", "matchExpressions"})
_PODS: Final = {"metadata": {}, "spec": {"containers": None}}


def _reader(defaults: Defaults) -> Callable[[Manifest], Manifest]:
    def read(manifest: Manifest) -> Manifest:
        spec = defaults(manifest.get("spec") or {})
        if isinstance(spec.get("template"), Mapping):
            spec["template"] = pod_template(spec["template"])
        return filled({**manifest, "spec": spec}, status={})

    return read


def _deployment(spec: Mapping[str, Any]) -> dict[str, Any]:
    # kubernetes: pkg/apis/apps/v1/defaults.go, SetDefaults_Deployment.
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
        # pkg/apis/apps/v1/defaults.go, SetDefaults_StatefulSet.
        podManagementPolicy="OrderedReady",
        replicas=1,
        revisionHistoryLimit=10,
        persistentVolumeClaimRetentionPolicy={},
        updateStrategy={},
    )
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    out["persistentVolumeClaimRetentionPolicy"] = filled(out["persistentVolumeClaimRetentionPolicy"], **retention)
    out["updateStrategy"] = _rolling(out["updateStrategy"], partition=0)
    # kubernetes: features/kube_features.go, MaxUnavailableStatefulSet is off: the field is dropped.
    if "maxUnavailable" in (rolling := out["updateStrategy"].get("rollingUpdate") or {}):
        kept = {key: value for key, value in rolling.items() if key != "maxUnavailable"}
        out["updateStrategy"] = {**out["updateStrategy"], "rollingUpdate": kept}
    if isinstance(out.get("volumeClaimTemplates"), list):
        out["volumeClaimTemplates"] = [_claim(claim) for claim in out["volumeClaimTemplates"]]
    return out


def _claim(claim: Any) -> Any:
    """Return the template of a claim as kube-apiserver shows it: as an object that is pending."""
    if not isinstance(claim, Mapping):
        return claim
    spec = filled(claim.get("spec") or {}, volumeMode="Filesystem")
    return {**claim, "kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": spec, "status": {"phase": "Pending"}}


def _daemon_set(spec: Mapping[str, Any]) -> dict[str, Any]:
    out = filled(spec, revisionHistoryLimit=10, updateStrategy={})
    # pkg/apis/apps/v1/defaults.go, SetDefaults_DaemonSet: unlike a Deployment it has no surge.
    out["updateStrategy"] = _rolling(out["updateStrategy"], maxSurge=0, maxUnavailable=1)
    return out


def _check(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a workload such as a Deployment.

    Its selector must select the pods of its template, and the template must be valid.
    """
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector") or {}
    if not selector.keys() & _SELECTORS:
        yield _selects_all(manifest)
    yield from selector_causes(selector, "spec.selector")
    if not selects_labels(selector, labels):
        shown = labels or None
        yield invalid_value("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")
    for key in _COUNTS:
        if (spec.get(key) or 0) < 0:
            yield invalid_value(f"spec.{key}", spec[key], "must be greater than or equal to 0")
    yield from _template(manifest["kind"], _with_claims(template, spec.get("volumeClaimTemplates") or ()))


def _with_claims(template: Mapping[str, Any], claims: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the `template` with a volume for each of the `claims` of a StatefulSet, which its pods may mount.

    A claim hides a volume of its name, and comes before all volumes.
    """
    names = dict.fromkeys((claim.get("metadata") or {}).get("name") or "" for claim in claims)
    if not names:
        return template
    spec = template.get("spec") or {}
    own = [volume for volume in spec.get("volumes") or () if (volume.get("name") or "") not in names]
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**spec, "volumes": [*claimed, *own]}}


def _selects_all(manifest: Manifest) -> StatusCause:
    """Return the problem of a workload whose selector is absent or empty, and would select every pod."""
    if "selector" not in manifest["spec"]:
        return required("spec.selector")
    owner = {"StatefulSet": "statefulset", "DaemonSet": "daemonset"}.get(manifest["kind"], "deployment")
    return invalid_value("spec.selector", {}, f"empty selector is invalid for {owner}")


def _template(kind: str, template: Mapping[str, Any]) -> Iterator[StatusCause]:
    """Yield the problems of the `template` of a workload whose pods are always restarted."""
    # The template of a Deployment is checked as that of a ReplicaSet, which the message then names
    # (pkg/apis/apps/validation, ValidatePodTemplateSpecForReplicaSet).
    path, owner = "spec.template.spec", "ReplicaSet" if kind == "Deployment" else kind
    yield from template_causes(template, "spec.template")
    spec = template.get("spec") or {}
    if spec.get("restartPolicy", "Always") != "Always":
        yield not_supported(f"{path}.restartPolicy", spec["restartPolicy"], ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden_value(f"{path}.activeDeadlineSeconds", text)


def _check_deployment(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    yield from _check(manifest)
    yield from _strategy(spec["strategy"])
    if 0 <= (deadline := spec["progressDeadlineSeconds"]) <= (spec.get("minReadySeconds") or 0):
        yield invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _strategy(strategy: Mapping[str, Any]) -> Iterator[StatusCause]:
    """Yield the problems of a Deployment's strategy.

    Recreate takes no `rollingUpdate`, not even the default one that an object had before: an apply has to remove it.
    """
    path, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            yield from _shares(strategy["rollingUpdate"], path)
        case "Recreate":
            if rolling is not None:
                yield forbidden_value(path, "may not be specified when strategy `type` is 'Recreate'")
        case other:
            # The message names the struct, not its field `type` (pkg/apis/apps/validation, ValidateDeploymentStrategy).
            yield not_supported("spec.strategy", other, ("Recreate", "RollingUpdate"))


def _shares(rolling: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    most, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    yield from share_causes(most, f"{path}.maxUnavailable", most=100)
    yield from share_causes(surge, f"{path}.maxSurge")
    if most in _NOTHING and surge in _NOTHING:
        yield invalid_value(f"{path}.maxUnavailable", most, "may not be 0 when `maxSurge` is 0")


def _check_set(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a StatefulSet. Its strategy OnDelete takes no `rollingUpdate`."""
    yield from _check(manifest)
    strategy, path = manifest["spec"]["updateStrategy"], "spec.updateStrategy.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    if (policy := manifest["spec"]["podManagementPolicy"]) not in ("OrderedReady", "Parallel"):
        yield invalid_value("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    for key, what in manifest["spec"]["persistentVolumeClaimRetentionPolicy"].items():
        if what not in _RETENTION:
            yield not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{key}", what, _RETENTION)
    for index, claim in enumerate(manifest["spec"].get("volumeClaimTemplates") or ()):
        yield from claim_causes(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        yield invalid_value("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")
    if strategy["type"] == "OnDelete" and rolling:
        yield invalid_value(path, rolling, "only allowed for updateStrategy 'RollingUpdate'")
    elif rolling.get("partition", 0) < 0:
        yield invalid_value(f"{path}.partition", rolling["partition"], "must be greater than or equal to 0")


def _check_daemons(manifest: Manifest) -> Iterator[StatusCause]:
    yield from _check(manifest)
    strategy = manifest["spec"]["updateStrategy"]
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        yield not_supported("spec.updateStrategy", strategy["type"], ("RollingUpdate", "OnDelete"))
    if strategy["type"] != "RollingUpdate":
        return
    path, most, surge = "spec.updateStrategy.rollingUpdate", rolling["maxUnavailable"], rolling["maxSurge"]
    yield from share_causes(most, f"{path}.maxUnavailable", most=100)
    yield from share_causes(surge, f"{path}.maxSurge", most=100)
    if most in _NOTHING and surge in _NOTHING:
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif most not in _NOTHING and surge not in _NOTHING:
        yield invalid_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")


def _check_selector(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    if not equal(new["spec"].get("selector"), old["spec"].get("selector")):
        yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")


_SET_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _check_set_change(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of changed fields of a StatefulSet: most fields of its spec are immutable after creation."""
    now = {key: value for key, value in new["spec"].items() if key not in _SET_CHANGES}
    before = {key: value for key, value in old["spec"].items() if key not in _SET_CHANGES}
    if not equal(now, before):
        # The message lists them in this order (pkg/apis/apps/validation, ValidateStatefulSetUpdate).
        listed = ", ".join(f"'{key}'" for key in _SET_CHANGES[:-1]) + f" and '{_SET_CHANGES[-1]}'"
        yield forbidden_value("spec", f"updates to statefulset spec for fields other than {listed} are forbidden")


def _behaviour(
    defaults: Defaults,
    check: Callable[[Manifest], Iterable[StatusCause]],
    check_change: Callable[[Manifest, Manifest], Iterable[StatusCause]] = _check_selector,
    status: Mapping[str, Any] | None = None,
    *,
    names_pods: bool = False,
    **structs: Any,
) -> Behaviour:
    return Behaviour(
        skeleton={"spec": {"template": _PODS, **structs}, "status": dict(status or {})},
        generation=Generation.SPEC,
        read=_reader(defaults),
        on_create=lambda manifest: {**manifest, "status": dict(status or {})},
        check=check,
        check_update=lambda new, old: [*check(new), *check_change(new, old)],
        warnings=warnings_of_template("spec", "template", names_pods=names_pods),
    )


# kubernetes: apis/apps/v1/conversion.go: a field of extensions/v1beta1, of which apps/v1 shows what is left.
_COUNT: Final = "deprecated.daemonset.template.generation"


def _with_count(behaviour: Behaviour) -> Behaviour:
    """Return the behaviour of DaemonSets, which have the number of their template in an annotation."""
    return attrs.evolve(
        behaviour,
        # Who creates an object owns it, but not its value.
        read=lambda manifest: _counted(behaviour.read(manifest), "0", kept=True),
        on_create=lambda manifest: _counted(behaviour.on_create(manifest), "1"),
        on_update=_count_template,
    )


def _count_template(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated DaemonSet with the number of its template, which changes with it."""
    count = get_path(old, "metadata", "annotations", _COUNT) or "1"
    is_same = equal(new["spec"].get("template"), old["spec"].get("template"))
    return _counted(new, count if is_same else str(int(count) + 1))


def _counted(manifest: Manifest, count: str, *, kept: bool = False) -> Manifest:
    meta = manifest["metadata"]
    annotations = meta.get("annotations") or {}
    shown = annotations.get(_COUNT, count) if kept else count
    return {**manifest, "metadata": {**meta, "annotations": {**annotations, _COUNT: shown}}}


_DAEMON_STATUS: Final = {
    "currentNumberScheduled": 0,
    "numberMisscheduled": 0,
    "desiredNumberScheduled": 0,
    "numberReady": 0,
}


def _check_revision(manifest: Manifest) -> Iterator[StatusCause]:
    # pkg/apis/apps/validation, ValidateControllerRevision.
    if manifest.get("data") is None:
        yield required("data", "data is mandatory")
    if (number := manifest["revision"]) < 0:
        yield invalid_value("revision", number, "must be greater than or equal to 0")


def _check_revision_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    yield from _check_revision(new)
    if not equal(new.get("data"), old.get("data")):
        yield invalid_value("data", new.get("data"), "field is immutable")


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
        _behaviour(_deployment, _check_deployment, names_pods=True, strategy={}),
        short_names=("deploy",),
        categories=("all",),
        scale=REPLICAS,
    ),
    built_in(
        schemas.REPLICA_SET,
        _behaviour(lambda spec: filled(spec, replicas=1), _check, status={"replicas": 0}, names_pods=True),
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
        _with_count(_behaviour(_daemon_set, _check_daemons, status=_DAEMON_STATUS, updateStrategy={})),
        short_names=("ds",),
        categories=("all",),
    ),
)
