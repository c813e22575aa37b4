"""Pure reconcilers: controllers made from a function that returns the objects which should exist for an object (PH-7).

The decorator `@pure_reconciler(SHOP, owns=[…])` makes the controller. The function decides which objects should exist;
the graph engine (`purekube.graph`) applies those that differ, in the order of their dependencies, waits for readiness,
prunes, and tears down, as for boxes (operators that a file declares).
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import KNOWN_KINDS, SECRET
from purekube.apimachinery.secret_material import REDACTED
from purekube.reconcilers.desired import Children, Desired, Node, Object, Spec, Status
from purekube.reconcilers.request import is_interval
from purekube.reconcilers.resource import Resource
from purekube.schema import Schema
from purekube.schema.builtin import UNTYPED, built_in_kinds, built_in_names

_SHORTEST: Final = 4
"""The length of the shortest value that is masked: masking shorter ones would make the message unreadable."""


def without_secrets(text: str, objects: Mapping[ObjectRef, Manifest]) -> str:
    """Return `text` with the values of the Secrets among `objects` masked, both plain and base64-encoded."""
    found = {value for ref, live in objects.items() if ref.kind == SECRET for value in _values(live)}
    for value in sorted(found, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def _values(secret: Manifest) -> Iterator[str]:
    data = get_path(secret, "data")
    for value in data.values() if isinstance(data, Mapping) else ():
        if isinstance(value, str) and len(value) >= _SHORTEST:
            yield value
            yield from _decoded_forms(value)


def _decoded_forms(value: str) -> Iterator[str]:
    try:
        plain = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return
    for one in (plain, repr(plain)[1:-1], *plain.splitlines()):
        if len(one) >= _SHORTEST:
            yield one


_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

DesiredOf: TypeAlias = Callable[[Object[Spec, Status], Children], Desired[Status]]
"""The user's function, which returns the desired state for an object, given the object and its existing children.

It must be pure: it reads only its two arguments, no clock, network or other state.
"""

DrainOf: TypeAlias = Callable[[Object[Spec, Status], Children], Sequence[Node]]
"""A function that returns the nodes, such as Jobs, that run to completion before the children of a deleted object are
deleted.
"""

AnyKind: TypeAlias = Kind | Resource[Any, Any] | str
"""A kind, or for a built-in kind a string such as `apps/v1/Deployment` or `v1/Service`."""


@attrs.frozen(eq=False)
class Read:
    """An object of another owner that the user's function reads, by `id` in its argument `children`.

    `name` computes the object's name from the parent alone; None means that the name is not known yet. The object is in
    the parent's namespace unless `namespace` returns another. Without `watch`, which is the default for Secrets, the
    object is read by name in each pass.
    """

    id: str
    of: AnyKind
    name: Callable[[Any], str | None]
    namespace: Callable[[Any], str] | None = None
    watch: bool = attrs.field()
    kind: Kind = attrs.field(init=False)

    @watch.default
    def _watched(self) -> bool:
        return as_kind(self.of) != SECRET

    @kind.default
    def _kind(self) -> Kind:
        return as_kind(self.of)

    @property
    def elsewhere(self) -> bool:
        """Report whether the object may be in another namespace than the parent."""
        return self.namespace is not None

    @property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that the function may read: the empty path, which means the whole object."""
        return ((),)

    @property
    def selector(self) -> Mapping[str, Any]:
        """The labels that select the object. There are none, since the object is read by name."""
        return {}


@attrs.frozen(eq=False)
class PureReconciler(Generic[Spec, Status]):
    """A controller that `pure_reconciler` made from a user's pure function.

    Attributes that are also arguments of `pure_reconciler` have the same meaning. The controller can be called like the
    function, for tests.
    """

    name: str
    kind: Resource[Spec, Status]
    function: DesiredOf[Spec, Status]
    owns: tuple[Kind, ...]
    schemas: Mapping[Kind, Schema] = attrs.field(factory=dict)
    """The schemas of those kinds in `owns` that are given as a `Resource`."""
    reads: tuple[Read, ...] = ()
    drain: DrainOf[Spec, Status] | None = None
    resync: float = 60.0
    namespaces: Mapping[str, Any] | None = None
    across_namespaces: bool = False
    strict_order: bool = False

    def __call__(self, object: Object[Spec, Status], children: Children | None = None) -> Desired[Status]:
        """Call the user's function with a parent and its children, for tests."""
        return self.function(object, Children() if children is None else children)


