"""The warnings about pods and the templates of workloads: what is valid, but hardly what its author meant.

Texts are kube-apiserver's (`pkg/api/pod/warnings.go`). They come back in Warning headers, which kubectl prints.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kubelab.builtin.container_checks import repeated
from kubelab.model.definition import NameRule
from kubelab.writes.metadata import name_problems
from purekube.apimachinery.formats import parse_quantity
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.schema.causes import quoted
from purekube.schema.structure import equal

Fields = Mapping[str, Any]
Warnings = Iterator[str]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_BYTES: Final = ("memory", "ephemeral-storage")


def pod_warnings(spec: Fields, path: str) -> Warnings:
    """Yield the warnings about a pod's `spec`, whose place in the object is `path`."""
    containers = [
        (container, f"{path}.{key}[{index}]")
        for key in _CONTAINERS
        for index, container in enumerate(spec.get(key) or ())
    ]
    if constraints := spec.get("topologySpreadConstraints"):
        yield from _spreads(constraints, f"{path}.topologySpreadConstraints")
    if aliases := spec.get("hostAliases"):
        for index, ip in repeated([alias.get("ip", "") for alias in aliases]):
            yield f"{path}.hostAliases[{index}].ip: duplicate ip {quoted(ip)}"
    if secrets := spec.get("imagePullSecrets"):
        yield from _secrets([secret.get("name", "") for secret in secrets], f"{path}.imagePullSecrets")
    for container, where in containers:
        yield from _of_container(container, where)
    ports = [
        (port, f"{where}.ports[{index}]")
        for container, where in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    if ports:
        yield from _ports(ports)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    if affinity := spec.get("affinity"):
        yield from _affinities(affinity, f"{path}.affinity")


def _spreads(constraints: Sequence[Fields], path: str) -> Warnings:
    for index, constraint in enumerate(constraints):
        if constraint.get("labelSelector") is None:
            yield f"{path}[{index}].labelSelector: {_NO_SELECTOR}"


_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"


def _secrets(names: Sequence[str], path: str) -> Warnings:
    yield from (f"{path}[{index}].name: duplicate name {quoted(name)}" for index, name in repeated(names))
    yield from (f'{path}[{index}].name: invalid empty name ""' for index, name in enumerate(names) if not name)


def _of_container(container: Fields, path: str) -> Warnings:
    for key, amounts in (container.get("resources") or {}).items():
        for resource in _BYTES if key in ("limits", "requests") else ():
            if resource in amounts and (parse_quantity(str(amounts[resource])) or 0) % 1:
                text = f"fractional byte value {quoted(str(amounts[resource]))} is invalid, must be an integer"
                yield f"{path}.resources.{key}[{resource}]: {text}"
    variables = container.get("env") or ()
    if len(variables) < 2:
        return
    for index, name in repeated([variable.get("name") for variable in variables]):
        # A variable may extend the former one of its name: A=$(A):more.
        value, reference = variables[index].get("value") or "", f"$({name})"
        if "valueFrom" in variables[index] or value == reference or reference not in value:
            text = f"hides previous definition of {quoted(name or '')}, which may be dropped when using apply"
            yield f"{path}.env[{index}]: {text}"


def _ports(ports: Sequence[tuple[Fields, str]]) -> Warnings:
    """Yield the warnings about the ports of all containers, each with its place."""
    taken: dict[Any, list[tuple[Fields, str]]] = {}
    for port, where in ports:
        number = (port.get("containerPort"), port.get("protocol"))
        for other, place in taken.setdefault(number, []):
            if clash := _clash(port, other):
                yield f"{where}: {clash} port definition with {place}"
        taken[number].append((port, where))
    names: dict[str, str] = {}
    for port, where in ports:
        if not (name := port.get("name")):
            continue
        if first := names.get(name):
            text = f"services and probes that select ports by name will use {first}"
            yield f"{where}: duplicate port name {quoted(name)} with {first}, {text}"
        names.setdefault(name, where)


def _clash(port: Fields, other: Fields) -> str:
    """Return how a port gets in the way of another with its number; empty if it does not."""
    host, there = port.get("hostPort", 0), other.get("hostPort", 0)
    ip, other_ip = port.get("hostIP", ""), other.get("hostIP", "")
    if (host, ip) == (there, other_ip):
        return "duplicate"
    if not host or not there:
        return "overlapping"
    return "dangerously ambiguous" if host == there and bool(ip) != bool(other_ip) else ""


def _affinities(affinity: Fields, path: str) -> Warnings:
    for kind in ("podAffinity", "podAntiAffinity"):
        for when in ("required", "preferred"):
            key = f"{when}DuringSchedulingIgnoredDuringExecution"
            for index, term in enumerate(get_path(affinity, kind, key) or ()):
                inner = "" if when == "required" else ".podAffinityTerm"
                selected = term if when == "required" else term.get("podAffinityTerm") or {}
                if selected.get("labelSelector") is None:
                    yield f"{path}.{kind}.{key}[{index}]{inner}.labelSelector: {_NO_SELECTOR}"


def warnings_of_pod(new: Manifest, old: Manifest | None) -> list[str]:
    """Return the warnings about a pod. `old` is the pod before an update."""
    return list(pod_warnings(new["spec"], "spec"))


def warnings_of_template(*path: str, names_pods: bool = True) -> Callable[[Manifest, Manifest | None], list[str]]:
    """Return a function for the warnings about a workload whose pod template is at `path`.

    An update of anything but the spec has none. With `names_pods` the workload's name becomes part of names of pods.
    """

    def warnings(new: Manifest, old: Manifest | None) -> list[str]:
        # kubernetes: registry/apps/deployment/strategy.go, WarningsOnUpdate compares the generations.
        if old is not None and equal(new.get("spec"), old.get("spec")):
            return []
        named = [] if old is not None or not names_pods else name_problems(new["metadata"]["name"], NameRule.LABEL)
        text = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
        about_name = [f"metadata.name: {text}recommended: [{' '.join(named)}]"] if named else []
        return [*about_name, *pod_warnings(get_path(new, *path, "spec") or {}, ".".join((*path, "spec")))]

    return warnings
