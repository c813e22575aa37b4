"""Tests of conversions between versions of a CRD: a round trip to another version and back must lose nothing (PH-6).

The objects to convert are generated from the schemas with a fixed seed, so that each run gives the same result.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import Place, index
from purekube.boxes.box import Box
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.read import BoxProblem
from purekube.boxes.schemas import CrdVersions, KnownKind
from purekube.boxes.webhooks.kind_webhooks import converter_of
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import review_problem
from purekube.schema import apply_defaults
from purekube.versions import BrokenRoundTrip, Converter, check_round_trips
from purekube_run.examples.data_source import Seeded
from purekube_run.examples.examples import Examples, NoExample
from purekube_run.process.command_line import CommandError

EACH_WAY: Final = 100
"""The number of round trips that begin in each of the two versions."""
AT_START: Final = 60
"""The number of round trips per version that test a kind defined by attrs classes, when its controllers are loaded."""


@attrs.frozen
class RoundTrips:
    """The result of testing the conversion between `version` and the storage version.

    A round trip converts an object to the other version and back. `held` is the number of round trips that lost
    nothing. `problem` is the first failure, or None if there was none.
    """

    version: str
    storage: str
    held: int
    problem: BoxProblem | None = None

    def __str__(self) -> str:
        return f"conversion {self.version} <-> {self.storage}: {self.held} round trips hold"


def round_trips(box: Box, crd: CrdVersions, place: Callable[[str], Place]) -> Iterator[RoundTrips]:
    """Test the conversions of a box, and yield one result for each version that is converted to the storage version.

    `crd` is the CRD of the box's kind. `place` returns the file and line of a field path in the box.
    """
    converter = converter_of(box, crd)
    for at, version in enumerate(box.versions):
        if converter is not None and not version.is_storage:
            yield _tried(converter, version.name, crd, index("spec.versions", at), place)


def check_kinds(kinds: Iterable[Resource[Any, Any]]) -> tuple[Converter, ...]:
    """Test the conversion, validation and defaulting functions of kinds that are defined as Python classes.

    Return the converters of the kinds that have several versions. Converters are tested by round trips to another
    version and back, the other functions by calls with generated objects. Raises CommandError if a round trip fails or
    changes an object, if a function raises, if the schema refuses the defaulted object, or if defaulting it again
    changes it.
    """
    converters = []
    for kind in kinds:
        _check_reviews(kind)
        if kind.converter is None:
            continue
        crd = CrdVersions.of(kind.crd())
        for version in kind.converter.spokes:
            try:
                check_round_trips(kind.converter, version, islice(examples_of(crd, version), AT_START))
            except BrokenRoundTrip as broken:
                raise CommandError(f"{kind.kind.kind} of {kind.kind.group}: {broken}") from broken
        converters.append(kind.converter)
    return tuple(converters)


def _check_reviews(kind: Resource[Any, Any]) -> None:
    if not (kind.reviews.validate or kind.reviews.default):
        return
    for example in islice(examples_of(CrdVersions.of(kind.crd()), kind.kind.version), AT_START):
        if problem := review_problem(kind, example):
            raise CommandError(f"{kind.kind.kind} of {kind.kind.group}: {problem}")


def _tried(
    converter: Converter, version: str, crd: CrdVersions, path: str, place: Callable[[str], Place]
) -> RoundTrips:
    held = 0
    try:
        for example in examples_of(crd, version):
            held += check_round_trips(converter, version, [example])
    except BrokenRoundTrip as broken:
        return RoundTrips(version, crd.storage, held, _problem(broken, place(f"{path}.{broken.part}")))
    if not held:
        message = f"no example of {version} or {crd.storage} could be drawn that its rules admit: nothing was tried"
        return RoundTrips(version, crd.storage, 0, BoxProblem(place(path), message))
    return RoundTrips(version, crd.storage, held)


def _problem(broken: BrokenRoundTrip, place: Place) -> BoxProblem:
    """Return the failure of a round trip as a problem of the box.

    Its place is the expression that failed, or `place` if no expression did.
    """
    failed = None if broken.__cause__ is None else broken.__cause__.__cause__
    if isinstance(failed, ExpressionFailure):
        return BoxProblem(failed.place, broken.message.replace(str(failed), failed.problem))
    return BoxProblem(place, broken.message)


def examples_of(crd: CrdVersions, version: str) -> Iterator[Manifest]:
    """Yield generated objects of the CRD's kind, alternately in `version` and in the storage version.

    Their values are random, but every call yields equal objects.
    """
    random = Random(0)
    for number in range(EACH_WAY):
        for known in (crd.kinds[version], crd.stored):
            example = _example(crd, known, random, number)
            if example is not None:
                yield example


def _example(crd: CrdVersions, known: KnownKind, random: Random, number: int) -> Manifest | None:
    """Return an example object in the version `known`, with the metadata of a stored object.

    Return None if the schema is missing or refuses every example.
    """
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
