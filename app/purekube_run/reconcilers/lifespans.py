"""The lifespans of controllers in Python: code that runs at the start and at the end of the process (PH-7).

Each runs in a task of its own, so that a cancelled process still completes the cleanup, within a time limit.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import structlog
from anyio.abc import TaskStatus

from purekube.reconcilers.controllers import AnyController, Controller, Feature, features_of, name_of, overrides
from purekube.reconcilers.outcome import failure_text, raised
from purekube_run.process.command_line import CommandError
from purekube_run.reconcilers.user_calls import LEFT_ALONE

_log = structlog.get_logger("operator")


@asynccontextmanager
async def open_lifespans(controllers: Iterable[AnyController]) -> AsyncIterator[None]:
    """Run the block of `async with` within the lifespans of the controllers.

    A lifespan is code of a controller for the start and the end of the process. The lifespans are opened before the
    block, and closed in reverse order after it. Raises CommandError, which names the controller, if a lifespan cannot
    be opened or ends before the block. Errors of the cleanup are logged.
    """
    async with AsyncExitStack() as stack:
        for controller in controllers:
            if overrides(controller, Controller.lifespan):
                await stack.enter_async_context(_open(controller))
        yield


@asynccontextmanager
async def _open(controller: AnyController) -> AsyncIterator[None]:
    over = anyio.Event()
    async with anyio.create_task_group() as group:
        await group.start(_live, controller, over)
        try:
            yield
        finally:
            over.set()


async def _live(controller: AnyController, over: anyio.Event, *, task_status: TaskStatus[None]) -> None:
    limit = controller.timeout if Feature.LIMIT in features_of(controller) else None
    scope = anyio.CancelScope()
    try:
        with anyio.fail_after(limit) as scope:
            async with controller.lifespan():
                scope.shield, scope.deadline = True, float("inf")
                task_status.started()
                await over.wait()
                scope.deadline = anyio.current_time() + LEFT_ALONE
    except Exception as error:
        _log.error("the lifespan failed", controller=name_of(controller), exc_info=error)
        if not over.is_set():
            what = "lifespan" if scope.shield else "start"
            how = (
                f"took longer than {limit:g} s" if scope.cancelled_caught else f"failed: {failure_text(raised(error))}"
            )
            raise CommandError(f"controller {name_of(controller)}: its {what} {how}") from error
