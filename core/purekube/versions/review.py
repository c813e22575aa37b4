"""The answer to a ConversionReview v1, from decoded JSON to decoded JSON, without HTTP (PH-8)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.secret_material import shown
from purekube.versions.converter import ConversionFailed, Converter

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"
_LONGEST_MESSAGE: Final = 4096


class MalformedConversionReview(ValueError):
    """The error raised when a body is not a ConversionReview v1 request. The message has the reason."""


@attrs.frozen
class ConversionRequest:
    """The objects of a ConversionReview, and the apiVersion to which the API server wants to convert them."""

    uid: str
    api_version: str
    objects: Sequence[Any] = attrs.field(repr=False)


def read_conversion_review(body: Any) -> ConversionRequest:
    """Return the request in a ConversionReview. Raises MalformedConversionReview if `body` has no valid request."""
    if not isinstance(body, Mapping):
        raise MalformedConversionReview("the body is no JSON object")
    if (body.get("apiVersion"), body.get("kind")) != (API_VERSION, KIND):
        raise MalformedConversionReview(f"the body is no {API_VERSION} {KIND}")
    request = body.get("request")
    if not isinstance(request, Mapping):
        raise MalformedConversionReview("request: is required")
    uid, desired, objects = (request.get(key) for key in ("uid", "desiredAPIVersion", "objects"))
    for name, text in (("uid", uid), ("desiredAPIVersion", desired)):
        if not isinstance(text, str) or not text:
            raise MalformedConversionReview(f"request.{name}: is required")
    if not isinstance(objects, list | tuple):
        raise MalformedConversionReview("request.objects: must be a list")
    return ConversionRequest(str(uid), str(desired), objects)


def converted_object(manifest: Any, api_version: str, converters: Iterable[Converter]) -> dict[str, Any]:
    """Convert one object of a ConversionReview to `api_version` by the converter of its kind.

    Raises ConversionFailed if none of `converters` is for the object's kind, or if the conversion fails.
    """
    if not isinstance(manifest, Mapping):
        raise ConversionFailed({}, api_version, "is no JSON object")
    group, _, version = api_version.rpartition("/")
    for converter in converters:
        if (converter.group, converter.kind) == (group, manifest.get("kind")):
            return converter.convert(manifest, version)
    raise ConversionFailed(manifest, api_version, "nothing here converts this kind")


def converted_all(request: ConversionRequest, objects: Sequence[Manifest]) -> dict[str, Any]:
    """Return the ConversionReview that answers `request` with success.

    `objects` are the converted objects, in the order of the request.
    """
    return _answer(request, {"status": "Success"}, list(objects))


def conversion_failed(request: ConversionRequest, error: ConversionFailed) -> dict[str, Any]:
    """Return the ConversionReview that reports a failed conversion. The whole review fails; the message names the
    object.
    """
    return _answer(request, {"status": "Failure", "message": shown(str(error))[:_LONGEST_MESSAGE]}, [])


def answer_review(body: Any, converters: Iterable[Converter]) -> dict[str, Any]:
    """Return the ConversionReview that answers `body`: all objects converted, or a failure if one cannot be converted.

    Raises MalformedConversionReview if `body` has no valid request.
    """
    request, known = read_conversion_review(body), tuple(converters)
    try:
        objects = [converted_object(manifest, request.api_version, known) for manifest in request.objects]
    except ConversionFailed as error:
        return conversion_failed(request, error)
    return converted_all(request, objects)


def _answer(request: ConversionRequest, result: Mapping[str, str], objects: Sequence[Manifest]) -> dict[str, Any]:
    response = {"uid": request.uid, "result": dict(result), "convertedObjects": list(objects)}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
