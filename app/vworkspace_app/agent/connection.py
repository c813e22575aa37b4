"""The one view of the control plane that all lanes share: is it there, does it take the credential (PULL-5, PULL-7)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from vworkspace_core.agent.link import Connectivity, Link
from vworkspace_core.errors import Invalid, NotFound, OperatorError, Unauthorized, Unavailable
from vworkspace_core.ports import Clock

__all__ = ["Connection"]

T = TypeVar("T")
log = structlog.get_logger("vworkspace.agent")


class Connection:
    """Owner of the Link. Logs each change of it once, however many tries it takes.

    `reread` reads the credential again and tells whether it changed; it is asked once per rejection.
    """

    def __init__(self, clock: Clock, reread: Callable[[], Awaitable[bool]] | None = None) -> None:
        self._clock = clock
        self._reread = reread
        self._reread_done = False
        self.link = Link()
        self.on_recovery: Callable[[], None] = lambda: None

    async def call(self, request: Callable[[], Awaitable[T]]) -> T:
        """Perform `request`, with one more try after a rejected credential turned out to be an old one.

        Raises what the request raises, and Unavailable for an error that no port should raise.
        """
        try:
            return await self._once(request)
        except Unauthorized:
            if not await self._has_new_credential():
                raise
        return await self._once(request)

    async def _once(self, request: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await request()
        except (NotFound, Invalid):
            self._see(self.link.succeeded(self._clock.now()))
            raise
        except OperatorError as error:
            self._see(self.link.failed(error, self._clock.now()))
            raise
        except Exception as error:
            # A defect of an adapter must not stop the loop; with its traceback it can be mended.
            log.exception("the control plane adapter failed")
            raise Unavailable(f"unexpected {type(error).__name__}") from error
        self._see(self.link.succeeded(self._clock.now()))
        self._reread_done = False
        return answer

    async def _has_new_credential(self) -> bool:
        if self._reread is None or self._reread_done:
            return False
        self._reread_done = True
        return await self._reread()

    def _see(self, link: Link) -> None:
        before, self.link = self.link, link
        if before.state is link.state:
            return
        match link.state:
            case Connectivity.CONNECTED:
                log.info("connected to the control plane")
                self.on_recovery()
            case Connectivity.UNREACHABLE:
                log.warning("the control plane is unreachable; trying again with backoff", error=link.error)
            case Connectivity.REJECTED:
                log.error("the control plane rejects the credential; trying again slowly", error=link.error)
            case Connectivity.UNKNOWN:
                pass
