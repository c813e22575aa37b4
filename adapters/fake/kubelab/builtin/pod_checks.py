"""The rules of a pod's spec that no schema expresses, for pods and the templates of workloads.

Fields and messages are kube-apiserver's (`pkg/apis/core/validation`). Rules of rarely used fields are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubelab.model.definition import NameRule
from kubelab.writes.metadata import label_value_problems, name_problems, qualified_problems
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.formats import parse_quantity
from purekube.schema.causes import duplicate, forbidden_value, invalid_value, quoted, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]

PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_LONGEST_PORT_NAME: Final = 15
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES: Final = {
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "hostPath": "path",
}
"""The sources of volumes that have to name an object or a path, each with that field."""
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
_VARIABLE_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def pod_causes(spec: Fields, path: str) -> Causes:
    """Yield the problems of a pod's `spec`, whose place in the object is `path`."""
    if not spec.get("containers"):
        yield required(f"{path}.containers")
        return
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    yield from _volumes(spec.get("volumes") or (), f"{path}.volumes")
    yield from _containers(spec["containers"], f"{path}.containers", volumes)
    yield from _init_containers(spec, path, volumes)
    yield from _of_pod(spec, path)


def _of_pod(spec: Fields, path: str) -> Causes:
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        yield required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    for key, rule in (("serviceAccountName", NameRule.SUBDOMAIN), ("hostname", NameRule.LABEL)):
        yield from _named(spec.get(key), f"{path}.{key}", rule)
    for key, value in (spec.get("nodeSelector") or {}).items():
        for text in qualified_problems(key):
            yield invalid_value(f"{path}.nodeSelector", key, text)
        for text in label_value_problems(value):
            yield invalid_value(f"{path}.nodeSelector", value, text)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            where, text = f"{path}.tolerations[{index}].operator", "value must be empty when `operator` is 'Exists'"
            yield invalid_value(where, toleration["value"], text)


def _named(name: str | None, path: str, rule: NameRule) -> Causes:
    for text in name_problems(name, rule) if name else ():
        yield invalid_value(path, name, text)


# --- volumes ---------------------------------------------------------------------------------------------------------


def _volumes(volumes: Sequence[Fields], path: str) -> Causes:
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        yield from _name(volume, where)
        sources = sorted(volume.keys() - {"name"}, key=_order)
        for second in sources[1:]:
            yield forbidden_value(f"{where}.{second}", "may not specify more than 1 volume type")
        for key, field in _SOURCES.items():
            if isinstance(volume.get(key), Mapping) and not volume[key].get(field):
                yield required(f"{where}.{key}.{field}")


def _order(source: str) -> int:
    return _ORDER.index(source) if source in _ORDER else len(_ORDER)


def _name(item: Fields, path: str) -> Causes:
    """Yield the problems of the `name` of a container or volume, which has to be a DNS label."""
    if not item.get("name"):
        yield required(f"{path}.name")
    yield from _named(item.get("name"), f"{path}.name", NameRule.LABEL)


# --- containers ------------------------------------------------------------------------------------------------------


def _init_containers(spec: Fields, path: str, volumes: set[Any]) -> Causes:
    containers = spec.get("initContainers") or ()
    names = {container.get("name") for container in spec["containers"]}
    yield from _containers(containers, f"{path}.initContainers", volumes)
    for index, container in enumerate(containers):
        where = f"{path}.initContainers[{index}]"
        if container.get("name") in names:
            yield duplicate(f"{where}.name", container["name"])
        if container.get("restartPolicy") != "Always":
            text = "may not be set for init containers without restartPolicy=Always"
            yield from (forbidden_value(f"{where}.{probe}", text) for probe in _PROBES if container.get(probe))


def _containers(containers: Sequence[Fields], path: str, volumes: set[Any]) -> Causes:
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        yield from _name(container, where)
        if not container.get("image"):
            yield required(f"{where}.image")
        for probe in _PROBES:
            if isinstance(container.get(probe), Mapping):
                yield from _probe(container[probe], f"{where}.{probe}", only_one=probe != "readinessProbe")
        yield from _ports(container.get("ports") or (), f"{where}.ports")
        yield from _variables(container.get("env") or (), f"{where}.env")
        yield from _mounts(container.get("volumeMounts") or (), f"{where}.volumeMounts", volumes)
        yield from _resources(container.get("resources") or {}, f"{where}.resources")


