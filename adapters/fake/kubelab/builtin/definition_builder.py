"""The construction of a built-in kind's definition, and the defaults of a pod spec in pods and templates."""

import re
from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.definition import Behaviour, ScalePaths, ServedKind
from kubelab.model.go_fields import kinds
from kubelab.writes.metadata import tidy
from kubelab.writes.typed_values import declare
from purekube.schema.builtin.schema_parts import MICRO_TIME, STRING, TIME, BuiltIn
from purekube.schema.compile import Compiled, compile_schema
from purekube.schema.objectmeta import OBJECT_META_OPENAPI, with_type_meta

_PATH: Final = re.compile(r"[a-z0-9][a-z0-9._/-]*", re.ASCII)
_KNOWN: Final[Compiled] = {}
"""The compiled schemas that built-in kinds share, such as that of the pod template, so that each is compiled once."""

REPLICAS = ScalePaths("spec.replicas", "status.replicas", "spec.selector")


def built_in(
    built: BuiltIn,
    behaviour: Behaviour,
    *,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    scale: ScalePaths | None = None,
    served: frozenset[str] = frozenset(),
    selectable_fields: tuple[str, ...] = (),
) -> ServedKind:
    """Return the definition of the built-in kind `built`. A kind whose schema has `status` gets a status subresource.

    `behaviour` has the rules that no schema expresses. `scale` has the paths of the fields for the scale subresource;
    None means that there is no such subresource. `served` are the API versions in which the kind is served; if empty,
    the kind is served only in its own version. `selectable_fields` are the fields that field selectors may use.
    `short_names` and `categories` are the names by which kubectl also accepts the kind.
    """
    kind, openapi = built.kind, built.openapi
    fields = openapi.get("properties", {})
    document = {
        **openapi,
        "properties": {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META_OPENAPI, **_published(fields)},
    }
    schema = with_type_meta(compile_schema({**openapi, "type": "object"}, _KNOWN))
    declare(schema, kinds().get((kind.api_version, kind.kind), ""))
    return ServedKind(
        kind=kind,
        schema=schema,
        openapi=document,
        served_versions=served or frozenset((kind.api_version,)),
        status_subresource="status" in fields,
        scale=scale,
        behaviour=behaviour,
        singular=kind.kind.lower(),
        list_kind=kind.kind + "List",
        short_names=short_names,
        categories=categories,
        selectable_fields=selectable_fields,
    )


def _published(document: Any) -> Any:
    """Return `document`, an OpenAPI schema, as kube-apiserver publishes it: a MicroTime has the format `date-time`."""
    if not isinstance(document, dict):
        return document
    members = {key: _published(value) for key, value in document.items()}
    return {**members, "format": TIME["format"]} if members.get("format") == MICRO_TIME["format"] else members


Fields = Mapping[str, Any]

_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# JSON has no octal numbers: clients see 420.
_MODE: Final = 0o644


def filled(fields: Fields, **defaults: Any) -> dict[str, Any]:
    """Return `fields` with `defaults` for absent keys. A default of None is left out."""
    return {**{key: value for key, value in defaults.items() if value is not None}, **fields}


def filled_at(value: Any, path: str, /, **defaults: Any) -> Any:
    """Return `value` with `defaults` for absent keys of each object at `path`, such as `ports.*`; `*` is any list item.

    Whatever is not of the form that the path requires is left as it is.
    """
    step, _, rest = path.partition(".")
    if step == "*":
        return [filled_at(item, rest, **defaults) for item in value] if isinstance(value, list) else value
    if not isinstance(value, Mapping):
        return value
    if not step:
        return filled(value, **defaults)
    return {**value, step: filled_at(value[step], rest, **defaults)} if step in value else value


def pod_template(template: Fields, *, restart_policy: str | None = "Always") -> dict[str, Any]:
    """Return a pod template with `metadata` and all defaults of its spec.

    `restart_policy` is the default policy, None if a user must choose one (Jobs).
    """
    return {
        **template,
        "metadata": tidy(template.get("metadata") or {}),
        "spec": pod_spec(template.get("spec") or {}, restart_policy=restart_policy),
    }


