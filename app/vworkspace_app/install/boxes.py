"""What runs a box in a cluster, and the rights that it has there: exactly the verbs that it uses (RUN-7, L25)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from vworkspace_app import VERSION
from vworkspace_app.install.options import HEALTH_PORT
from vworkspace_app.install.rbac import rules
from vworkspace_app.install.workload import container, pod
from vworkspace_core.apimachinery.access import Access
from vworkspace_core.apimachinery.manifest import content_hash
from vworkspace_core.boxes.access import access_of, owners
from vworkspace_core.boxes.box import Box

_RBAC: Final = "rbac.authorization.k8s.io"
_FOLDER: Final = "/etc/vworkspace/boxes"


@attrs.frozen
class BoxInstallOptions:
    """Where a box runs and as whom. Without `tenants` it may work in every namespace.

    An empty `account` is one of its own, named as the box is.
    """

    namespace: str = "vworkspace-system"
    account: str = ""
    tenants: tuple[str, ...] = ()
    elects: bool = True
    """It stands for election: it needs Leases."""
    owner_reference_protection: bool = False


def name_of(box: Box) -> str:
    """Of everything there is one of."""
    return f"vworkspace-box-{box.name}"


def box_rbac(box: Box, options: BoxInstallOptions) -> Iterator[dict[str, Any]]:
    """A ClusterRole for what is looked at everywhere, and Roles where objects are made; with their bindings."""
    access = access_of((box,))
    everywhere = list(access.everywhere)
    if options.owner_reference_protection:
        everywhere += owners((box,))
    if not options.tenants:
        everywhere += access.tenant
    yield _role("ClusterRole", box, everywhere)
    yield _binding("ClusterRoleBinding", "ClusterRole", box, options)
    for namespace in options.tenants:
        yield _role("Role", box, access.tenant, namespace)
        yield _binding("RoleBinding", "Role", box, options, namespace)
    if options.elects:
        yield _role("Role", box, access.own, options.namespace, "-election")
        yield _binding("RoleBinding", "Role", box, options, options.namespace, "-election")


def _role(
    kind: str, box: Box, accesses: Sequence[Access], namespace: str | None = None, suffix: str = ""
) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _meta(box, namespace, suffix),
        "rules": rules(accesses),
    }


def _binding(
    kind: str, role: str, box: Box, options: BoxInstallOptions, namespace: str | None = None, suffix: str = ""
) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "name": options.account or name_of(box), "namespace": options.namespace}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _meta(box, namespace, suffix),
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": f"{name_of(box)}{suffix}"},
        "subjects": [account],
    }


def _meta(box: Box, namespace: str | None = None, suffix: str = "") -> dict[str, Any]:
    place = {} if namespace is None else {"namespace": namespace}
    labels = {**_labels(box), "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": "vworkspace"}
    return {"name": f"{name_of(box)}{suffix}", **place, "labels": labels}


def _labels(box: Box) -> dict[str, str]:
    return {"app.kubernetes.io/name": name_of(box)}


# --- the whole -------------------------------------------------------------------------------------------------------


def box_installation(
    box: Box, files: Mapping[str, str], image: str, options: BoxInstallOptions
) -> Iterator[dict[str, Any]]:
    """Everything but the CRD: whoever deletes that deletes every object of the kind. `files` are the box's, by name.

    The box is the first of them. Its pods are made anew when a file changes, since they are named by the content.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(box, options.namespace)}
    yield from box_rbac(box, options)
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(box, options.namespace), "data": dict(files)}
    yield _deployment(box, files, image, options)


def _deployment(box: Box, files: Mapping[str, str], image: str, options: BoxInstallOptions) -> dict[str, Any]:
    selector = {"matchLabels": _labels(box)}
    runs = container(image, "", _arguments(box, next(iter(files)), options))
    runs["volumeMounts"].append({"name": "boxes", "mountPath": _FOLDER, "readOnly": True})
    spec = pod(name_of(box), runs, selector)
    spec["volumes"].append({"name": "boxes", "configMap": {"name": name_of(box)}})
    template = {"metadata": {"labels": _meta(box)["labels"], "annotations": _hash(files)}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(box, options.namespace),
        "spec": {"replicas": 2 if options.elects else 1, "selector": selector, "template": template},
    }


def _arguments(box: Box, file: str, options: BoxInstallOptions) -> list[str]:
    elect = ["--leader-elect", f"--leader-elect-resource-name={name_of(box)}"] if options.elects else []
    return [
        *("box", "run", f"{_FOLDER}/{file}"),
        f"--namespace={options.namespace}",
        f"--listen=0.0.0.0:{HEALTH_PORT}",
        *elect,
    ]


def _hash(files: Mapping[str, str]) -> dict[str, str]:
    """Another content makes other pods: a box is read when its process starts."""
    return {"box.vworkspace.io/files-hash": content_hash(dict(files))}
