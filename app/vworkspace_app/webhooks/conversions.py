"""The answers to ConversionReviews: objects of users' kinds, converted between the versions of a kind (PH-8)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from starlette.responses import PlainTextResponse, Response

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import canonical_json, get_path
from purekube.apimachinery.nesting import UNREADABLE, decode_answer, too_deep
from purekube.versions import (
    ConversionFailed,
    ConversionRequest,
    Converter,
    MalformedConversionReview,
    conversion_failed,
    converted_all,
    converted_object,
    read_conversion_review,
)
from vworkspace_app.webhooks.intake import Rest
from vworkspace_app.webhooks.kinds import ServedKinds

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


async def answered(body: bytes, kinds: ServedKinds, rest: Rest) -> bytes:
    """Return the response to a ConversionReview.

    `kinds` has the converters. `rest` is awaited after each object, so that other tasks can run. Raises
    MalformedConversionReview and msgspec.DecodeError for a malformed body.
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


async def conversion_response(body: bytes, rest: Rest, *, kinds: ServedKinds) -> Response:
    """Return the HTTP response to a ConversionReview: 400 for a malformed one.

    `kinds` has the converters, and `rest` is awaited after each object.
    """
    try:
        return Response(await answered(body, kinds, rest), media_type="application/json")
    except (MalformedConversionReview, msgspec.DecodeError, UnicodeDecodeError) as error:
        return PlainTextResponse(f"{error}\n", 400)
