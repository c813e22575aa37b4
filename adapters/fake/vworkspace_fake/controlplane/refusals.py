"""The refusals of requests by the embedded control plane: exceptions that are the same in process and over HTTP."""

from collections.abc import Mapping
from typing import Final

_ERRORS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    413: "PayloadTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
}


class ApiRefusal(Exception):
    """The refusal of a request. `status` is the HTTP status of the answer.

    `retry_after` is in seconds; `body` and `content_type` replace those of the usual error answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.body = body
        self.content_type = content_type


class Dropped(Exception):
    """The exception for a request whose connection ends without an answer. The request may have had its effect."""


def error_body(status: int, message: str, request_id: str) -> dict[str, str]:
    """Return the JSON body of an answer that is not a success (PULL-6): a code, `message` and `request_id`.

    The code is a word for `status`, such as `BadRequest`. The id identifies the request, so that one can search for it.
    """
    fallback = "InternalError" if status >= 500 else "BadRequest"
    return {"error": _ERRORS.get(status, fallback), "message": message, "requestId": request_id}