AnyPureReconciler: TypeAlias = PureReconciler[Any, Any]


def pure_reconciler(
    kind: Resource[Spec, Status],
    *,
    owns: Sequence[AnyKind],
    reads: Sequence[Read] = (),
    name: str = "",
    drain: DrainOf[Spec, Status] | None = None,
    resync: float = 60.0,
    namespaces: Mapping[str, Any] | None = None,
    across_namespaces: bool = False,
    strict_order: bool = False,
) -> Callable[[DesiredOf[Spec, Status]], PureReconciler[Spec, Status]]:
    """Return a decorator that makes a controller from a pure function, which is called for each object of `kind`, the
    parent.

    The function returns nodes (objects that should exist for the parent) and a status. `owns` are the kinds of the
    nodes; they are watched, and roles for them are printed. For a kind given as a `Resource` the schema is known, so
    the controller waits for a status if the schema has one. `reads` are objects of other owners that the function
    reads. `drain` returns nodes that run to completion before a deletion. `resync` is the number of seconds after which
    a parent is reconciled again even without a change. `namespaces` is a label selector of the namespaces whose objects
    are reconciled. With `across_namespaces` nodes may be in other namespaces than the parent. With `strict_order` there
    are no owner references, so that only this controller deletes objects.

    `name` is by default the function's name. Finalizers, labels, field managers, metrics and logs contain the name, so
    a renamed controller does not recognize the objects that it made before.

    Raises ValueError for an unknown kind, two `reads` of one id, or a `resync` that is no number of seconds; the
    decorator raises it for an invalid name. The message says what to write instead.
    """
    if not is_interval(resync):
        raise ValueError(f"resync must be seconds, more than 0, not {resync!r}")
    if twice := next((read.id for at, read in enumerate(reads) if read.id in {one.id for one in reads[:at]}), None):
        raise ValueError(f"two of reads have the id {twice}: give one of them another one")
    kinds = tuple(dict.fromkeys(map(as_kind, owns)))
    schemas = {kind.kind: kind.schema for kind in owns if isinstance(kind, Resource)}

    def made(function: DesiredOf[Spec, Status]) -> PureReconciler[Spec, Status]:
        said = name or function.__name__.replace("_", "-").lower()
        if _NAME.fullmatch(said) is None:
            raise ValueError(f"the name {said!r} must be such as shop-audit, 40 letters at most: give name=…")
        return PureReconciler(
            said,
            kind,
            function,
            kinds,
            schemas,
            tuple(reads),
            drain,
            resync,
            namespaces,
            across_namespaces,
            strict_order,
        )

    return made


def as_kind(given: AnyKind) -> Kind:
    """Return the kind that a Kind, Resource or string names. Raises ValueError if a string names no built-in kind."""
    if isinstance(given, Kind):
        return given
    if isinstance(given, Resource):
        return given.kind
    api_version, _, kind = given.rpartition("/")
    if (known := built_in_names(api_version, kind)) is not None:
        return known
    ours = next((one for one in KNOWN_KINDS if (one.api_version, one.kind) == (api_version, kind)), None)
    if ours is None:
        names = sorted("/".join(one) for one in (*built_in_kinds(), *UNTYPED))
        meant = [name for name in names if name.endswith(f"/{kind}")]
        write = "write such as apps/v1/Deployment, or give Kind(group, version, kind, plural)"
        hint = f"did you mean {meant[-1]}?" if meant else f"{write}; known are {', '.join(names)}"
        raise ValueError(f"{given!r} is no kind that is known here: {hint}")
    return ours
