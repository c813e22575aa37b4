"""Everything that a tenant may write, generated from the CRDs and the templates, and what may come out of it (RUN-12).

`attempts` takes a good object and puts, one place after another, what a hostile tenant would put there. `beyond` says
of an object that the operator wants to make what of it is more than the tenant could do: its own roles are those of a
gated namespace, where `vworkspace-release` and `vworkspace-operation-runner` are who acts for it.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_RELEASE,
    HELM_REPOSITORY,
    JOB,
    OCI_REPOSITORY,
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    WORKFLOW,
)
from vworkspace_core.api.crd import crd_manifest
from vworkspace_core.operations.settings import RUNNER
from vworkspace_core.operations.templates import OperationTemplate

VICTIM: Final = "org-victim"
ADMIN: Final = "cluster-admin"
RELEASE_ACCOUNT: Final = "vworkspace-release"
_TEXTS: Final = (VICTIM, ADMIN, "../../" + VICTIM, "{{workflow.serviceAccountName}}", "$(KUBE_TOKEN)")
_POD: Final = {"hostPID": True, "serviceAccountName": ADMIN, "containers": [{"securityContext": {"privileged": True}}]}
_OBJECTS: Final = (
    {"namespace": VICTIM, "name": "x", "serviceAccountName": ADMIN},
    {"podSpecPatch": _POD, "template": {"spec": _POD}},
    {VICTIM: "org-myteam", "org-myteam": VICTIM},
)
ANNOTATIONS: Final = (
    "vworkspace.io/retry",
    "vworkspace.io/abandon",
    "vworkspace.io/uninstall",
    "vworkspace.io/idempotency-key",
    "vworkspace.io/last-applied-generation",
    "vworkspace.io/applied-hash",
    "ops.vworkspace.io/allowed-types",
    "ops.vworkspace.io/velero-peers",
    "ops.vworkspace.io/cancel",
    "helm.sh/hook",
    "reconcile.fluxcd.io/requestedAt",
)

# --- what is written -------------------------------------------------------------------------------------------------


def attempts(good: Manifest, cls: type[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object with one field of its spec changed, by the field's path; fields come from the CRD."""
    schema = crd_manifest(cls)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    yield from _changed(good, ("spec",), schema)


