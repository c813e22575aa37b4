"""LimitRanges: the amounts that the containers of a new pod get, and which pods and claims exceed a limit.

As the plugin LimitRanger of kube-apiserver, which completes a pod before its validation and refuses it afterwards.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import ceil
from typing import Any, Final

from kubelab.admission.amounts import Amount, Amounts, amounts_in, amounts_of, total_of
from kubelab.model.failure import ApiFailure, forbidden
from kubelab.model.records import GroupResource, Record
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import Manifest

_LIMITS: Final[GroupResource] = ("", "limitranges")
_PODS: Final[GroupResource] = ("", "pods")
_CLAIMS: Final[GroupResource] = ("", "persistentvolumeclaims")
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LISTS: Final = {"containers": "container", "initContainers": "init container"}
# apimachinery: api/resource/amount.go, MaxMilliValue.
_MOST_IN_MILLI: Final = (2**63 - 1) // 1000

Fields = Mapping[str, Any]


# --- defaults --------------------------------------------------------------------------------------------------------


def completed(pod: Manifest, limits: Iterable[Fields]) -> Manifest:
    """Return a pod whose containers have the defaults of a LimitRange's `limits`, and an annotation that names them."""
    defaults: dict[str, dict[str, Any]] = {"requests": {}, "limits": {}}
    for each in limits:
        if each.get("type") == "Container":
            defaults["requests"] |= each.get("defaultRequest") or {}
            defaults["limits"] |= each.get("default") or {}
    spec, notes = dict(pod["spec"]), list[str]()
    for key, word in _LISTS.items():
        if containers := spec.get(key):
            spec[key] = [_with_defaults(container, defaults, word, notes) for container in containers]
    if not notes:
        return pod
    meta = pod["metadata"]
    note = f"LimitRanger plugin set: {'; '.join(notes)}"
    return {
        **pod,
        "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), _ANNOTATION: note}},
        "spec": spec,
    }


def _with_defaults(container: Fields, defaults: Mapping[str, Fields], word: str, notes: list[str]) -> Fields:
    resources = container.get("resources") or {}
    for key, amounts in defaults.items():
        given = resources.get(key) or {}
        if lacking := sorted(amounts.keys() - given.keys()):
            resources = {**resources, key: {**amounts, **given}}
            notes.append(f"{', '.join(lacking)} {key.removesuffix('s')} for {word} {container.get('name', '')}")
    return {**container, "resources": resources}


# --- limits ----------------------------------------------------------------------------------------------------------


def problems(where: GroupResource, manifest: Manifest, limits: Iterable[Fields]) -> Iterator[str]:
    """Yield how a pod or claim, an object of the resource `where`, exceeds the `limits` of a LimitRange."""
    spec = manifest["spec"]
    for limit in limits:
        kind = limit.get("type")
        if where == _CLAIMS and kind == "PersistentVolumeClaim":
            yield from _of_claim(limit, amounts_in(spec, "requests"))
        elif where == _PODS and kind == "Container":
            for container in (each for key in _LISTS for each in spec.get(key) or ()):
                yield from _exceeded(limit, amounts_in(container, "requests"), amounts_in(container, "limits"))
        elif where == _PODS and kind == "Pod":
            yield from _exceeded(limit, total_of(spec, "requests"), total_of(spec, "limits"))


def _of_claim(limit: Fields, requests: Amounts) -> Iterator[str]:
    kind = limit["type"]
    for name, least in _sorted(limit, "min"):
        yield from _below(f"minimum {name} usage per {kind} is {least}", least, requests.get(name), None)
    for name, most in _sorted(limit, "max"):
        # A claim has no limits of its own: what it asks for is the most that it uses.
        asked, text = requests.get(name), f"maximum {name} usage per {kind} is {most}"
        if asked is None:
            yield f"{text}.  No request is specified"
        elif _is_more(asked, most):
            yield f"{text}, but request is {asked}"


