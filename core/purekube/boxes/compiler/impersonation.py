"""The check that a box gives none of its rights to the users who write its parents, the objects of its kind (RUN-12).

It knows which fields of an object give power, such as the choice of an account, and who controls the values of these
fields.
"""

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, RBAC_GROUP, SECRET
from purekube.boxes.compiler.scoping import Variables
from purekube.boxes.compiler.taint import TRUSTED, Origin, Taint, taint_of
from purekube.boxes.expressions import FUNCTIONS
from purekube.boxes.model import Power
from purekube.boxes.read import Findings
from purekube.boxes.templates import OPENING
from purekube.cel import DYN, ITEM, STRING, CelSyntaxError, CelType, Program
from purekube.cel.check import check
from purekube.cel.syntax import Bind, Call, Conditional, Expression, ListLiteral, Literal, Macro, MapLiteral
from purekube.schema.node import JsonType, Schema

Steps = tuple[str, ...]
"""The path to a field as a tuple of keys, without the indices of lists."""

_ROLES: Final = frozenset(("subjects", "roleRef", "rules", "aggregationRule"))
_TEXTS: Final = frozenset(("labels", "annotations", "matchLabels", "nodeSelector"))
"""Fields that hold a map from arbitrary names to strings, and so give no power."""
_DATA: Final[Mapping[Kind, tuple[Steps, ...]]] = {
    CONFIG_MAP: (("data",), ("binaryData",)),
    SECRET: (("data",), ("stringData",)),
    HELM_RELEASE: (("spec", "values"),),
}
"""Fields that hold only data, which gives no power: programs that read it run under their own accounts."""
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
_WITHOUT_FIELDS: Final = frozenset((JsonType.STRING, JsonType.INTEGER, JsonType.NUMBER, JsonType.BOOLEAN))
_DEEPEST: Final = 24
"""The depth to which a schema is examined, since schemas may be recursive."""


def power_at(kind: Kind, steps: Steps, *, elsewhere: bool = False) -> Power | None:
    """Return the power that users gain if they may choose the value of a field in an object of `kind`.

    `steps` is the path of the field. A power is, for example, to run code or to read Secrets. Return None for a
    harmless field. `elsewhere` says that the object is not in the parent's namespace.
    """
    if steps == ("metadata", "name"):
        return Power.NAMES if elsewhere or not kind.namespaced else None
    if steps == ("metadata", "namespace"):
        return Power.NAMESPACES
    if is_data(kind, steps):
        return None
    if kind.group == RBAC_GROUP and steps[:1] and steps[0] in _ROLES:
        return Power.ROLES
    return next(
        (power for at in range(len(steps)) if (power := _power_of(steps[at], steps[at + 1 :])) is not None), None
    )


def _power_of(step: str, rest: Steps) -> Power | None:
    """Return the power (such as the choice of an account) that users gain through a field named `step`; None if they
    gain none.

    `rest` are the keys that lead from that field to the value which users choose.
    """
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
    """Report whether the field at `steps` is pure data, such as ConfigMap `.data`, so that no key in it gives
    a power.
    """
    return not _TEXTS.isdisjoint(steps) or any(steps[: len(path)] == path for path in _DATA.get(kind, ()))


def powers_below(
    kind: Kind, steps: Steps, cel_type: CelType, schema: Schema | None
) -> tuple[Mapping[Power, Steps], bool]:
    """Return the powers (such as the choice of an account or a Secret) that a value at the path `steps` may give.

    Each power comes with the path of a field that gives it. The value's type and schema limit which fields are
    possible. The second item of the result is True if they leave some fields open, so that only the value itself shows
    its powers.
    """
    found: dict[Power, Steps] = {}
    is_open = _powers_below(kind, steps, cel_type, schema, found, set())
    return found, is_open


def _powers_below(
    kind: Kind, steps: Steps, given: CelType, schema: Schema | None, found: dict[Power, Steps], seen: set[int]
) -> bool:
    """Add the powers to `found`. Report whether type and schema leave fields open."""
    while given.name in ("optional", "list"):
        given = given.item
    while schema is not None and schema.items is not None:
        schema = schema.items
    if given.name in _SCALARS or is_data(kind, steps) or len(steps) > _DEEPEST or id(schema) in seen:
        return False
    fields = _fields(given, schema)
    if fields is None:
        return True
    is_open = False
    seen.update(() if schema is None else (id(schema),))
    for name, (inner, child) in fields.items():
        power = power_at(kind, (*steps, name))
        if power is not None:
            found.setdefault(power, (*steps, name))
        else:
            is_open |= _powers_below(kind, (*steps, name), inner, child, found, seen)
    return is_open


