"""The webhooks for users' kinds: rules and defaults of boxes, and conversions of any kind (PH-8)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.admission_review import AdmissionRequest, allowed, patched, refused
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import canonical_json, get_path
from purekube.apimachinery.nesting import UNREADABLE, decode_answer, too_deep
from purekube.boxes.box import Box
from purekube.boxes.conversion_webhook import APPLIED_BOX_PATH
from purekube.boxes.kind_webhooks import BoxAdmission, converter_of
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import Reviewer, reviewers
from purekube.versions import (
    ConversionFailed,
    ConversionRequest,
    Converter,
    conversion_failed,
    converted_all,
    converted_object,
    read_conversion_review,
)
from vworkspace_core.webhook.paths import default_path, kind_review_path, validate_path

Judge = Callable[[AdmissionRequest], Awaitable[dict[str, Any]]]
"""A function that returns the answer to an admission review."""
FindConverters = Callable[[str], Awaitable[Sequence[Converter]]]
"""A function that returns the converters of the kinds in an API group. Raises OperatorErrors."""


@attrs.frozen(eq=False)
class ServedKinds:
    """The webhooks for users' kinds, which boxes and attrs classes define.

    These are converters between versions, and functions that judge reviews, by URL path. `find_converters` finds
    converters that come and go while the process runs.
    """

    converters: tuple[Converter, ...] = ()
    judges: Mapping[str, Judge] = attrs.field(factory=dict)
    find_converters: FindConverters | None = None

    @classmethod
    def of(cls, boxes: Iterable[Box], resources: Sequence[Resource[Any, Any]] = ()) -> "ServedKinds":
        """Return the webhooks of boxes, and of kinds that are defined by attrs classes."""
        found = tuple(boxes)
        converters = (*(each.converter for each in resources), *(converter_of(box) for box in found))
        judges = {path: judge for box in found for path, judge in _judges(BoxAdmission.of(box))}
        judges |= {path: judge for each in resources for path, judge in _reviews(each)}
        return cls(tuple(converter for converter in converters if converter is not None), judges)

    def with_applied_boxes(self, review: Judge, find_converters: FindConverters) -> "ServedKinds":
        """Return these webhooks with those of applied boxes: `review` judges OperatorBoxes, and `find_converters` finds
        the converters of their kinds.
        """
        judges = {**self.judges, APPLIED_BOX_PATH: review}
        return attrs.evolve(self, judges=judges, find_converters=find_converters)

    @property
    def converts(self) -> bool:
        """Report whether conversions are served."""
        return bool(self.converters) or self.find_converters is not None

    def __bool__(self) -> bool:
        return self.converts or bool(self.judges)

    async def converters_to(self, api_version: str) -> Sequence[Converter]:
        """Return the converters that may convert to this API version. Raises OperatorErrors."""
        found = () if self.find_converters is None else await self.find_converters(api_version.partition("/")[0])
        return (*self.converters, *found)


NO_KINDS: Final = ServedKinds()
"""The value for a server that has only the operator's own webhooks."""


def _judges(admission: BoxAdmission) -> Iterator[tuple[str, Judge]]:
    if admission.rules:
        yield validate_path(admission.name), partial(_validated, admission)
    if admission.mutations:
        yield default_path(admission.name), partial(_filled, admission)


def _reviews(kind: Resource[Any, Any]) -> Iterator[tuple[str, Judge]]:
    for reviewer in reviewers(kind):
        yield kind_review_path(kind.kind.crd_name, mutates=reviewer.mutates), partial(_reviewed, reviewer)


async def _reviewed(reviewer: Reviewer, request: AdmissionRequest) -> dict[str, Any]:
    return reviewer.answer(request)


async def _validated(admission: BoxAdmission, request: AdmissionRequest) -> dict[str, Any]:
    if request.written is None:
        return allowed(request)
    problems = admission.problems(request.written, request.old_object)
    return refused(request, problems) if problems else allowed(request)


async def _filled(admission: BoxAdmission, request: AdmissionRequest) -> dict[str, Any]:
    if request.written is None:
        return allowed(request)
    patch, problems = admission.patch(request.written)
    return refused(request, problems) if problems else patched(request, patch)


_TOO_DEEP: Final = {"kind": "one of the objects", UNREADABLE: [""]}


class _Request(msgspec.Struct):
    """The fields of a ConversionReview's request. Its objects are decoded one by one later."""

    uid: str = ""
    desiredAPIVersion: str = ""
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


async def answered(body: bytes, kinds: ServedKinds, rest: Callable[[], Awaitable[None]]) -> bytes:
    """Return the response to a ConversionReview.

    `rest` is awaited after each object, so that other tasks can run. Raises MalformedConversionReview and
    msgspec.DecodeError for a malformed body.
    """
    request = _read(body)
    converted: list[Any] = []
    try:
        converters = await _converters(request, kinds)
        for raw in request.objects:
            manifest = decode_answer(bytes(raw)) if isinstance(raw, msgspec.Raw) else raw
            if too_deep(manifest):
                raise ConversionFailed(manifest, request.api_version, "is nested too deeply to be converted")
            converted.append(converted_object(manifest, request.api_version, converters))
            await rest()
    except ConversionFailed as error:
        return canonical_json(conversion_failed(request, error))
    return canonical_json(converted_all(request, converted))


async def _converters(request: ConversionRequest, kinds: ServedKinds) -> Sequence[Converter]:
    try:
        return await kinds.converters_to(request.api_version)
    except OperatorError as error:
        raise ConversionFailed({}, request.api_version, f"the boxes cannot be read: {error.message}") from error


def _read(body: bytes) -> ConversionRequest:
    try:
        review = _decode(body)
    except RecursionError:
        # The object cannot be identified: whatever is nested deeper than the decoder can go is cut out of the whole
        # body.
        found = decode_answer(body)
        head = get_path(found, "request")
        given = {**found, "request": {**head, "objects": []}} if isinstance(head, Mapping) else found
        return attrs.evolve(read_conversion_review(given), objects=[_TOO_DEEP])
    if review.request is None:
        return read_conversion_review(msgspec.structs.asdict(review))
    objects, head = review.request.objects, msgspec.structs.asdict(review.request)
    request = read_conversion_review({**msgspec.structs.asdict(review), "request": {**head, "objects": []}})
    return attrs.evolve(request, objects=objects)