def _exceeded(limit: Fields, requests: Amounts, limits: Amounts) -> Iterator[str]:
    # kubernetes: plugin/pkg/admission/limitranger/admission.go, PodValidateLimitFunc.
    kind = limit["type"]
    for name, least in _sorted(limit, "min"):
        text = f"minimum {name} usage per {kind} is {least}"
        yield from _below(text, least, requests.get(name), limits.get(name))
    for name, most in _sorted(limit, "max"):
        text = f"maximum {name} usage per {kind} is {most}"
        yield from _above(text, most, requests.get(name), limits.get(name))
    for name, ratio in _sorted(limit, "maxLimitRequestRatio"):
        text = f"{name} max limit to request ratio per {kind} is {ratio}"
        yield from _too_far(text, ratio, requests.get(name), limits.get(name))


def _sorted(limit: Fields, key: str) -> list[tuple[str, Amount]]:
    # A kube-apiserver has no order in these maps.
    return sorted(amounts_of(limit.get(key)).items(), key=lambda item: item[0])


def _below(text: str, least: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    if request is None:
        yield f"{text}.  No request is specified"
    elif _is_more(least, request):
        yield f"{text}, but request is {request}"
    elif limit is not None and _is_more(least, limit):
        yield f"{text}, but limit is {limit}"


def _above(text: str, most: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    if limit is None:
        yield f"{text}.  No limit is specified"
    elif _is_more(limit, most):
        yield f"{text}, but limit is {limit}"
    elif request is not None and _is_more(request, most):
        yield f"{text}, but request is {request}"


def _too_far(text: str, most: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    if request is None or not request.number:
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not limit.number:
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        asked, allowed = _whole(request, limit)
        if (ratio := allowed / asked) * 1000 > ceil(most.number * 1000):
            yield f"{text}, but provided ratio is {ratio:f}"


def _is_more(one: Amount, other: Amount) -> bool:
    first, second = _whole(one, other)
    return first > second


def _whole(one: Amount, other: Amount) -> tuple[int, int]:
    """Return two amounts in thousandths, or in whole units if one of them is too large for that; both rounded up."""
    # kubernetes: plugin/pkg/admission/limitranger/admission.go, requestLimitEnforcedValues.
    unit = 1000 if max(one.number, other.number) <= _MOST_IN_MILLI else 1
    return ceil(one.number * unit), ceil(other.number * unit)


class LimitRanges:
    """The part of the in-memory API server that holds new pods, and claims, to the LimitRanges of their namespaces."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def complete(self, pod: Manifest) -> Manifest:
        """Return a new pod with the defaults of the LimitRanges of its namespace."""
        for limits in self._limits(pod):
            pod = completed(pod, limits)
        return pod

    def check_of(self, where: GroupResource, before: Record | None) -> Callable[[Manifest], ApiFailure | None] | None:
        """Return the function that returns the refusal of an object, or None if this write is held to no limit.

        `where` is the resource of the object, `before` its record before an update, None for a create.
        """
        # kubernetes: plugin/pkg/admission/limitranger/admission.go, SupportsAttributes: no update changes what a pod
        # asks for. An object that is being deleted has to lose its finalizers.
        is_new_pod = where == _PODS and before is None
        is_claim = where == _CLAIMS and not (before is not None and before.deleting)
        return partial(self._refusal, where) if is_new_pod or is_claim else None

    def _refusal(self, where: GroupResource, manifest: Manifest) -> ApiFailure | None:
        for limits in self._limits(manifest):
            if why := list(dict.fromkeys(problems(where, manifest, limits))):
                # apimachinery: util/errors, aggregate.Error.
                text = why[0] if len(why) == 1 else f"[{', '.join(why)}]"
                return forbidden(*where, manifest["metadata"].get("name", ""), text)
        return None

    def _limits(self, manifest: Manifest) -> list[list[Fields]]:
        """Return the limits in each LimitRange of an object's namespace."""
        records = self._store.scan(_LIMITS, manifest["metadata"].get("namespace", ""))
        return [(record.shared().get("spec") or {}).get("limits") or [] for record in records]
