"""ConversionReviews as bytes from the wire, hostile ones too (PH-8, RUN-11)."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from purekube.apimachinery.admission_review import AdmissionRequest
from purekube.apimachinery.errors import Unavailable
from purekube.versions import Converter, MalformedConversionReview
from tests.support.second_version import converter
from vworkspace_app.webhooks.conversions import answered
from vworkspace_app.webhooks.kinds import ServedKinds

CONVERTERS = (converter(),)
RESTS: list[int] = []


def instance(name: str = "a", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team"}
    return {"apiVersion": "apps.vworkspace.io/v1alpha2", "kind": "ApplicationInstance", "metadata": meta, "spec": spec}


def asked(*objects: Any, raw: bytes | None = None, **request: Any) -> bytes:
    given = {"uid": "u", "desiredAPIVersion": "apps.vworkspace.io/v1alpha1", "objects": list(objects), **request}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": given}
    body = json.dumps(review).encode()
    return body if raw is None else body.replace(b'"OBJECT"', raw)


def response_to(body: bytes) -> Any:
    RESTS.clear()

    async def rest() -> None:
        RESTS.append(1)

    return json.loads(anyio.run(answered, body, ServedKinds(CONVERTERS), rest))["response"]


def test_a_conversion_review_is_answered_with_a_rest_after_each_object() -> None:
    response = response_to(asked(instance("a", paused=True), instance("b", host="h")))
    assert response["result"] == {"status": "Success"}
    assert [converted_obj["metadata"]["name"] for converted_obj in response["convertedObjects"]] == ["a", "b"]
    assert response["convertedObjects"][0]["spec"]["suspend"] is True
    assert len(RESTS) == 2


def test_a_conversion_of_what_is_nested_too_deeply_fails_and_is_no_crash() -> None:
    """What was cut out of it would be lost for ever."""
    levels = 50_000
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    head = b'{"apiVersion":"apps.vworkspace.io/v1alpha2","kind":"ApplicationInstance","metadata":{"name":"deep"},'
    response = response_to(asked("OBJECT", raw=head + b'"spec":{"values":' + deep + b"}}"))
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failure"
    assert response["result"]["message"].endswith("is nested too deeply to be converted")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "is no apiextensions.k8s.io/v1 ConversionReview"),
        (asked(uid=""), "request.uid: is required"),
        (asked(desiredAPIVersion=""), "request.desiredAPIVersion: is required"),
        (asked(objects=None), "Expected `array`"),
        (b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}', "request: is required"),
        (b"\xff", "UTF-8|malformed"),
    ],
)
def test_what_is_no_conversion_review_is_told(body: bytes, told: str) -> None:
    with pytest.raises((MalformedConversionReview, msgspec.DecodeError, UnicodeDecodeError), match=told):
        response_to(body)


@pytest.mark.parametrize("given", [3, None, [], "x", {}, {"kind": "ApplicationInstance"}])
def test_an_object_that_cannot_be_converted_fails_the_conversion_review_by_name(given: Any) -> None:
    response = response_to(asked(instance("good"), given))
    assert (response["result"]["status"], response["convertedObjects"]) == ("Failure", [])
    assert response["result"]["message"]


def test_boxes_that_cannot_be_read_fail_the_review_with_the_reason_PH_10() -> None:
    async def unreadable(group: str) -> Sequence[Converter]:
        raise Unavailable(f"{group}: the API server has gone away")

    async def judged(request: AdmissionRequest) -> dict[str, Any]:
        raise AssertionError(request)

    async def rest() -> None:
        return None

    kinds = ServedKinds(CONVERTERS).with_applied_boxes(judged, unreadable)
    response = json.loads(anyio.run(answered, asked(instance()), kinds, rest))["response"]
    assert response["result"]["status"] == "Failure"
    assert "the boxes cannot be read: apps.vworkspace.io: the API server has gone away" in response["result"]["message"]
