"""The two ends of a watch that a port may get wrong: what it raises, and letting it go."""

from collections.abc import AsyncGenerator, AsyncIterator

import anyio

from vworkspace_core.apimachinery.errors import OperatorError, Permanent
from vworkspace_core.ports import WatchEvent

_CLOSE_LIMIT = 5.0


def as_operator_error(error: Exception) -> OperatorError:
    """A port may raise only our errors; anything else is a defect, which is survived. Whoever asks logs it."""
    if isinstance(error, OperatorError):
        return error
    defect = Permanent(f"{type(error).__name__} from the KubeApi port")
    defect.__cause__ = error
    return defect


async def close(stream: AsyncIterator[WatchEvent]) -> None:
    """Give the connection back even while being cancelled."""
    if isinstance(stream, AsyncGenerator):
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):
            await stream.aclose()