def pod_spec(spec: Fields, *, restart_policy: str | None = "Always", service_links: bool = False) -> dict[str, Any]:
    """Return a pod spec with its defaults.

    `restart_policy` is the default policy, None if a user must choose one (Jobs). With `service_links` the field
    `enableServiceLinks` is true by default, as in pods; pod templates have no default for it.
    """
    out = filled(
        spec,
        restartPolicy=restart_policy,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
        enableServiceLinks=True if service_links else None,
    )
    # The second is the deprecated name: the conversion keeps both equal (pkg/apis/core/v1/conversion.go,
    # Convert_core_PodSpec_To_v1_PodSpec).
    account = out.get("serviceAccountName") or out.get("serviceAccount")
    if account:
        out |= {"serviceAccountName": account, "serviceAccount": account}
    for key in ("containers", "initContainers", "ephemeralContainers"):
        if isinstance(out.get(key), list):
            out[key] = [_container(container, ephemeral=key == "ephemeralContainers") for container in out[key]]
    if isinstance(out.get("volumes"), list):
        out["volumes"] = [_volume(volume) for volume in out["volumes"]]
    return out


def _container(container: Any, *, ephemeral: bool) -> Any:
    if not isinstance(container, Mapping):
        return container
    out = filled(
        container,
        # In Go `omitempty` does not omit a struct, so an empty one is always written.
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=pull_policy(container.get("image") or ""),
    )
    out = filled_at(out, "ports.*", protocol="TCP")
    out = _with_fields(out, "env.*.valueFrom")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        out = filled_at(filled_at(out, key, **_PROBE), f"{key}.httpGet", path="/", scheme="HTTP")
        out = filled_at(out, f"{key}.grpc", service="")
    for key in ("lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"):
        out = filled_at(out, key, path="/", scheme="HTTP")
    return out


def pull_policy(image: str) -> str:
    """Return the pull policy of an image: Always for the tag `latest` or no tag, otherwise IfNotPresent."""
    # pkg/apis/core/v1/defaults.go, SetDefaults_Container.
    name, at, _ = image.partition("@")
    last = name.rpartition("/")[2]
    path, _, tag = name.rpartition(":") if ":" in last else (name, "", "")
    # kubernetes: util/parsers/parsers.go refuses a reference with such a path, and then it is not that of `latest`.
    _, slash, below = path.partition("/")
    is_reference = _PATH.fullmatch(below if slash else path) is not None
    return "IfNotPresent" if at or not is_reference or tag not in ("", "latest") else "Always"


def _with_fields(value: Any, path: str) -> Any:
    """Return `value` with the defaults of the fields that are named at `path`, as sources of variables and files."""
    return filled_at(filled_at(value, f"{path}.fieldRef", apiVersion="v1"), f"{path}.resourceFieldRef", divisor="0")


def _volume(volume: Any) -> Any:
    # A volume without a source is an emptyDir (pkg/apis/core/v1/defaults.go, SetDefaults_Volume).
    if isinstance(volume, Mapping) and set(volume) <= {"name"}:
        return {**volume, "emptyDir": {}}
    for key in ("configMap", "secret", "projected", "downwardAPI"):
        volume = filled_at(volume, key, defaultMode=_MODE)
    volume = _with_fields(_with_fields(volume, "downwardAPI.items.*"), "projected.sources.*.downwardAPI.items.*")
    volume = filled_at(volume, "projected.sources.*.serviceAccountToken", expirationSeconds=3600)
    volume = filled_at(volume, "ephemeral.volumeClaimTemplate", metadata={}, spec={})
    volume = filled_at(volume, "ephemeral.volumeClaimTemplate.spec", volumeMode="Filesystem")
    if isinstance(volume, Mapping) and isinstance(volume.get("image"), Mapping):
        volume = filled_at(volume, "image", pullPolicy=pull_policy(volume["image"].get("reference") or ""))
    # A pointer to an empty text, which is written (SetDefaults_HostPathVolumeSource).
    return filled_at(filled_at(volume, "hostPath", type=""), "iscsi", iscsiInterface="default")