def attempts_of(good: Manifest, schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object with one field of its spec changed, by the field's path and number; `schema` is that of the spec."""
    for number, (path, manifest) in enumerate(_changed(good, ("spec",), schema)):
        yield f"{path}#{number}", manifest


def box_annotated(good: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object with one label or annotation: of the engine's, of a tenant's choice, of what it works with."""
    for name in ("box.vworkspace.io/kinds", "box.vworkspace.io/created", "box.vworkspace.io/peers", "a", "ns"):
        for value in (
            VICTIM,
            ADMIN,
            f"Secret/secrets.v1 {VICTIM}",
            f'[{{"node":"a","namespace":"{VICTIM}","name":"x"}}]',
        ):
            yield f"{name}={value}", _with(good, ("metadata", "annotations"), {name: value})
        if "/" not in name:
            yield f"label {name}", _with(good, ("metadata", "labels"), {name: VICTIM})


def parameter_attempts(good: Manifest, template: OperationTemplate) -> Iterator[tuple[str, dict[str, Any]]]:
    """An Operation with one parameter changed: those of its template, and those that it does not have."""
    where = ("spec", "parameters")
    yield from _changed(good, where, template.schema)
    for name in ("serviceAccountName", "namespace", "podSpecPatch", "securityContext", "hostNetwork", "volumes"):
        for value in (True, ADMIN, *_OBJECTS):
            yield f"parameters.{name}", _with(good, (*where, name), value)


def annotated(good: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object with one annotation of the operator's, or of those whom it works with."""
    for name in ANNOTATIONS:
        for value in ("true", VICTIM, "999999999999999999", "ApplicationInstance/org-myteam/x@1"):
            yield (
                name,
                _with(
                    good,
                    ("metadata", "annotations"),
                    {**(get_path(good, "metadata", "annotations") or {}), name: value},
                ),
            )


def _changed(good: Manifest, where: tuple[str, ...], schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    properties = schema.get("properties") or {}
    for name, below in properties.items():
        yield from _changed(good, (*where, name), below)
    if len(where) > 1 and not properties:
        for value in _values(schema):
            yield ".".join(where), _with(good, where, value)
    if len(where) > 1 and properties:
        for value in _OBJECTS:
            yield ".".join(where), _with(good, where, {**(get_path(good, *where) or {}), **value})


def _values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """What the type lets in, the worst of it first; a schema without a type lets in anything."""
    if "enum" in schema:
        yield from schema["enum"]
        return
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, Sequence) and not isinstance(kind, str) else {kind}
    if kinds & {"string", None}:
        yield from _TEXTS
    if kinds & {"boolean", None}:
        yield from (True, False)
    if kinds & {"integer", "number", None}:
        yield from (0, 1, 1_000_000)
    if kinds & {"array", None}:
        yield from ([text] for text in _TEXTS)
        yield list(_OBJECTS)
    if kinds & {"object", None}:
        yield from _OBJECTS


def _with(good: Manifest, where: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(dict(good))
    place = changed
    for step in where[:-1]:
        below = place.get(step)
        place[step] = below if isinstance(below, dict) else {}
        place = place[step]
    place[where[-1]] = value
    return changed


# --- what may come out -----------------------------------------------------------------------------------------------

_DATA: Final = {
    HELM_RELEASE: (("spec", "values"),),
    CONFIG_MAP: (("data",),),
    WORKFLOW: (("spec", "arguments"),),
}
"""Places whose content is the tenant's data: what reads it has an account of its own."""

_SOURCE: Final = ("interval", "timeout", "url", "secretRef", "certSecretRef", "suspend", "provider")
_FIELDS: Final[Mapping[Kind, frozenset[str]]] = {
    HELM_RELEASE: frozenset(
        (
            *("interval", "timeout", "chart", "chartRef", "releaseName", "targetNamespace", "storageNamespace"),
            *("suspend", "serviceAccountName", "maxHistory", "install", "upgrade", "driftDetection"),
            *("values", "valuesFrom"),
        )
    ),
    OCI_REPOSITORY: frozenset((*_SOURCE, "ref", "layerSelector")),
    HELM_REPOSITORY: frozenset((*_SOURCE, "type")),
    WORKFLOW: frozenset(
        (
            *("workflowTemplateRef", "arguments", "serviceAccountName", "activeDeadlineSeconds"),
            "automountServiceAccountToken",
        )
    ),
    JOB: frozenset(
        (
            *("template", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "parallelism"),
            *(
                "podFailurePolicy",
                "completions",
                "suspend",
                "podReplacementPolicy",
                "completionMode",
                "manualSelector",
                "selector",
            ),
        )
    ),
}
"""Fields that the operator sets, and that an API server fills in."""
_KINDS: Final = frozenset(
    (*_FIELDS, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, VOLUME_SNAPSHOT, REPLICATION_SOURCE, REPLICATION_DESTINATION)
)
_VELERO: Final = frozenset((VELERO_BACKUP, VELERO_RESTORE))
_HOST: Final = frozenset(("hostPID", "hostIPC", "hostNetwork", "hostPath", "privileged", "nodeName", "hostPort"))


def beyond(kind: Kind, manifest: Manifest, namespace: str, velero_namespace: str = "velero") -> list[str]:
    """What of this object a tenant of that namespace could not have made happen by its own roles."""
    found = []
    place = get_path(manifest, "metadata", "namespace")
    if kind in _VELERO:
        found += [] if place == velero_namespace else [f"a {kind.kind} in {place}"]
        found += _velero(manifest, namespace)
    elif kind not in _KINDS:
        found.append(f"a {kind.kind}")
    elif place != namespace:
        found.append(f"in namespace {place}")
    known = _FIELDS.get(kind)
    if known is not None:
        found += [f"spec.{name}" for name in (get_path(manifest, "spec") or {}) if name not in known]
    if kind in (OCI_REPOSITORY, HELM_REPOSITORY) and get_path(manifest, "spec", "provider") not in (None, "generic"):
        found.append("a registry login with the node's own identity")
    account = RELEASE_ACCOUNT if kind == HELM_RELEASE else RUNNER
    found += _walk(
        _without_data(kind, manifest), (namespace, velero_namespace if kind in _VELERO else namespace), (account,)
    )
    if kind == HELM_RELEASE and get_path(manifest, "spec", "serviceAccountName") != RELEASE_ACCOUNT:
        found.append(f"spec.serviceAccountName {get_path(manifest, 'spec', 'serviceAccountName')}")
    if kind == JOB:
        found += _unrestricted(get_path(manifest, "spec", "template", "spec") or {})
    return found


def _velero(manifest: Manifest, namespace: str) -> Iterator[str]:
    spec = get_path(manifest, "spec") or {}
    if spec.get("includedNamespaces") != [namespace]:
        yield f"spec.includedNamespaces {spec.get('includedNamespaces')}"
    mapping = spec.get("namespaceMapping") or {}
    if {*mapping, *mapping.values()} - {namespace}:
        yield f"spec.namespaceMapping {mapping}"
    if spec.get("includeClusterResources"):
        yield "spec.includeClusterResources"


def _unrestricted(pod: Mapping[str, Any]) -> Iterator[str]:
    if pod.get("automountServiceAccountToken") is not False:
        yield "a service account token in the pod"
    for container in (*pod.get("containers", ()), *pod.get("initContainers", ())):
        own = container.get("securityContext") or {}
        if own.get("allowPrivilegeEscalation") is not False or get_path(own, "capabilities", "drop") != ["ALL"]:
            yield "a container outside the restricted profile"
        if get_path(own, "capabilities", "add"):
            yield "added capabilities"
        if not any((level.get("securityContext") or {}).get("runAsNonRoot") for level in (pod, container)):
            yield "a container that may run as root"


def held_beyond(live: Manifest, namespace: str, accounts: Collection[str], *, secrets: bool) -> list[str]:
    """What of an object that a box made a tenant of that namespace could not have made happen by its own roles.

    With `secrets` no Secret that has not agreed may be named.
    """
    place = get_path(live, "metadata", "namespace")
    found = [f"in namespace {place}"] if place not in (namespace, None) else []
    aside = ("metadata", "status", "apiVersion", "kind", "data")
    below = {key: value for key, value in live.items() if key not in aside}
    found += _walk(below, (namespace,), accounts)
    return [*found, *(_named_secrets(below) if secrets else ())]


def _named_secrets(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _named_secrets(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from _named_secrets(below, path)
    elif value in (VICTIM, ADMIN) and "secret" in path.lower():
        yield f"{path} {value}"


def _walk(value: Any, namespaces: tuple[str, ...], accounts: Collection[str], path: str = "") -> Iterator[str]:
    """Namespaces, accounts and hold on the host, wherever in the object they stand."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            where = f"{path}.{key}"
            if (
                (key in _HOST and below not in (None, False))
                or (key == "serviceAccountName" and below not in accounts)
                or (key.lower().endswith("namespace") and isinstance(below, str) and below not in namespaces)
            ):
                yield f"{where} {below}"
            yield from _walk(below, namespaces, accounts, where)
    elif isinstance(value, list):
        for below in value:
            yield from _walk(below, namespaces, accounts, path)


def _without_data(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    left = copy.deepcopy(dict(manifest))
    for where in _DATA.get(kind, ()):
        place: Any = left
        for step in where[:-1]:
            place = place.get(step) or {}
        place.pop(where[-1], None)
    return {"spec": left.get("spec"), **({"data": left["data"]} if "data" in left else {})}