def _fields(cel_type: CelType, schema: Schema | None) -> Mapping[str, tuple[CelType, Schema | None]] | None:
    """Return the fields that an object may have by its type or schema, by name.

    Return None if neither limits the fields.
    """
    if cel_type.fields is not None:
        return {
            name: (field.type, None if schema is None else schema.child(name))
            for name, field in cel_type.fields.items()
        }
    if schema is None or schema.preserve_unknown:
        return None
    if schema.int_or_string or schema.type in _WITHOUT_FIELDS:
        return {}
    if schema.type is not JsonType.OBJECT or (schema.free and not schema.properties and schema.additional is None):
        return None
    others = {} if schema.additional is None else {ITEM: (cel_type.item, schema.additional)}
    return {**others, **{name: (cel_type.item, child) for name, child in schema.properties.items()}}


def is_allowed(power: Power, taint: Taint) -> bool:
    """Report whether a value of this taint (secrecy, and who controls it) may be in a field that gives `power`."""
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
    """Return the message that refuses an expression in a field that gives `power`, and suggests an alternative.

    `who` is the kind of the parents whose authors would gain that power.
    """
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


_STEP: Final = re.compile(r"""\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.([^.\[]+)""")


@attrs.frozen
class ImpersonationRules:
    """The rules that keep users who write parents (objects of the box's kind) from gaining the box's rights.

    Through expressions in its templates they could choose, for example, an account. They are trusted only with the
    powers in `trusted`.
    """

    findings: Findings
    parent: Kind
    trusted: frozenset[Power]

    def of(self, kind: Kind, root: str, *, elsewhere: bool) -> "ImpersonatedTemplate":
        """Return the checker for the template of an object of `kind`. `root` is the path of the template in the file.

        `elsewhere` says that the object may be in another namespace than the parent (object of the box's kind).
        """
        return ImpersonatedTemplate(self, kind, root, elsewhere)


@attrs.frozen
class ImpersonatedTemplate:
    """A checker of the powers that expressions in one object's template give to users who write parents.

    Parents are objects of the box's kind. A power is, for example, the choice of an account.
    """

    deputies: ImpersonationRules
    kind: Kind
    root: str
    elsewhere: bool

    def judge(
        self, program: Program, path: str, at: int, variables: Variables, schema: Schema | None, in_text: bool
    ) -> "PowerGuard | None":
        """Report each power that the expression at `path` gives to users who write parents without the box's trust.

        Parents are objects of the box's kind. A power is, for example, the choice of an account or a Secret. `at` is
        the expression's position in the text, `schema` the schema of the field, if known. `in_text` says that the
        expression is only a part of the text. If only the expression's value can show which powers it gives, return
        the guard that checks each value; otherwise return None.
        """
        steps = _steps(path.removeprefix(self.root))
        refused, guarded = self._verdict(program, steps, variables, schema, in_text)
        for power in sorted(refused):
            self.deputies.findings.problem(path, refusal(power, self.deputies.parent.kind), at)
        if refused or not guarded:
            return None
        return PowerGuard(self.kind, steps, self.deputies.parent.kind, guarded)

    def _verdict(
        self, program: Program, steps: Steps, variables: Variables, schema: Schema | None, in_text: bool
    ) -> tuple[set[Power], Mapping[Steps, frozenset[Power]]]:
        """Return the powers to refuse now, and those to refuse later if a value gives them, by the keys within the
        value.
        """
        if in_text:  # a part of a text, or of a key, which may then be that of any field
            taint = attrs.evolve(taint_of(program.tree, variables.taints).whole, owned=False)
            key = bool(steps) and OPENING in steps[-1]
            refused, later = self._at(steps[:-1] if key else steps, taint, DYN if key else STRING, schema)
            return refused | later, {}
        guarded: dict[Steps, frozenset[Power]] = {}
        refused = set()
        for below, taint, given in _Outcomes(program.text, variables.types, variables.taints).of(program.tree):
            now, later = self._at((*steps, *below), taint, given, _below(schema, below))
            refused |= now
            if later:
                guarded[below] = guarded.get(below, frozenset()) | later
        return refused, guarded

    def _at(
        self, steps: Steps, taint: Taint, cel_type: CelType, schema: Schema | None
    ) -> tuple[set[Power], frozenset[Power]]:
        power = power_at(self.kind, steps, elsewhere=self.elsewhere)
        powers, is_open = (
            ({power: steps}, False) if power is not None else powers_below(self.kind, steps, cel_type, schema)
        )
        untrusted = {one for one in Power if one not in self.deputies.trusted and not is_allowed(one, taint)}
        return untrusted.intersection(powers), frozenset(untrusted) if is_open else frozenset()


