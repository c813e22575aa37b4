"""The rules of a pod's spec that no schema expresses, for pods and the templates of workloads.

Fields and messages are kube-apiserver's (`pkg/apis/core/validation`). Rules of rarely used fields are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubelab.builtin.container_checks import (
    address_causes,
    container_causes,
    host_port_causes,
    identity_causes,
    init_container_causes,
    name_causes,
    named_causes,
    repeated,
)
from kubelab.builtin.selector_checks import node_selector_causes, node_term_causes, selector_causes
from kubelab.model.definition import NameRule
from kubelab.writes.metadata import annotation_causes, label_causes, label_value_problems, qualified_causes
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import duplicate, forbidden_value, invalid_value, not_supported, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]

_NAMES: Final = {
    "serviceAccountName": NameRule.SUBDOMAIN,
    "nodeName": NameRule.SUBDOMAIN,
    "priorityClassName": NameRule.SUBDOMAIN,
    "runtimeClassName": NameRule.SUBDOMAIN,
    "hostname": NameRule.LABEL,
    "subdomain": NameRule.LABEL,
}
"""The fields of a pod's spec that are names of objects or hosts, each with its rule."""
_SOURCES: Final = {
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "hostPath": "path",
}
"""The sources of volumes that have to name an object or a path, each with that field."""
_HOST_PATHS: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
)
"""The sources of volumes in the order in which kube-apiserver checks them; every source after the first is a problem.
"""


def pod_causes(spec: Fields, path: str) -> Causes:
    """Yield the problems of a pod's `spec`, whose place in the object is `path`."""
    if not spec.get("containers"):
        yield required(f"{path}.containers")
        return
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    yield from _volumes(spec.get("volumes") or (), f"{path}.volumes")
    yield from container_causes(spec["containers"], f"{path}.containers", volumes)
    yield from init_container_causes(spec, path, volumes)
    yield from host_port_causes(spec["containers"], f"{path}.containers")
    yield from _of_pod(spec, path)


