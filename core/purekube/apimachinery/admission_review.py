"""Functions that read an AdmissionReview v1 and build its answer (RUN-6), on decoded JSON and without HTTP."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, canonical_json, get_path
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem
from purekube.apimachinery.secret_material import shown

_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_LONGEST_MESSAGE: Final = 4096
_LONGEST_WARNING: Final = 256
"""The length beyond which kube-apiserver may truncate a warning."""


class AdmissionOperation(StrEnum):
    """The kind of a write that the API server submits for admission. `CONNECT` is a connection to a subresource, such
    as `exec`.
    """

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class MalformedReview(ValueError):
    """The error for a body that is not an AdmissionReview v1 with a valid request. The message has the reason."""


@attrs.frozen
class AdmissionRequest:
    """One write that the API server submits for admission.

    `object` is None for a DELETE, `old_object` for a CREATE. `name` is empty if the server has yet to generate it.
    `subresource` is empty for a write to the object itself.
    """

    uid: str
    operation: AdmissionOperation
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user: str = ""
    object: Manifest | None = attrs.field(default=None, repr=False)
    old_object: Manifest | None = attrs.field(default=None, repr=False)

    @property
    def written(self) -> Manifest | None:
        """The object that is created or updated; None for a deletion and for a write of a subresource."""
        is_write = self.operation in (AdmissionOperation.CREATE, AdmissionOperation.UPDATE)
        return self.object if is_write and not self.subresource else None


def read_review(body: Any) -> AdmissionRequest:
    """Return the request of the AdmissionReview in `body`. Raises MalformedReview if `body` is not a valid v1
    request.
    """
    if not isinstance(body, Mapping):
        raise MalformedReview("the body is no JSON object")
    if (body.get("apiVersion"), body.get("kind")) != (_API_VERSION, _KIND):
        raise MalformedReview(f"the body is no {_API_VERSION} {_KIND}")
    request = body.get("request")
    if not isinstance(request, Mapping):
        raise MalformedReview("request: is required")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReview("request.uid: is required")
    return AdmissionRequest(
        uid=uid,
        operation=_operation(request.get("operation")),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        subresource=_text(request, "subResource"),
        user=str(get_path(request, "userInfo", "username") or ""),
        object=_manifest(request, "object"),
        old_object=_manifest(request, "oldObject"),
    )


def _operation(value: Any) -> AdmissionOperation:
    try:
        return AdmissionOperation(value)
    except ValueError:
        raise MalformedReview(f"request.operation: must be one of {', '.join(AdmissionOperation)}") from None


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReview(f"request.{name}: must be a string")
    return value


def _manifest(request: Mapping[str, Any], name: str) -> Manifest | None:
    value = request.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise MalformedReview(f"request.{name}: must be an object")
    return value


def allowed(request: AdmissionRequest, warnings: Sequence[Problem] = ()) -> dict[str, Any]:
    """Return the AdmissionReview that admits the write of `request` unchanged.

    Clients show the first `MOST_PROBLEMS` of `warnings` to their users, with secrets redacted (RES-7).
    """
    told = {"warnings": [shown(str(each))[:_LONGEST_WARNING] for each in warnings[:MOST_PROBLEMS]]} if warnings else {}
    return _answer({"uid": request.uid, "allowed": True, **told})


def patched(request: AdmissionRequest, patch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the AdmissionReview that admits the write with a JSON patch (RFC 6902). An empty patch changes nothing."""
    if not patch:
        return allowed(request)
    # The field is bytes, which Go writes as base64 (admission v1: AdmissionResponse.Patch).
    encoded = b64encode(canonical_json(list(patch))).decode()
    return _answer({"uid": request.uid, "allowed": True, "patchType": "JSONPatch", "patch": encoded})


def refused(request: AdmissionRequest, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the AdmissionReview that refuses the write with status 422 Invalid and names its problems.

    The API server itself refuses a schema violation in this form. The message is for people and the causes are for
    programs. Both are redacted (RES-7) and name the first `MOST_PROBLEMS` problems at most; the message is cut if it is
    long.
    """
    listed = [Problem(shown(problem.path), shown(problem.message)) for problem in problems[:MOST_PROBLEMS]]
    causes = [{"reason": "FieldValueInvalid", "message": problem.message, "field": problem.path} for problem in listed]
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "; ".join(map(str, listed))[:_LONGEST_MESSAGE],
        "details": {"causes": causes},
    }
    return _answer({"uid": request.uid, "allowed": False, "status": status})


def _answer(response: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": dict(response)}
