"""The fields of objects that give power: an expression over a parent may not decide them (RUN-12).

A box works with the rights of its operator. The authors of its parents would gain these rights if a parent decided into
which namespace an object goes, as whom a pod runs, or what it may do to its node.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, SECRET
from purekube.boxes.model import Power
from purekube.boxes.taint import Origin, Taint
from purekube.cel import ITEM, CelType
from purekube.schema.node import JsonType, Schema

Steps = tuple[str, ...]
"""The keys on the way to a field, without the indices of lists."""

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = frozenset(("subjects", "roleRef", "rules", "aggregationRule"))
_TEXTS: Final = frozenset(("labels", "annotations", "matchLabels", "nodeSelector"))
"""Maps of texts, whose keys are arbitrary names."""
_DATA: Final[Mapping[Kind, tuple[Steps, ...]]] = {
    CONFIG_MAP: (("data",), ("binaryData",)),
    SECRET: (("data",), ("stringData",)),
    HELM_RELEASE: (("spec", "values"),),
}
"""Places that hold only data: its reader has an account of its own."""
_HOST: Final = frozenset(
    (
        *("hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "hostUsers", "nodeName", "runtimeClassName"),
        *("privileged", "capabilities", "allowPrivilegeEscalation", "procMount", "podSpecPatch", "priorityClassName"),
    )
)
_CONTEXT: Final = "securityContext"
_HARMLESS: Final = frozenset(("fsGroup", "fsGroupChangePolicy", "supplementalGroups", "readOnlyRootFilesystem"))
"""Fields of a security context that take rights away, or concern volumes alone."""
_SECRETS: Final = ("secretref", "secretkeyref", "secretname", "secretrefs", "imagepullsecrets", "valuesfrom")
_SCALARS: Final = frozenset(("string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration", "null_type"))
_DEEPEST: Final = 24
"""The most levels of a schema that are examined; schemas may be recursive."""


def power_at(kind: Kind, steps: Steps, *, elsewhere: bool = False) -> Power | None:
    """Return the power of a field of a kind; None if it has none. `elsewhere`: not in the parent's namespace."""
    if steps == ("metadata", "name"):
        return Power.NAMES if elsewhere or not kind.namespaced else None
    if steps == ("metadata", "namespace"):
        return Power.NAMESPACES
    if is_data(kind, steps):
        return None
    if kind.group == _RBAC and steps[:1] and steps[0] in _ROLES:
        return Power.ROLES
    return next(
        (power for at in range(len(steps)) if (power := _power_of(steps[at], steps[at + 1 :])) is not None), None
    )


def _power_of(step: str, rest: Steps) -> Power | None:
    """Return the power of a field, given the fields below it."""
    name = step.lower()
    if step in _HOST or (step == _CONTEXT and not (rest and rest[0] in _HARMLESS)):
        return Power.HOSTS
    if name.startswith("serviceaccount") and name != "serviceaccounttoken":
        return Power.ACCOUNTS
    if name.endswith("namespace") or name == "namespaces":
        return Power.NAMESPACES
    if (step == "secret" or name.endswith(_SECRETS)) and (not rest or rest[-1] in ("name", "secretName")):
        return Power.SECRETS
    return None


def is_data(kind: Kind, steps: Steps) -> bool:
    """Report whether a place holds texts and data alone, whatever its keys are."""
    return not _TEXTS.isdisjoint(steps) or any(steps[: len(path)] == path for path in _DATA.get(kind, ()))


def powers_below(kind: Kind, steps: Steps, cel_type: CelType, schema: Schema | None) -> Mapping[Power, Steps]:
    """Return the powers that an object at a place may have, by its type and by what its schema allows."""
    found: dict[Power, Steps] = {}
    _powers_below(kind, steps, cel_type, schema, found, set())
    return found


def _powers_below(
    kind: Kind, steps: Steps, given: CelType, schema: Schema | None, found: dict[Power, Steps], seen: set[int]
) -> None:
    while given.name in ("optional", "list"):
        given = given.item
    while schema is not None and schema.items is not None:
        schema = schema.items
    if given.name in _SCALARS or is_data(kind, steps) or len(steps) > _DEEPEST or id(schema) in seen:
        return
    fields = _fields(given, schema)
    if fields is None:
        found.update({power: steps for power in Power if power not in found})
        return
    seen.update(() if schema is None else (id(schema),))
    for name, (inner, child) in fields.items():
        power = power_at(kind, (*steps, name))
        if power is not None:
            found.setdefault(power, (*steps, name))
        else:
            _powers_below(kind, (*steps, name), inner, child, found, seen)


def _fields(cel_type: CelType, schema: Schema | None) -> Mapping[str, tuple[CelType, Schema | None]] | None:
    """Return the fields that an object may have, as its type or its schema names them; None if neither does."""
    if cel_type.fields is not None:
        return {
            name: (field.type, None if schema is None else schema.child(name))
            for name, field in cel_type.fields.items()
        }
    if (
        schema is None
        or schema.preserve_unknown
        or (schema.free and not schema.properties and schema.additional is None)
    ):
        return None
    if schema.type is not JsonType.OBJECT:
        return {}
    others = {} if schema.additional is None else {ITEM: (cel_type.item, schema.additional)}
    return {**others, **{name: (cel_type.item, child) for name, child in schema.properties.items()}}


def is_allowed(power: Power, taint: Taint) -> bool:
    """Report whether a value with this taint may decide a power."""
    match power:
        case Power.NAMESPACES | Power.HOSTS:
            return taint.origin is Origin.AUTHOR
        case Power.ACCOUNTS | Power.ROLES:
            return taint.origin is Origin.AUTHOR or taint.owned
        case Power.NAMES:
            return taint.origin is not Origin.CHOSEN
        case Power.SECRETS:
            return taint.origin is not Origin.CHOSEN or taint.owned
        case _:
            assert_never(power)


def refusal(power: Power, who: str) -> str:
    """Return the message about an expression that decides a power, with what to write instead."""
    trust = f"; where they may do that anyway, say `trustParents: [{power}]` in the spec of the box"
    match power:
        case Power.NAMESPACES:
            what, instead = "a namespace", "leave it out, or write it down"
        case Power.NAMES:
            what = "the name of an object outside of their namespace"
            instead = "make it of self.metadata.namespace and self.metadata.name"
        case Power.ACCOUNTS:
            what = "the account that it runs as"
            instead = "write it down, or name a ServiceAccount of this box: ${account.metadata.name}"
        case Power.ROLES:
            what = "who has which rights"
            instead = "write it down, or name a resource of this box: ${account.metadata.name}"
        case Power.HOSTS:
            what, instead = "privileges on the node", "write it down"
        case Power.SECRETS:
            what = "which Secret is used"
            instead = "make it one of `externals`, which has to agree, and write ${ID.metadata.name}"
        case _:
            assert_never(power)
    return f"whoever may write {who} objects would decide {what}: {instead}{trust}"
