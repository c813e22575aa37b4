"""The operator's process as a story handles it: begun, cut off in the middle of a call, and begun anew."""

from collections.abc import Awaitable, Callable

import anyio
import attrs
from anyio.abc import TaskGroup

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send
from tests.support.patience import PATIENCE
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.manager import Manager
from vworkspace_core.credentials.secret import Credentials


@attrs.define
class Lever:
    """What a story does to the operator's process; the face knows how."""

    credentials: Live[Credentials] = attrs.field(factory=lambda: Live(Credentials()))
    hang_after_create: Kind | None = None
    """The operator never hears that it created an object of that kind."""
    hung: bool = False
    delay: Callable[[], float] | None = None
    """Seconds that a call takes on its way, and as many on its way back."""
    breaks: Callable[[], bool] | None = None
    """Whether a call is lost on its way, or its answer on the way back."""
    begin_anew: Callable[[], Awaitable[None]] | None = None

    async def restart(self) -> None:
        """Kill the operator wherever it is, and start another one."""
        assert self.begin_anew is not None, "the operator is not running yet"
        self.hang_after_create = None
        await self.begin_anew()


class Forgetful(KubeApi):
    """A `KubeApi` whose answers come late (`Lever.delay`), or not at all (`breaks`, `hang_after_create`)."""

    def __init__(self, api: KubeApi, lever: Lever) -> None:
        super().__init__(api.through(self._delayed).transport)
        self._lever = lever

    async def _delayed(self, request: KubeRequest, proceed: Send) -> Manifest:
        await self._pause()
        answer = await proceed(request)
        if request.verb is KubeVerb.CREATE and request.kind == self._lever.hang_after_create:
            self._lever.hung = True
            await anyio.sleep_forever()
        await self._pause()
        return answer

    async def _pause(self) -> None:
        if self._lever.delay is not None:
            await anyio.sleep(self._lever.delay())
        if self._lever.breaks is not None and self._lever.breaks():
            raise Unavailable("the connection broke")


@attrs.define
class Runs:
    """One process after the other, each made by `make`, in `group`."""

    group: TaskGroup
    make: Callable[[], Manager]
    _scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    _ended: anyio.Event = attrs.field(factory=anyio.Event)

    async def start(self) -> None:
        """Begin; returns when it is ready."""
        manager = self.make()
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self.group.start_soon(self._run, manager)
        with anyio.fail_after(PATIENCE):
            await manager.ready.wait()

    async def _run(self, manager: Manager) -> None:
        try:
            with self._scope:
                await manager.run()
        finally:
            self._ended.set()

    async def begin_anew(self) -> None:
        """End the one that runs, at once, and begin the next."""
        self._scope.cancel()
        await self._ended.wait()
        await self.start()