def _of_pod(spec: Fields, path: str) -> Causes:
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        yield required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    for key, rule in _NAMES.items():
        yield from named_causes(spec.get(key), f"{path}.{key}", rule)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = "must be between 1 and 2147483647, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, text)
    if context := spec.get("securityContext"):
        yield from identity_causes(context, f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(f"{path}.securityContext.shareProcessNamespace", True, text)
    yield from _addresses(spec, path)
    yield from _places(spec, path)


def _places(spec: Fields, path: str) -> Causes:
    """Yield the problems of what decides when and where a pod runs: gates, selectors, spreads and tolerations."""
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        yield from qualified_causes(gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType")
    yield from label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}.topologySpreadConstraints[{index}].labelSelector"
        yield from selector_causes(spread.get("labelSelector"), where)
    yield from _duplicates(spec, path)


def _toleration(toleration: Fields, path: str) -> Causes:
    operator, value, where = toleration.get("operator", ""), toleration.get("value", ""), f"{path}.operator"
    yield from qualified_causes(toleration.get("key") or None, f"{path}.key")
    if not toleration.get("key") and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(where, operator, text)
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", toleration.get("effect", ""), text)
    match operator:
        case "" | "Equal":
            if problems := label_value_problems(value):
                yield invalid_value(where, value, ";".join(problems))
        case "Exists":
            if value:
                yield invalid_value(where, value, "value must be empty when `operator` is 'Exists'")
        case "Lt" | "Gt":
            pass
        case _:
            yield not_supported(where, operator, ("Equal", "Exists"))
    if (effect := toleration.get("effect")) and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def _affinity(affinity: Fields, path: str) -> Causes:
    hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    nodes, where = affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity"
    yield from node_selector_causes(nodes.get(hard), f"{where}.{hard}")
    for index, each in enumerate(nodes.get(soft) or ()):
        yield from _weight(each, f"{where}.{soft}[{index}]")
        yield from node_term_causes(each.get("preference") or {}, f"{where}.{soft}[{index}].preference")
    for key in ("podAffinity", "podAntiAffinity"):
        pods, where = affinity.get(key) or {}, f"{path}.{key}"
        for index, term in enumerate(pods.get(hard) or ()):
            yield from _pod_term(term, f"{where}.{hard}[{index}]")
        for index, each in enumerate(pods.get(soft) or ()):
            yield from _weight(each, f"{where}.{soft}[{index}]")
            yield from _pod_term(each.get("podAffinityTerm") or {}, f"{where}.{soft}[{index}].podAffinityTerm")


def _weight(term: Fields, path: str) -> Causes:
    if not 1 <= (weight := term.get("weight", 0)) <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_term(term: Fields, path: str) -> Causes:
    for key in ("labelSelector", "namespaceSelector"):
        yield from selector_causes(term.get(key), f"{path}.{key}")
    topology = term.get("topologyKey", "")
    if not topology:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from qualified_causes(topology, f"{path}.topologyKey")


def _duplicates(spec: Fields, path: str) -> Causes:
    for index, name in repeated(gate.get("name", "") for gate in spec.get("schedulingGates") or ()):
        yield duplicate(f"{path}.schedulingGates[{index}]", name)
    spreads = [
        (each.get("topologyKey"), each.get("whenUnsatisfiable")) for each in spec.get("topologySpreadConstraints") or ()
    ]
    for index, (key, what) in enumerate(spreads):
        if (key, what) in spreads[index + 1 :]:
            where = f"{path}.topologySpreadConstraints[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield duplicate(where, f"{{{key}, {what}}}")
    for index, name in repeated(claim.get("name", "") for claim in spec.get("resourceClaims") or ()):
        yield duplicate(f"{path}.resourceClaims[{index}].name", name)


def _addresses(spec: Fields, path: str) -> Causes:
    """Yield the problems of the addresses that a pod's hosts file and its DNS have."""
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{path}.hostAliases[{index}]"
        yield from address_causes(alias.get("ip", ""), f"{where}.ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from named_causes(name, f"{where}.hostnames[{number}]", NameRule.SUBDOMAIN)
    dns = spec.get("dnsConfig") or {}
    for index, server in enumerate(dns.get("nameservers") or ()):
        yield from address_causes(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, option in enumerate(dns.get("options") or ()):
        if not option.get("name"):
            yield required(f"{path}.dnsConfig.options[{index}]", "must not be empty")


# --- volumes ---------------------------------------------------------------------------------------------------------


def _volumes(volumes: Sequence[Fields], path: str) -> Causes:
    names = dict(repeated(volume.get("name") for volume in volumes))
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        yield from name_causes(volume, where)
        if names.get(index):
            yield duplicate(f"{where}.name", names[index])
        sources = sorted(volume.keys() - {"name"}, key=_order)
        for second in sources[1:]:
            yield forbidden_value(f"{where}.{second}", "may not specify more than 1 volume type")
        for key, field in _SOURCES.items():
            if isinstance(volume.get(key), Mapping) and not volume[key].get(field):
                yield required(f"{where}.{key}.{field}")
        yield from _host_path(volume.get("hostPath") or {}, f"{where}.hostPath")
        if "nfs" in volume and not (path_there := volume["nfs"].get("path", "")).startswith("/"):
            yield invalid_value(f"{where}.nfs.path", path_there, "must be an absolute path")


def _host_path(source: Fields, path: str) -> Causes:
    if ".." in source.get("path", "").split("/"):
        yield invalid_value(f"{path}.path", source["path"], "must not contain '..'")
    if (kind := source.get("type", "")) not in _HOST_PATHS:
        yield not_supported(f"{path}.type", kind, _HOST_PATHS)


def _order(source: str) -> int:
    return _ORDER.index(source) if source in _ORDER else len(_ORDER)


# --- pods ------------------------------------------------------------------------------------------------------------


def new_pod_causes(spec: Fields, path: str) -> Causes:
    """Yield the problems of the `spec` of a new pod, which has more rules than a template's."""
    yield from pod_causes(spec, path)
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                yield invalid_value(f"{path}.{key}[{index}].image", image, text)
    if spec.get("ephemeralContainers"):
        yield forbidden_value(f"{path}.ephemeralContainers", "cannot be set on create")
    if not spec.get("serviceAccountName"):
        yield from _tokens(spec, path)


def _tokens(spec: Fields, path: str) -> Causes:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken"):
                where = f"{path}.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                yield forbidden_value(where, "must not be specified when serviceAccountName is not set")


# --- templates -------------------------------------------------------------------------------------------------------


def template_causes(template: Fields, path: str) -> Causes:
    """Yield the problems of the `template` of a workload's pods, whose place in the object is `path`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    # kube-apiserver leaves `metadata` out of these two.
    yield from label_causes(metadata.get("labels") or {}, f"{path}.labels")
    yield from annotation_causes(metadata.get("annotations") or {}, f"{path}.annotations")
    yield from pod_causes(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden_value(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


_PERCENT: Final = re.compile(r"([0-9]+)%", re.ASCII)
_NO_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def share_causes(share: Any, path: str, *, most: int | None = None) -> Causes:
    """Yield the problems of a number or percentage of pods, such as `maxSurge`. `most` is the largest percentage."""
    percent = None if isinstance(share, int) else _PERCENT.fullmatch(share)
    if isinstance(share, int) and share < 0:
        yield invalid_value(path, share, "must be greater than or equal to 0")
    elif not isinstance(share, int) and percent is None:
        yield invalid_value(path, share, _NO_PERCENT)
    elif percent is not None and most is not None and int(percent[1]) > most:
        yield invalid_value(path, share, f"must not be greater than {most}%")