def _probe(probe: Fields, path: str, *, only_one: bool) -> Causes:
    handlers = [key for key in _HANDLERS if probe.get(key) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for second in handlers[1:]:
        yield forbidden_value(f"{path}.{second}", "may not specify more than 1 handler type")
    for handler in handlers[:1]:
        port = probe[handler].get("port")
        if isinstance(port, int) and not _is_port(port):
            yield invalid_value(f"{path}.{handler}.port", port, PORT_RANGE)
    if only_one and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _is_port(number: int) -> bool:
    return 1 <= number <= 65535


def _ports(ports: Sequence[Fields], path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name")
        problems = port_name_problems(name) if name else []
        yield from (invalid_value(f"{where}.name", name, text) for text in problems)
        if name in names and not problems:
            yield duplicate(f"{where}.name", name)
        names |= {name} if name else set()
        for key in ("containerPort", "hostPort"):
            if port.get(key) and not _is_port(port[key]):
                yield invalid_value(f"{where}.{key}", port[key], PORT_RANGE)
        if not port.get("containerPort"):
            yield required(f"{where}.containerPort")


def port_name_problems(name: str) -> list[str]:
    """Return the problems of the name of a port (IANA_SVC_NAME), each as the text of an error message."""
    if len(name) > _LONGEST_PORT_NAME:
        return [f"must be no more than {_LONGEST_PORT_NAME} characters"]
    rules = {
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": re.fullmatch(r"[-a-z0-9]*", name),
        "must contain at least one letter (a-z)": re.search(r"[a-z]", name),
        "must not contain consecutive hyphens": "--" not in name,
        "must not begin or end with a hyphen": name == name.strip("-"),
    }
    return [text for text, holds in rules.items() if not holds]


def _variables(variables: Sequence[Fields], path: str) -> Causes:
    for index, variable in enumerate(variables):
        where, source = f"{path}[{index}].valueFrom", variable.get("valueFrom")
        if not variable.get("name"):
            yield required(f"{path}[{index}].name")
        if not isinstance(source, Mapping):
            continue
        given = [key for key in _VARIABLE_SOURCES if source.get(key) is not None]
        if not given:
            listed = ", ".join(f"`{key}`" for key in _VARIABLE_SOURCES[:-1])
            yield invalid_value(where, "", f"must specify one of: {listed} or `{_VARIABLE_SOURCES[-1]}`")
        elif variable.get("value"):
            yield invalid_value(where, "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            yield invalid_value(where, "", "may not have more than one field specified at a time")


def _mounts(mounts: Sequence[Fields], path: str, volumes: set[Any]) -> Causes:
    for index, mount in enumerate(mounts):
        name = mount.get("name")
        if not name:
            yield required(f"{path}[{index}].name")
        if name not in volumes:
            yield StatusCause(f"{path}[{index}].name", f"Not found: {quoted(str(name or ''))}", "FieldValueNotFound")
        if not mount.get("mountPath"):
            yield required(f"{path}[{index}].mountPath")


def _resources(resources: Fields, path: str) -> Causes:
    """Yield the problems of a container's resources: negative amounts, and requests above their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if (parse_quantity(str(amount)) or 0) < 0:
                yield invalid_value(f"{path}.{key}[{name}]", str(amount), "must be greater than or equal to 0")
    for name in sorted(requests.keys() & limits.keys()):
        least, most = (parse_quantity(str(amounts[name])) for amounts in (requests, limits))
        if least is not None and most is not None and least > most:
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", str(requests[name]), text)


# --- templates -------------------------------------------------------------------------------------------------------


def template_causes(spec: Fields, path: str) -> Causes:
    """Yield the problems of the pods' `spec` in a workload's template, whose place in the object is `path`."""
    yield from pod_causes(spec, path)
    if spec.get("ephemeralContainers"):
        yield forbidden_value(f"{path}.ephemeralContainers", "ephemeral containers not allowed in pod template")


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
