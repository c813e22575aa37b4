"""How the embedded control plane says no: one exception, the same in process and over HTTP."""

__all__ = ["Dropped", "Refusal"]


class Refusal(Exception):
    """An answer that is no success. `retry_after` is in seconds; `body` and `content_type` replace the usual ones."""

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
    """No answer at all: the connection ends, whatever the request did."""
