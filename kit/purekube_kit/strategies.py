"""Hypothesis strategies from the schema of a kind: objects that an API server would accept, and changes of them."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeVar, overload

import attrs
from hypothesis import reject
from hypothesis import strategies as st

from purekube.apimachinery.fields import camel
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.structuring import unstructure
from purekube.boxes.schemas import CrdVersions
from purekube.reconcilers import Object, Resource
from purekube.schema import Schema
from purekube_run.examples.data_source import DataSource, Seeded
from purekube_run.examples.examples import Examples, NoExample

Spec = TypeVar("Spec")
Status = TypeVar("Status")

_ATTEMPTS: Final = 10
NAMES: Final = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
"""A strategy for names that are valid for every kind, and short enough to be part of longer names."""


@overload
def objects_of(
    definition: Resource[Spec, Status], *, namespace: str = ..., wide: bool = ..., **spec: Any
) -> st.SearchStrategy[Object[Spec, Status]]: ...


@overload
def objects_of(
    definition: Manifest, *, version: str = ..., namespace: str = ..., wide: bool = ..., **spec: Any
) -> st.SearchStrategy[Manifest]: ...


def objects_of(
    definition: Any, *, version: Any = "", namespace: str = "default", wide: bool = False, **spec: Any
) -> Any:
    """Return a strategy for objects of a `Resource`, or for manifests of a CRD's stored version or of `version`.

    The objects satisfy bounds, patterns, formats, unique keys and CEL rules. Values are ordinary ones, or at a bound of
    the schema; `wide` adds values that users seldom write. The keywords `spec` fix fields of an object's spec, each by
    a value or a strategy. Raises ValueError for an invalid definition; drawing raises NoExample if no object
    satisfies the rules.
    """
    drawing = _Drawing.of(definition, version, namespace, wide, spec)
    drawn = st.composite(drawing.object)()
    return drawn.map(definition.read) if isinstance(definition, Resource) else drawn


@overload
def changes_of(
    definition: Resource[Spec, Status], *, namespace: str = ..., wide: bool = ..., **spec: Any
) -> st.SearchStrategy[tuple[Object[Spec, Status], Object[Spec, Status]]]: ...


@overload
def changes_of(
    definition: Manifest, *, version: str = ..., namespace: str = ..., wide: bool = ..., **spec: Any
) -> st.SearchStrategy[tuple[Manifest, Manifest]]: ...


def changes_of(
    definition: Any, *, version: Any = "", namespace: str = "default", wide: bool = False, **spec: Any
) -> Any:
    """Return a strategy for pairs: an object, and the same object after a change that rules with `oldSelf` permit.

    The parameters are those of `objects_of`.
    """
    drawing = _Drawing.of(definition, version, namespace, wide, spec)
    drawn = st.composite(drawing.change)()
    if not isinstance(definition, Resource):
        return drawn
    return drawn.map(lambda pair: (definition.read(pair[0]), definition.read(pair[1])))


@attrs.frozen
class _Drawn:
    """A source of random choices that draws them from Hypothesis. Failing examples shrink to low numbers and False."""

    draw: st.DrawFn

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, chance: float) -> bool:
        return self.draw(st.integers(1, 10)) > 10 - round(10 * chance)


@attrs.define
class _Drawing:
    """A generator of objects of one kind. `spec` maps fields of an object's spec to fixed values or to strategies."""

    kind: Kind
    schema: Schema
    namespace: str
    wide: bool
    spec: Mapping[str, Any]
    _possible: bool = False

    @classmethod
    def of(
        cls,
        definition: Manifest | Resource[Any, Any],
        version: Any,
        namespace: str,
        wide: bool,
        spec: Mapping[str, Any],
    ) -> "_Drawing":
        if isinstance(definition, Resource):  # it has one version: the keyword is a field of its spec
            given = spec if version == "" else {"version": version, **spec}
            fixed = {camel(name): value for name, value in given.items()}
            return cls(definition.kind, definition.schema, namespace, wide, fixed)
        versions = CrdVersions.of(definition)
        known = versions.kinds.get(version or versions.storage)
        if known is None:
            raise ValueError(f"{versions.stored.kind.crd_name} has no version {version}: {', '.join(versions.kinds)}")
        if known.schema is None:
            raise ValueError(f"{known.kind.crd_name} has no schema to draw from")
        return cls(known.kind, known.schema, namespace, wide, spec)

    def object(self, draw: st.DrawFn) -> Manifest:
        """Draw one object."""
        self._be_possible()
        return self._tried(lambda: self._object(_Drawn(draw), draw(NAMES), self._fixed(draw)))

    def change(self, draw: st.DrawFn) -> tuple[Manifest, Manifest]:
        """Draw an object, and the same object after a permitted change."""
        old = self.object(draw)
        return old, self._tried(lambda: self._examples(_Drawn(draw), {}).changed(old))

    def _tried(self, drawn: Callable[[], Manifest]) -> Manifest:
        try:
            return drawn()
        except NoExample:
            reject()

    def _object(self, choose: DataSource, name: str, fixed: Mapping[str, Any]) -> Manifest:
        metadata = {"name": name, **({"namespace": self.namespace} if self.kind.namespaced else {})}
        return self._examples(choose, fixed).object_of(self.kind, metadata)

    def _examples(self, choose: DataSource, fixed: Mapping[str, Any]) -> Examples:
        return Examples(self.schema, choose, self.wide, fixed)

    def _fixed(self, draw: st.DrawFn) -> dict[str, Any]:
        return {
            field: unstructure(draw(given) if isinstance(given, st.SearchStrategy) else given)
            for field, given in self.spec.items()
        }

    def _be_possible(self) -> None:
        """Raise NoExample if no object satisfies the rules of the schema.

        Without this check, Hypothesis would only report that it found no example.
        """
        given = {field: unstructure(one) for field, one in self.spec.items() if not isinstance(one, st.SearchStrategy)}
        if self._possible or len(given) < len(self.spec):
            return
        refused = ""
        for seed in range(_ATTEMPTS):
            try:
                self._object(Seeded(Random(seed)), "example", given)
            except NoExample as error:
                refused = str(error)
            else:
                self._possible = True
                return
        raise NoExample(
            f"no object of {self.kind.crd_name} could be drawn that its rules admit: {refused}."
            " Give the fields that the rules bind together yourself: objects_of(…, field=strategy)"
        )
