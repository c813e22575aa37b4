"""The rules of containers that no schema expresses: their names, probes, ports, variables, mounts and resources.

Fields and messages are kube-apiserver's (`pkg/apis/core/validation`). Rules of rarely used fields are left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Final

from kubelab.model.definition import NameRule
from kubelab.writes.metadata import name_problems, qualified_problems
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.formats import parse_quantity
from purekube.schema.causes import duplicate, forbidden_value, invalid_value, not_supported, quoted, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]

_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
# RFC 6335, section 5.1.
_LONGEST_PORT_NAME: Final = 15
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_MOST: Final = 2**31 - 1
_NO_VARIABLE: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
# kubernetes: apis/core/helper/helpers.go, integerResources and standardResources.
COUNTED: Final = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
"""The kinds of objects that a quota counts by a name of their own."""
_STANDARD: Final = (
    *_RESOURCES,
    *(f"{key}.{name}" for key in ("requests", "limits") for name in _RESOURCES),
    *COUNTED,
    "storage",
    "requests.storage",
)
_POD_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
)
_VARIABLE_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def repeated(values: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield each value that occurred before among `values`, with its index."""
    known = set()
    for index, value in enumerate(values):
        if value in known:
            yield index, value
        known.add(value)


def named_causes(name: str | None, path: str, rule: NameRule) -> Causes:
    """Yield the problems of a `name` that may be absent."""
    for text in name_problems(name, rule) if name else ():
        yield invalid_value(path, name, text)


def name_causes(item: Fields, path: str) -> Causes:
    """Yield the problems of the `name` of a container or volume, which has to be a DNS label."""
    if not item.get("name"):
        yield required(f"{path}.name")
    yield from named_causes(item.get("name"), f"{path}.name", NameRule.LABEL)


def init_container_causes(spec: Fields, path: str, volumes: set[Any]) -> Causes:
    """Yield the problems of the init containers of a pod's `spec`, whose place in the object is `path`."""
    containers = spec.get("initContainers") or ()
    names = [container.get("name") for container in spec["containers"]]
    yield from container_causes(containers, f"{path}.initContainers", volumes, names)
    for index, container in enumerate(containers):
        where = f"{path}.initContainers[{index}]"
        if container.get("restartPolicy") != "Always":
            text = "may not be set for init containers without restartPolicy=Always"
            yield from (forbidden_value(f"{where}.{probe}", text) for probe in _PROBES if container.get(probe))


def container_causes(
    containers: Sequence[Fields], path: str, volumes: set[Any], others: Sequence[str | None] = ()
) -> Causes:
    """Yield the problems of containers. `others` are the names of containers of another list of the pod."""
    names = dict(repeated([*others, *(container.get("name") for container in containers)]))
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        yield from name_causes(container, where)
        if name := names.get(index + len(others)):
            yield duplicate(f"{where}.name", name)
        if not container.get("image"):
            yield required(f"{where}.image")
        if isinstance(container.get("lifecycle"), Mapping):
            yield from _hooks(container["lifecycle"], f"{where}.lifecycle")
        for probe in _PROBES:
            if isinstance(container.get(probe), Mapping):
                yield from _probe(container[probe], f"{where}.{probe}", only_one=probe != "readinessProbe")
        if (policy := container["terminationMessagePolicy"]) not in _MESSAGES:
            yield not_supported(f"{where}.terminationMessagePolicy", policy, _MESSAGES)
        yield from _ports(container.get("ports") or (), f"{where}.ports")
        yield from _variables(container.get("env") or (), f"{where}.env")
        yield from _imported(container.get("envFrom") or (), f"{where}.envFrom")
        yield from _mounts(container.get("volumeMounts") or (), f"{where}.volumeMounts", volumes)
        yield from _resources(container.get("resources") or {}, f"{where}.resources")
        if isinstance(container.get("securityContext"), Mapping):
            yield from _security(container["securityContext"], f"{where}.securityContext")


def _hooks(lifecycle: Fields, path: str) -> Causes:
    for key in ("postStart", "preStop"):
        hook = lifecycle.get(key)
        if isinstance(hook, Mapping) and not any(hook.get(handler) is not None for handler in (*_HANDLERS, "sleep")):
            yield required(f"{path}.{key}", "must specify a handler type")
        elif isinstance(hook, Mapping) and "exec" in hook and not hook["exec"].get("command"):
            yield required(f"{path}.{key}.exec.command")


