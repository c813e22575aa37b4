"""Defence against a faulty port: exceptions it may not raise, and streams that must be closed."""

from collections.abc import AsyncGenerator, AsyncIterator

import anyio

from purekube.apimachinery.errors import OperatorError, Permanent
from purekube.ports import WatchEvent

_CLOSE_LIMIT = 5.0
"""The seconds after which a stream that does not close is left alone."""


def as_operator_error(error: Exception) -> OperatorError:
    """Return an error of the core as it is; wrap any other exception, a defect, in Permanent for the caller to log."""
    if isinstance(error, OperatorError):
        return error
    defect = Permanent(f"{type(error).__name__} from the KubeApi port")
    defect.__cause__ = error
    return defect


async def close(stream: AsyncIterator[WatchEvent]) -> None:
    """Close the stream and its connection, even during a cancellation."""
    if isinstance(stream, AsyncGenerator):
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):
            await stream.aclose()
