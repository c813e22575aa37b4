"""The long poll: an agent's request that waits until there is a job for its cluster, or the poll's time is over.

It also ends when a job is offered again. asyncio is imported only when a poll has to wait, so that the server itself
works without any loop.
"""

from collections.abc import Callable
from typing import Any

from vworkspace_fake.controlplane.server import ControlPlaneServer


class LongPolls:
    """The long polls that wait for a job on one control plane. `close` ends all of them with an empty answer."""

    def __init__(self, server: ControlPlaneServer) -> None:
        self._server = server
        self.closed = False

    def close(self) -> None:
        """End every poll now. New polls do not wait."""
        self.closed = True
        self._server.wake()

    async def jobs(self, look: Callable[[], list[Any]], cluster_id: str, wait_seconds: float) -> list[Any]:
        """Return the jobs that `look` finds for the cluster, after waiting at most `wait_seconds` for a job.

        `look` is called again whenever there may be a new job. The list is empty if there was none in time. Without a
        running event loop the poll does not wait.
        """
        jobs = look()
        if jobs or wait_seconds <= 0 or self.closed:
            return jobs
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return jobs
        return await self._wait(loop, look, cluster_id, loop.time() + wait_seconds)

    async def _wait(self, loop: Any, look: Callable[[], list[Any]], cluster_id: str, until: float) -> list[Any]:
        import asyncio

        news = asyncio.Event()
        stop = self._server.subscribe(lambda: loop.call_soon_threadsafe(news.set))
        try:
            while not self.closed and (left := until - loop.time()) > 0:
                redelivery = self._server.seconds_to_offer(cluster_id)
                pause = left if redelivery is None else min(left, redelivery + 0.001)
                alarm = loop.call_later(pause, news.set)
                try:
                    await news.wait()
                finally:
                    alarm.cancel()
                news.clear()
                if jobs := look():
                    return jobs
            return []
        finally:
            stop()
