"""Conversions of a box tried on examples: there and back again, nothing may be lost (PH-6, L23).

Examples are drawn from the schemas by a fixed seed, so that a file has one answer everywhere.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

import attrs

from vworkspace_app.trials.chooser import Seeded
from vworkspace_app.trials.examples import Examples, NoExample
from vworkspace_core.apimachinery.manifest import Manifest, same_json
from vworkspace_core.apimachinery.places import Place
from vworkspace_core.apimachinery.problems import index, join
from vworkspace_core.boxes.box import Box, CompiledVersion
from vworkspace_core.boxes.conversion import from_storage, to_storage
from vworkspace_core.boxes.expressions import ExpressionFailure
from vworkspace_core.boxes.model import KeptIn
from vworkspace_core.boxes.problems import BoxProblem
from vworkspace_core.boxes.schemas import CrdVersions, KnownKind
from vworkspace_core.schema import apply_defaults, validate

EACH_WAY: Final = 100
"""Round trips from either version."""
_TRIES: Final = 20
"""Drawings for one example that the rules of its version admit."""
_LONGEST_VALUE: Final = 80
_NOTHING: Final = object()


@attrs.frozen
class RoundTrips:
    """What came of the conversion of one version: how many round trips held, and the first that did not."""

    version: str
    storage: str
    held: int
    problem: BoxProblem | None = None

    def __str__(self) -> str:
        return f"conversion {self.version} <-> {self.storage}: {self.held} round trips hold"


class _Lost(Exception):
    """A round trip that does not hold. `part` is the expressions' side in the file: `up` or `down`."""

    def __init__(self, part: str, message: str, place: Place | None = None) -> None:
        self.part, self.message, self.place = part, message, place
        super().__init__(message)


def round_trips(box: Box, crd: CrdVersions, place: Callable[[str], Place]) -> Iterator[RoundTrips]:
    """Those of every version that is converted; `place` says where a path stands in the file."""
    for at, version in enumerate(box.versions):
        if not version.is_storage:
            yield _Trial(version, crd).run(index("spec.versions", at), place)


@attrs.frozen(eq=False)
class _Trial:
    version: CompiledVersion
    crd: CrdVersions

    def run(self, path: str, place: Callable[[str], Place]) -> RoundTrips:
        random, name, storage = Random(0), self.version.name, self.crd.storage
        held = 0
        for number in range(EACH_WAY):
            for known, trip in ((self.crd.kinds[name], self._from_old), (self.crd.stored, self._from_storage)):
                example = _example(self.crd, known, random, number)
                if example is None:
                    continue
                try:
                    trip(example)
                except _Lost as lost:
                    where = lost.place or place(f"{path}.{lost.part}")
                    return RoundTrips(name, storage, held, BoxProblem(where, lost.message))
                held += 1
        if not held:
            message = f"no example of {name} or {storage} could be drawn that its rules admit: nothing was tried"
            return RoundTrips(name, storage, 0, BoxProblem(place(path), message))
        return RoundTrips(name, storage, held)

    def _from_old(self, old: Manifest) -> None:
        stored = self._up(old)
        self._same("down", old, self._down(stored), f"{self.version.name} to {self.crd.storage} and back")

    def _from_storage(self, stored: Manifest) -> None:
        """With an annotation only what the old version holds has to come back by itself."""
        old, way = self._down(stored), f"{self.crd.storage} to {self.version.name} and back"
        again = self._up(old)
        if self.version.keeps is KeptIn.NOTHING:
            self._same("up", stored, again, way, " (`keeps: annotation` keeps what the old version cannot hold)")

    def _up(self, old: Manifest) -> Manifest:
        return _tried("up", lambda: to_storage(self.version, old, self.crd.stored), self.crd.stored)

    def _down(self, stored: Manifest) -> Manifest:
        known = self.crd.kinds[self.version.name]
        return _tried("down", lambda: from_storage(self.version, stored, known), known)

    def _same(self, part: str, before: Manifest, after: Manifest, way: str, hint: str = "") -> None:
        if not same_json(before, after):
            path, was, became = _difference(before, after)
            raise _Lost(part, f"{way} changes {path}: {_shown(was)} becomes {_shown(became)}{hint}")


def _tried(part: str, convert: Callable[[], Manifest], known: KnownKind) -> Manifest:
    version = known.kind.version
    try:
        found = convert()
    except ExpressionFailure as failure:
        raise _Lost(part, f"gives no object of {version}: {failure.problem}", failure.place) from failure
    causes = [] if known.schema is None else validate(known.schema, found)
    if causes:
        raise _Lost(part, f"gives no valid object of {version}: {causes[0].field}: {causes[0].message}")
    return found


def _example(crd: CrdVersions, known: KnownKind, random: Random, number: int) -> Manifest | None:
    """An object as it is stored, None where its rules refuse what is drawn."""
    kind, meta = known.kind, _stored_metadata(number)
    metadata = {**meta, "namespace": "team"} if kind.namespaced else meta
    if known.schema is None:
        return None
    try:
        drawn = Examples(known.schema, Seeded(random)).object_of(kind, metadata)
    except NoExample:
        return None
    example: Manifest = apply_defaults(known.schema, drawn)
    return example


def _stored_metadata(number: int) -> dict[str, Any]:
    stored = {"uid": f"00000000-0000-4000-8000-{number:012d}", "creationTimestamp": "2026-01-31T12:00:00Z"}
    return {"name": f"example-{number}", "generation": 1, "resourceVersion": "1", **stored}


def _difference(before: Any, after: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first place where two values differ, with what stands there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            one, other = before.get(key, _NOTHING), after.get(key, _NOTHING)
            if one is _NOTHING or other is _NOTHING or not same_json(one, other):
                return _difference(one, other, join(path, key) if path else key)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if not same_json(one, other):
                return _difference(one, other, index(path, at))
    return path, before, after


def _shown(value: Any) -> str:
    text = "nothing" if value is _NOTHING else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
