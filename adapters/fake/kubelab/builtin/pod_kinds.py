"""The definition of the built-in kind Pod: its defaults, and the checks of its spec and of changes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled, pod_spec
from kubelab.builtin.pod_checks import pod_causes
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import workload_schemas as schemas
from purekube.schema.causes import forbidden_value
from purekube.schema.structure import equal

_CHANGEABLE: Final = (
    "spec.containers[*].image",
    "spec.initContainers[*].image",
    "spec.activeDeadlineSeconds",
    "spec.tolerations (only additions to existing tolerations)",
    "spec.terminationGracePeriodSeconds (allow it to be set to 1 if it was previously negative)",
)


def _check_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    if not equal(_fixed(new["spec"]), _fixed(old["spec"])):
        listed = ",".join(f"`{field}`" for field in _CHANGEABLE)
        yield forbidden_value("spec", f"pod updates may not change fields other than {listed}")


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
    resources = [container.get("resources") or {} for container in spec.get("containers") or ()]
    if all(not (requirements.get("limits") or requirements.get("requests")) for requirements in resources):
        return "BestEffort"
    whole = all(
        {"cpu", "memory"} <= set(requirements.get("limits") or ())
        and (requirements.get("requests") or requirements["limits"]) == requirements["limits"]
        for requirements in resources
    )
    return "Guaranteed" if whole else "Burstable"


PODS: Final = (
    built_in(
        schemas.POD,
        Behaviour(
            skeleton={"spec": {"containers": None}, "status": {}},
            generation=Generation.SPEC,
            read=lambda manifest: filled(
                {**manifest, "spec": pod_spec(manifest.get("spec") or {}, service_links=True)}, status={}
            ),
            on_create=lambda manifest: {
                **manifest,
                "status": {"phase": "Pending", "qosClass": _quality(manifest["spec"])},
            },
            check=lambda manifest: pod_causes(manifest.get("spec") or {}, "spec"),
            check_update=_check_update,
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
