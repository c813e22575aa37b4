"""A cluster that is served from its own thread, for tests with any client and for commands."""

import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kubelab.cluster.access import OPEN, ClusterAccess, access_for, write_kubeconfig
from kubelab.cluster.definitions import Definition, read_definitions
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.http.webhook_calls import Services
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import unwrap_group

if TYPE_CHECKING:
    from kubelab.cluster.simulators import Behaviour

T = TypeVar("T")


@attrs.frozen
class Server:
    """A cluster that is being served.

    Clients use its URL and kubeconfig; `call` gives access to the API server itself.
    """

    url: str
    kubeconfig: Path
    """A kubeconfig file, which is removed when the server ends. It has a context for each user."""
    cluster: EmbeddedCluster = attrs.field(repr=False)
    access: ClusterAccess = attrs.field(repr=False)
    thread: "ServingThread" = attrs.field(repr=False)

    @property
    def kubeconfig_dict(self) -> dict[str, Any]:
        """The content of the kubeconfig with which clients reach this server, as a mapping."""
        return self.access.kubeconfig(self.url)

    @property
    def api_server(self) -> ApiServer:
        """The API server. Use it only in functions that `call` runs, because it belongs to the server's thread."""
        return self.cluster.server

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call `function` with `arguments` in the server's thread, between two requests, and return its result."""
        return self.thread.portal.call(partial(function, *arguments))


@attrs.frozen
class ServingThread:
    """A thread in which a server runs at `url`.

    The AnyIO portal `portal` runs functions in the thread's event loop. The future `ended` is done when the server has
    ended.
    """

    url: str
    portal: BlockingPortal
    ended: Future[None]


@contextmanager
def serve(
    *,
    crds: Definition | Iterable[Definition] = (),
    simulate: str | Iterable[str] = (),
    behaviour: "Behaviour | None" = None,
    tls: bool = False,
    tokens: Mapping[str, Caller] | None = None,
    rbac: bool = False,
    service_accounts: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    services: Services | None = None,
) -> Iterator[Server]:
    """Serve a new cluster until the block is left, from a thread with an event loop of its own.

    `crds` are manifests, files or folders of YAML. `simulate` names the simulated controllers to run
    (`kubelab.SIMULATORS`, or `all`), in a list or in a string with commas. `behaviour` says which of their actions
    fail, as a file or its content. `tls` serves HTTPS with a new authority, which the kubeconfig contains. `tokens`
    maps bearer tokens to callers; the first is the user of the kubeconfig's current context. Without `tokens` every
    caller is the administrator. With `rbac`, roles and bindings decide what callers may do. With `service_accounts`,
    each namespace has the account `default`, and pods need an account. The server listens on
    `host` and `port`; port 0 takes a free port. `services` maps (namespace, name) of services to base URLs, for
    admission webhooks.

    Raises KubelabError for options that do not work, OSError if the address cannot be bound.
    """
    access = access_for(host, tls=tls, tokens=tokens, rbac=rbac)
    cluster = EmbeddedCluster.start(
        read_definitions(crds), simulate, rbac=rbac, service_accounts=service_accounts, behaviour=behaviour
    )
    with serve_cluster(cluster, host, port, access, services) as server:
        yield server


@contextmanager
def serve_cluster(
    cluster: EmbeddedCluster,
    host: str = "127.0.0.1",
    port: int = 0,
    access: ClusterAccess = OPEN,
    services: Services | None = None,
) -> Iterator[Server]:
    """Serve a cluster on `host` and `port` until the block is left. Raises OSError if the address cannot be bound.

    Port 0 takes a free port. `access` has the callers and the certificate. `services` maps (namespace, name) of
    services to base URLs, for webhooks.
    """

    async def run(ready: Callable[[str], None]) -> None:
        await cluster.run(ready, host, port, access, services)

    with serving_thread(run) as thread, tempfile.TemporaryDirectory(prefix="kubelab-") as folder:
        kubeconfig = Path(folder, "kubeconfig")
        write_kubeconfig(kubeconfig, thread.url, access)
        yield Server(thread.url, kubeconfig, cluster, access, thread)


@contextmanager
def serving_thread(run: Callable[[Callable[[str], None]], Awaitable[None]]) -> Iterator[ServingThread]:
    """Run a server in a thread with its own event loop while the block runs.

    `run` calls its argument with the URL once requests are accepted, and serves until it is cancelled. Exceptions of
    `run` are raised here, whenever they occur.
    """

    async def task(*, task_status: TaskStatus[str] = TASK_STATUS_IGNORED) -> None:
        await run(task_status.started)

    with start_blocking_portal() as portal:
        try:
            ended, url = portal.start_task(task)
        except BaseExceptionGroup as group:
            # AnyIO's task group wraps even a single error, and a caller expects the OSError of the bind.
            raise unwrap_group(group) from None
        try:
            yield ServingThread(url, portal, ended)
        finally:
            # A future that is done cannot be cancelled: then the server has ended before.
            if not ended.cancel():
                ended.result()  # the error that ended it


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set. A second signal ends the process immediately."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(*_: object) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()
