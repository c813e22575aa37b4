"""The endpoints `/metrics`, `/healthz` and `/readyz` (RUN-5).

A thread with its own event loop serves them, so that they can report a blocked event loop of the operator.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from purekube.controller.health import HealthReport, healthy, ready
from purekube_run.process.command_line import cannot_listen, parse_address
from purekube_run.process.http import ConnectionLimits, bind, serve, url_of
from vworkspace_app.observability.metrics import Metrics
from vworkspace_app.observability.stats import LatestStats

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""The paths that the kubelet probes."""

_OPENMETRICS: Final = "application/openmetrics-text"
_EXPOSED_SECONDS: Final = 0.25
"""The seconds for which rendered metrics are served again, since any client may request them often (RUN-11)."""

_log = structlog.get_logger("operator")


def application(
    latest: LatestStats, metrics: Metrics, now: Callable[[], float], further: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the ASGI application that serves metrics and probes from the statistics in `latest`.

    The routes in `further` are added after its own. `now` returns the present time of the monotonic clock that the
    statistics use.
    """

    def judged(judge: Callable[..., HealthReport]) -> Callable[[Request], PlainTextResponse]:
        def answer(_: Request) -> PlainTextResponse:
            current = latest.current
            report = judge(current.vitals, max(0.0, now() - current.taken_at))
            return PlainTextResponse(report.text(), 200 if report.ok else 503, headers={"cache-control": "no-store"})

        return answer

    exposed: dict[str, tuple[float, Response]] = {}

    async def exposition(request: Request) -> Response:
        asked = _OPENMETRICS if _OPENMETRICS in request.headers.get("accept", "") else ""
        at, response = exposed.get(asked, (float("-inf"), Response()))
        if now() - at >= _EXPOSED_SECONDS:
            body, media_type = metrics.exposition(asked)
            response = Response(body, headers={"content-type": media_type})
            exposed[asked] = now(), response
        return response

    return Starlette(
        routes=[
            Route("/healthz", judged(healthy)),
            Route("/readyz", judged(ready)),
            Route("/metrics", exposition),
            *further,
        ]
    )


@contextmanager
def serving_in_thread(app: Starlette, listen: str, *, limits: ConnectionLimits | None = None) -> Iterator[str]:
    """Serve `app` in a thread while the block runs, and yield its URL.

    `listen` is the address as HOST:PORT; `limits` restricts the number and duration of connections. Raises CommandError
    if the address cannot be bound.
    """
    host, port = parse_address(listen)
    try:
        listener = bind(host, port)
    except OSError as error:
        raise cannot_listen(error, listen) from error

    async def run(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        await serve(app, listener, limits=limits, ready=task_status.started)

    with start_blocking_portal() as portal:
        future, _ = portal.start_task(run)
        try:
            yield url_of(host, listener)
        finally:
            future.cancel()


@contextmanager
def probes(listen: str, app: Starlette, *, streams: frozenset[str] = frozenset()) -> Iterator[None]:
    """Serve `app`, which has metrics and probes, while the block runs; do nothing if `listen` is empty.

    `listen` is the address as HOST:PORT. `streams` are paths with endless responses, for which there is no time limit.
    """
    if not listen:
        yield
        return
    limits = ConnectionLimits(streams=streams, probes=PROBES)
    with serving_in_thread(app, listen, limits=limits) as url:
        _log.info("serving metrics and probes", url=url)
        yield