def _security(context: Fields, path: str) -> Causes:
    yield from identity_causes(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid_value(path, context, f"{text} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            yield invalid_value(path, context, f"{text} `capabilities.Add` CAP_SYS_ADMIN")


def identity_causes(context: Fields, path: str) -> Causes:
    """Yield the problems of the users and groups in the security context of a pod or container."""
    numbers = {key: context[key] for key in ("fsGroup", "runAsUser", "runAsGroup") if context.get(key) is not None}
    groups = enumerate(context.get("supplementalGroups") or ())
    for field, number in (*numbers.items(), *((f"supplementalGroups[{index}]", group) for index, group in groups)):
        if not 0 <= number <= _MOST:
            yield invalid_value(f"{path}.{field}", number, f"must be between 0 and {_MOST}, inclusive")


def _probe(probe: Fields, path: str, *, only_one: bool) -> Causes:
    handlers = [key for key in _HANDLERS if probe.get(key) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for second in handlers[1:]:
        yield forbidden_value(f"{path}.{second}", "may not specify more than 1 handler type")
    for handler in handlers[:1]:
        if handler == "exec" and not probe[handler].get("command"):
            yield required(f"{path}.exec.command")
        if (port := probe[handler].get("port")) is not None:
            yield from port_causes(port, f"{path}.{handler}.port")
    if only_one and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _ports(ports: Sequence[Fields], path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name")
        problems = list(port_causes(name, f"{where}.name")) if name else []
        yield from problems
        if name in names and not problems:
            yield duplicate(f"{where}.name", name)
        names |= {name} if name else set()
        for key in ("containerPort", "hostPort"):
            if port.get(key):
                yield from port_causes(port[key], f"{where}.{key}")
        if not port.get("containerPort"):
            yield required(f"{where}.containerPort")
        if port.get("protocol") not in PROTOCOLS:
            yield not_supported(f"{where}.protocol", port.get("protocol", ""), PROTOCOLS)


def port_causes(port: int | str, path: str) -> Causes:
    """Yield the problems of the number or the name of a port."""
    if isinstance(port, str):
        yield from (invalid_value(path, port, text) for text in _port_name_problems(port))
    elif not 1 <= port <= 65535:
        yield invalid_value(path, port, _PORT_RANGE)


def address_causes(text: str, path: str) -> Causes:
    """Yield the problem of a text that is no IP address."""
    try:
        ip_address(text)
    except ValueError:
        yield invalid_value(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def network_causes(text: str, path: str) -> Causes:
    """Yield the problem of a text that is no network of IP addresses, such as 10.0.0.0/8."""
    try:
        is_network = "/" in text and ip_network(text, strict=False) is not None
    except ValueError:
        is_network = False
    if not is_network:
        yield invalid_value(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def _port_name_problems(name: str) -> list[str]:
    # The format IANA_SVC_NAME.
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
        where, source, name = f"{path}[{index}].valueFrom", variable.get("valueFrom"), variable.get("name")
        if not name:
            yield required(f"{path}[{index}].name")
        elif not (name.isascii() and name.isprintable() and "=" not in name):
            yield invalid_value(f"{path}[{index}].name", name, _NO_VARIABLE)
        if not isinstance(source, Mapping):
            continue
        yield from _reference(source, where)
        given = [key for key in _VARIABLE_SOURCES if source.get(key) is not None]
        if not given:
            listed = ", ".join(f"`{key}`" for key in _VARIABLE_SOURCES[:-1])
            yield invalid_value(where, "", f"must specify one of: {listed} or `{_VARIABLE_SOURCES[-1]}`")
        elif variable.get("value"):
            yield invalid_value(where, "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            yield invalid_value(where, "", "may not have more than one field specified at a time")


def _imported(sources: Sequence[Fields], path: str) -> Causes:
    """Yield the problems of the objects that a container has all variables of."""
    for index, source in enumerate(sources):
        given = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in given:
            name, where = source[key].get("name"), f"{path}[{index}].{key}.name"
            if not name:
                yield required(where)
            yield from named_causes(name, where, NameRule.SUBDOMAIN)
        # kube-apiserver leaves the index out of these.
        if not given:
            yield invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid_value(path, "", "may not have more than one field specified at a time")


def _reference(source: Fields, path: str) -> Causes:
    """Yield the problems of the field, or of the object with a key, that a variable has its value from."""
    if isinstance(source.get("fieldRef"), Mapping):
        field, where = source["fieldRef"].get("fieldPath", ""), f"{path}.fieldRef.fieldPath"
        if not field:
            yield required(where)
        elif field not in _POD_FIELDS and not field.startswith(("metadata.labels['", "metadata.annotations['")):
            yield invalid_value(where, field, f"error converting fieldPath: field label not supported: {field}")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if isinstance(source.get(kind), Mapping):
            name, where = source[kind].get("name", ""), f"{path}.{kind}.name"
            yield from (invalid_value(where, name, text) for text in name_problems(name, NameRule.SUBDOMAIN))
            if not source[kind].get("key"):
                yield required(f"{path}.{kind}.key")


def host_port_causes(containers: Sequence[Fields], path: str) -> Causes:
    """Yield the ports of a node that two ports of a pod ask for."""
    taken = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            place = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port.get('hostPort')}"
            if port.get("hostPort") and place in taken:
                yield duplicate(f"{path}[{number}].ports[{index}].hostPort", place)
            taken.add(place)


def _mounts(mounts: Sequence[Fields], path: str, volumes: set[Any]) -> Causes:
    again = dict(repeated(mount.get("mountPath") or "" for mount in mounts))
    for index, mount in enumerate(mounts):
        name = mount.get("name")
        if not name:
            yield required(f"{path}[{index}].name")
        if name not in volumes:
            yield StatusCause(f"{path}[{index}].name", f"Not found: {quoted(str(name or ''))}", "FieldValueNotFound")
        if not mount.get("mountPath"):
            yield required(f"{path}[{index}].mountPath")
        if index in again:
            yield invalid_value(f"{path}[{index}].mountPath", again[index], "must be unique")
        if sub := mount.get("subPath"):
            # kube-apiserver leaves the index out of this one.
            if sub.startswith("/"):
                yield invalid_value(f"{path}.subPath", sub, "must be a relative path")
            if ".." in sub.split("/"):
                yield invalid_value(f"{path}.subPath", sub, "must not contain '..'")


def _resources(resources: Fields, path: str) -> Causes:
    """Yield the problems of a container's resources: unknown names, bad amounts, and requests above their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where, number = f"{path}.{key}[{name}]", parse_quantity(str(amount)) or 0
            yield from resource_name_causes(name, where)
            if number < 0:
                yield invalid_value(where, str(amount), "must be greater than or equal to 0")
            if is_whole(name) and number % 1:
                yield invalid_value(where, str(amount), "must be an integer")
    for name in sorted(requests.keys()):
        if name not in limits:
            if is_whole(name):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        least, most = (parse_quantity(str(amounts[name])) for amounts in (requests, limits))
        if least is None or most is None or least == most or (least < most and not is_whole(name)):
            continue
        what = "equal to" if is_whole(name) else "less than or equal to"
        text = f"must be {what} {name} limit of {limits[name]}"
        yield invalid_value(f"{path}.requests", str(requests[name]), text)


def is_whole(name: str) -> bool:
    """Report whether a resource is counted in whole pieces, which no two pods share, as GPUs and huge pages are."""
    return name.startswith("hugepages-") or ("/" in name and "kubernetes.io/" not in name)


def resource_name_causes(name: str, path: str, *, of_container: bool = True) -> Causes:
    """Yield the problems of the name of a resource, whose amount has the place `path`.

    A name `of_container` is one that a container may ask for; other resources, such as storage, only quotas and claims
    have.
    """
    # kubernetes: apis/core/validation/validation.go, validateResourceName and validateContainerResourceName.
    if problems := qualified_problems(name):
        yield from (invalid_value(path, name, text) for text in problems)
    elif "/" not in name:
        if name not in _STANDARD and not name.removeprefix("requests.").startswith("hugepages-"):
            yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        if of_container and name not in _RESOURCES and not name.startswith("hugepages-"):
            yield invalid_value(path, name, "must be a standard resource for containers")