@attrs.frozen
class PowerGuard:
    """A check of each value of an expression in an object of `kind`, in a field whose content no schema limits.

    A value may not give a power, such as the choice of an account, if the box does not trust with it the users who
    write parents (objects of the kind `parent`). `steps` is the path of the field. `refused` maps the path of a part of
    the value to the powers that this part may not give; the empty path means the whole value.
    """

    kind: Kind
    steps: Steps
    parent: str
    refused: Mapping[Steps, frozenset[Power]]

    def refusal(self, value: Any) -> str:
        """Return the message that refuses the JSON `value`; "" if it gives no power that is refused."""
        return next(self._refusals(value, ()), "")

    def _refusals(self, value: Any, below: Steps) -> Iterator[str]:
        match value:
            case Mapping():
                for key, item in value.items():
                    inner = (*below, key)
                    power = power_at(self.kind, (*self.steps, *inner))
                    if power is not None and self._refuses(power, inner):
                        yield f"{'.'.join((*self.steps, *inner))}: {refusal(power, self.parent)}"
                    else:
                        yield from self._refusals(item, inner)
            case list():
                yield from (message for item in value for message in self._refusals(item, below))

    def _refuses(self, power: Power, below: Steps) -> bool:
        return any(below[: len(part)] == part and power in powers for part, powers in self.refused.items())


def _steps(path: str) -> Steps:
    """Return the keys in the path of a field, without the indices of lists."""
    return tuple(match[2] or str(literal_eval(match[1])) for match in _STEP.finditer(path))


def _below(schema: Schema | None, steps: Sequence[str]) -> Schema | None:
    for step in steps:
        while schema is not None and schema.items is not None:
            schema = schema.items
        schema = None if schema is None else schema.child(step)
    return schema


@attrs.frozen
class _Outcomes:
    """A search for all values that an expression may have.

    A taint says whether a value is secret and who controls it. `taints` has the taint of each variable; `decided` is
    the taint of the conditions around the expression, which select between values.
    """

    text: str
    types: Mapping[str, CelType]
    taints: Mapping[str, Taint]
    decided: Taint = TRUSTED

    def of(self, node: Expression) -> Iterator[tuple[Steps, Taint, CelType]]:
        """Yield a triple of keys, taint and type for each value that the expression `node` may have.

        The keys lead to the value if the expression builds a map. The taint says whether the value is secret and who
        controls it.
        """
        match node:
            case Conditional(condition, positive, negative):
                inner = attrs.evolve(self, decided=self.decided.under(self._taint(condition).whole))
                yield from inner._any_of(positive, negative)
            case Call("of" | "ofNonZeroValue" | "none", _, arguments):
                yield from self._any_of(*arguments)
            case Call("orValue" | "or", target, arguments) if target is not None:
                yield from self._any_of(target, *arguments)
            case ListLiteral(items):
                yield from self._any_of(*items)
            case MapLiteral(entries) if all(map(_is_name, entries)):
                for key, value in entries:
                    yield from (((_name(key), *below), taint, given) for below, taint, given in self.of(value))
            case Macro("optMap" | "optFlatMap" | "map"):
                yield from self._macro(node)
            case Bind(name, value, body):
                yield from self._with(name, self._taint(value), self._type(value), TRUSTED).of(body)
            case _:
                yield (), self._taint(node).whole.under(self.decided), self._type(node)

    def _any_of(self, *nodes: Expression) -> Iterator[tuple[Steps, Taint, CelType]]:
        return (outcome for node in nodes for outcome in self.of(node))

    def _macro(self, node: Macro) -> Iterator[tuple[Steps, Taint, CelType]]:
        taint, given = self._taint(node.target), self._type(node.target)
        assert node.body is not None
        inner = self._with(node.variables[0], taint.item if node.name == "map" else taint, given.item, taint.presence)
        if node.transform is None:
            return inner.of(node.body)
        decided = inner.decided.under(inner._taint(node.body).whole)
        return attrs.evolve(inner, decided=decided).of(node.transform)

    def _with(self, name: str, taint: Taint, cel_type: CelType, decided: Taint) -> "_Outcomes":
        types, taints = {**self.types, name: cel_type}, {**self.taints, name: taint}
        return attrs.evolve(self, types=types, taints=taints, decided=self.decided.under(decided))

    def _taint(self, node: Expression) -> Taint:
        return taint_of(node, self.taints)

    def _type(self, node: Expression) -> CelType:
        try:
            return check(node, self.text, self.types, FUNCTIONS).type
        except CelSyntaxError:
            return DYN


def _is_name(entry: tuple[Expression, Expression]) -> bool:
    return isinstance(entry[0], Literal) and isinstance(entry[0].value, str)


def _name(key: Expression) -> str:
    assert isinstance(key, Literal)
    return str(key.value)
