"""The definition of the built-in kind Pod: its defaults, and the checks of its spec and of changes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled, pod_spec
from kubelab.builtin.pod_checks import new_pod_causes
from kubelab.builtin.pod_warnings import warnings_of_pod
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import forbidden_value
from purekube.schema.structure import equal

# The text of pkg/apis/core/validation, ValidatePodUpdate.
_CHANGEABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def _read(manifest: Manifest) -> Manifest:
    """Return a pod with its defaults. Some of them are a pod's only: templates have none of them."""
    spec = pod_spec(manifest.get("spec") or {}, service_links=True)
    # kubernetes: apis/core/v1/conversion.go, Convert_v1_Pod_To_core_Pod; a template keeps it, and its author is warned.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), list):
            spec[key] = [_container(container, on_host=bool(spec.get("hostNetwork"))) for container in spec[key]]
    if isinstance(spec.get("resources"), Mapping) and spec["resources"].get("limits"):
        spec["resources"] = _requested(spec["resources"])
    return filled({**manifest, "spec": spec}, status={})


def _container(container: Any, *, on_host: bool) -> Any:
    """Return a pod's container with its limits as requests, and with ports of the node if the pod is `on_host`."""
    # kubernetes: apis/core/v1/defaults.go, SetDefaults_Pod.
    if not isinstance(container, Mapping):
        return container
    out = dict(container)
    if isinstance(out["resources"], Mapping) and out["resources"].get("limits"):
        out["resources"] = _requested(out["resources"])
    if on_host and isinstance(out.get("ports"), list):
        out["ports"] = [filled(port, hostPort=port.get("containerPort")) for port in out["ports"]]
    return out


def _requested(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}


def _create(pod: Manifest) -> Manifest:
    """Return a new pod with its initial status, and with what admission adds to every pod."""
    spec = pod["spec"]
    spec = {**spec, "tolerations": _tolerations(spec)}
    status: dict[str, Any] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": why}
        status["conditions"] = [{**condition, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}]
    return {**pod, "spec": spec, "status": {**status, "qosClass": _quality(spec)}}


def _update(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated pod: a PUT may leave out what admission added."""
    kept = {key: old["spec"].get(key) for key in ("priority", "preemptionPolicy")}
    return {**new, "spec": {**filled(new["spec"], **kept), "tolerations": _tolerations(new["spec"])}}


def _tolerations(spec: Mapping[str, Any]) -> list[Any]:
    """Return the tolerations of a pod, of which every one tolerates five minutes on a node that is not ready."""
    # kubernetes: plugin/pkg/admission/defaulttolerationseconds/admission.go.
    given = spec.get("tolerations")
    if not given:
        return _MINUTES
    missing = [each for each in _MINUTES if not any(_tolerates(one, each["key"]) for one in given)]
    return [*given, *missing] if missing else list(given)


_MINUTES: Final[list[dict[str, Any]]] = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
]


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _check_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    if not equal(_fixed(new["spec"]), _fixed(old["spec"])):
        yield forbidden_value("spec", f"pod updates may not change fields other than {','.join(_CHANGEABLE)}")


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that an update may not change."""
    out = {key: value for key, value in spec.items() if key not in ("activeDeadlineSeconds", "tolerations")}
    for key in ("containers", "initContainers"):
        if key in out:
            out[key] = [{name: container[name] for name in container if name != "image"} for container in out[key]]
    return out


def _quality(spec: Mapping[str, Any]) -> str:
    """Return the quality-of-service class of a pod with this spec.

    The class is Guaranteed if every request equals its limit, BestEffort without requests and limits, and otherwise
    Burstable.
    """
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    # kubernetes: apis/core/v1/helper/qos/qos.go: the pod's own resources, if it has any, count instead.
    own = (
        [spec["resources"]] if spec.get("resources") else [container.get("resources") or {} for container in containers]
    )
    resources = [(_counted(one.get("limits")), _counted(one.get("requests"))) for one in own]
    if all(not limits and not requests for limits, requests in resources):
        return "BestEffort"
    whole = all(len(limits) == len(_COUNTED) and (requests or limits) == limits for limits, requests in resources)
    return "Guaranteed" if whole else "Burstable"


def _grace(pod: Manifest, asked: int | None) -> int:
    """Return the seconds that a pod has left after a DELETE that asks for `asked` seconds.

    A pod without a node, or one that has ended, has none: no kubelet has to stop it.
    """
    # kubernetes: registry/core/pod/strategy.go, CheckGracefulDelete.
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return pod["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked


_COUNTED: Final = ("cpu", "memory")


def _counted(amounts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the amounts that decide about the quality of service: those above zero of cpu and memory."""
    return {key: amounts[key] for key in _COUNTED if key in amounts and amounts[key] != "0"} if amounts else {}


PODS: Final = (
    built_in(
        schemas.POD,
        Behaviour(
            skeleton={"spec": {"containers": None}, "status": {}},
            generation=Generation.SPEC,
            read=_read,
            on_create=_create,
            on_update=_update,
            check=lambda manifest: new_pod_causes(manifest.get("spec") or {}, "spec"),
            check_update=_check_update,
            grace=_grace,
            warnings=warnings_of_pod,
        ),
        short_names=("po",),
        categories=("all",),
        selectable_fields=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ),
    ),
)
