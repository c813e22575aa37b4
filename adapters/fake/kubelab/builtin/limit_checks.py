"""The rules of LimitRanges and ResourceQuotas that no schema expresses.

Fields and messages are kube-apiserver's (`pkg/apis/core/validation`, ValidateLimitRange and ValidateResourceQuota). The
problems of amounts are in the order of their names, which a Go map does not have.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.admission.amounts import ONE, Amount, Amounts, amounts_of
from kubelab.builtin.container_checks import COUNTED, is_whole, repeated, resource_name_causes
from kubelab.writes.metadata import qualified_problems
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import duplicate, forbidden_value, invalid_value, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_DEFAULTS: Final = ("default", "defaultRequest")
_AMOUNTS: Final = ("max", "min", *_DEFAULTS, "maxLimitRequestRatio")


def limit_range_causes(spec: Fields) -> Causes:
    """Yield the problems of the `spec` of a LimitRange."""
    limits = spec.get("limits") or ()
    again = dict(repeated(limit.get("type", "") for limit in limits))
    for index, limit in enumerate(limits):
        where, kind = f"spec.limits[{index}]", limit.get("type", "")
        yield from _type_causes(kind, f"{where}.type")
        if index in again:
            yield duplicate(f"{where}.type", kind)
        if kind == "Pod":
            text = "may not be specified when `type` is 'Pod'"
            yield from (forbidden_value(f"{where}.{key}", text) for key in _DEFAULTS if limit.get(key))
        if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(key) or ()) for key in ("min", "max")):
            text = "either minimum or maximum storage value is required, but neither was provided"
            yield required(f"{where}.limits", text)
        yield from _amount_causes(limit, kind, where)


def _type_causes(kind: str, path: str) -> Causes:
    problems = qualified_problems(kind)
    if not problems and "/" not in kind and kind not in _TYPES:
        problems = ["must be a standard limit type or fully qualified"]
    yield from (invalid_value(path, kind, text) for text in problems)


def _amount_causes(limit: Fields, kind: str, where: str) -> Causes:
    keys = [key for key in _AMOUNTS if kind != "Pod" or key not in _DEFAULTS]
    amounts = {key: amounts_of(limit.get(key)) for key in keys}
    of_container = kind in ("Pod", "Container")
    for key, named in amounts.items():
        for name in sorted(named):
            yield from resource_name_causes(name, f"{where}.{key}[{name}]", of_container=of_container)
    for name in sorted({name for named in amounts.values() for name in named}):
        given = {key: named[name] for key, named in amounts.items() if name in named}
        yield from _order_causes(given, name, where)
        yield from _ratio_causes(given, f"{where}.maxLimitRequestRatio[{name}]")


_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""Pairs of amounts of which the first must not exceed the second, with the field and amount that the problem names."""


def _order_causes(given: Amounts, name: str, where: str) -> Causes:
    for low, high, field, shown, text in _ORDER:
        if low in given and high in given and given[low].number > given[high].number:
            yield invalid_value(f"{where}.{field}[{name}]", str(given[shown]), text.format(given[low], given[high]))
    default, request = given.get("default"), given.get("defaultRequest")
    if default is not None and request is not None and is_whole(name) and default.number != request.number:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield invalid_value(f"{where}.defaultRequest[{name}]", str(request), text)


def _ratio_causes(given: Mapping[str, Amount], path: str) -> Causes:
    if (ratio := given.get("maxLimitRequestRatio")) is None:
        return
    if ratio.number < ONE.number:
        yield invalid_value(path, str(ratio), f"ratio {ratio} is less than 1")
    least, most = given.get("min"), given.get("max")
    if least is not None and most is not None and least.number and ratio.number > (top := most.number / least.number):
        yield invalid_value(path, str(ratio), f"ratio {ratio} is greater than max/min = {float(top):f}")


# --- quotas ----------------------------------------------------------------------------------------------------------

_SCOPES: Final = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_OPPOSITES: Final = ({"Terminating", "NotTerminating"}, {"BestEffort", "NotBestEffort"})


def quota_causes(spec: Fields) -> Causes:
    """Yield the problems of the `spec` of a ResourceQuota."""
    for name, amount in sorted(amounts_of(spec.get("hard")).items(), key=lambda item: item[0]):
        where = f"spec.hard[{name}]"
        yield from resource_name_causes(name, where, of_container=False)
        if amount.number < 0:
            yield invalid_value(where, str(amount), "must be greater than or equal to 0")
        if name in COUNTED and amount.number % 1:
            yield invalid_value(where, str(amount), "must be an integer")
    scopes = spec.get("scopes") or ()
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid_value("spec.scopes", scopes, "unsupported scope")
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        yield invalid_value("spec.scopes", scopes, "conflicting scopes")
    for asked in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield from _scope_causes(asked, "spec.scopeSelector.matchExpressions")


def _scope_causes(asked: Fields, path: str) -> Causes:
    # kube-apiserver leaves the index out of these.
    scope, operator, values = asked["scopeName"], asked["operator"], asked.get("values") or ()
    if scope not in _SCOPES:
        yield invalid_value(f"{path}.scopeName", scope, "unsupported scope")
    match operator:
        case "In" | "NotIn":
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", text)
        case "Exists" | "DoesNotExist":
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid_value(f"{path}.values", values, text)
        case _:
            yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")


def quota_update_causes(new: Fields, old: Fields) -> Causes:
    """Yield the problems of the changed `spec` of a ResourceQuota, whose scopes are immutable."""
    yield from quota_causes(new)
    if set(new.get("scopes") or ()) != set(old.get("scopes") or ()):
        yield invalid_value("spec.scopes", new.get("scopes"), "field is immutable")
