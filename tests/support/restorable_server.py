"""API servers whose storage can be restored from an older snapshot, as an administrator does it: stop, restore, start.

One is the embedded API server, the other an etcd with a kube-apiserver. Both listen on the same port afterwards.
"""

import shutil
import signal
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import attrs
import pytest
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from kubelab.storage.store import StoreSnapshot
from purekube_kit.kube_apiserver import (
    LOOPBACK,
    PATIENCE,
    Assets,
    RealServer,
    _answers,
    _process,
    _Running,
    _wait,
    apiserver_command,
    etcd_command,
    free_ports,
    write_credentials,
)
from tests.support.server_thread import served, wall_clock
from tests.support.server_use import real_assets


class Restorable(Protocol):
    """An API server with an administrator."""

    def kubeconfig(self) -> dict[str, Any]:
        """How the administrator reaches it."""
        ...

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        ...

    def stop(self) -> None:
        """Stop it; connections are refused from then on."""
        ...

    def take_snapshot(self) -> None:
        """Copy what is stored at this moment."""
        ...

    def restore_snapshot(self) -> None:
        """Put the copy in the place of what is stored, while nothing runs."""
        ...


def config_of(server: Restorable) -> SingleConfig:
    """The same for a client."""
    config = KubeConfig.from_dict(server.kubeconfig()).get()
    assert config is not None
    return config


@attrs.define
class RestorableEmbedded:
    """The embedded API server on one port."""

    server: ApiServer
    url: str = ""
    _snapshot: StoreSnapshot | None = None
    _serving: ExitStack = attrs.field(factory=ExitStack)

    def kubeconfig(self) -> dict[str, Any]:
        """Everybody is the administrator."""
        return kubeconfig(self.url)

    def start(self) -> None:
        """Serve on the port of before."""
        self.url = self._serving.enter_context(served(self.server, port=urlsplit(self.url).port or 0))

    def stop(self) -> None:
        """End the watches, and stop serving."""
        self._serving.close()

    def take_snapshot(self) -> None:
        """Remember what the store holds."""
        self._snapshot = self.server.store.snapshot()

    def restore_snapshot(self) -> None:
        """Hold it again, after the seconds that an administrator needs at least."""
        assert self._snapshot is not None, "a snapshot was taken"
        time.sleep(3.0)
        self.server.restore(self._snapshot)


@attrs.define
class RestorableEtcd:
    """etcd and kube-apiserver in a folder. A snapshot is a copy of the member's files while the member is held."""

    assets: Assets
    folder: Path
    server: RealServer
    ports: tuple[int, int, int]
    trust: ssl.SSLContext
    _etcd: _Running | None = None
    _processes: ExitStack = attrs.field(factory=ExitStack)

    def kubeconfig(self) -> dict[str, Any]:
        """How the administrator reaches it."""
        return self.server.kubeconfig()

    def start(self) -> None:
        """Start both, and wait until the API server is ready."""
        client, peer, port = self.ports
        command = etcd_command(self.assets, self.folder / "etcd", client, peer)
        self._etcd = self._processes.enter_context(_process(command, self.folder))
        _wait(self._etcd, lambda: _answers(f"http://{LOOPBACK}:{client}/health"), PATIENCE)
        apiserver = _process(apiserver_command(self.assets, self.folder, port, client), self.folder)
        ready = lambda: _answers(f"{self.server.url}/readyz", self.trust, self.server.token)  # noqa: E731
        _wait(self._processes.enter_context(apiserver), ready, PATIENCE)

    def stop(self) -> None:
        """Stop the API server, then etcd."""
        self._processes.close()

    def take_snapshot(self) -> None:
        """Copy what etcd holds at this moment."""
        assert self._etcd is not None, "etcd runs"
        self._etcd.process.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.folder / "etcd", self.folder / "snapshot")
        finally:
            self._etcd.process.send_signal(signal.SIGCONT)

    def restore_snapshot(self) -> None:
        """Put the files of the snapshot in the place of etcd's, while nothing runs."""
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "snapshot", self.folder / "etcd")


@contextmanager
def _embedded() -> Iterator[Restorable]:
    server = RestorableEmbedded(ApiServer(now=wall_clock))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _real() -> Iterator[Restorable]:
    """Both processes, started; stopped and removed at the end. Skips where there are none."""
    assets = real_assets()
    with tempfile.TemporaryDirectory(prefix="vworkspace-restored-") as place:
        folder, (client, peer, port) = Path(place), free_ports(3)
        made = certificates_for(("localhost", LOOPBACK), datetime.now(UTC))
        token, operator = "administrator-0123456789", "operator-0123456789"
        write_credentials(folder, made, token, operator)
        trust = ssl.create_default_context(cadata=made.authority.decode())
        server = RealServer(f"https://{LOOPBACK}:{port}", token, operator, made.authority)
        both = RestorableEtcd(assets, folder, server, (client, peer, port), trust)
        try:
            both.start()
            yield both
        finally:
            both.stop()


SERVERS: list[Any] = [pytest.param(_embedded, id="embedded"), pytest.param(_real, id="kube-apiserver")]
"""Functions that start one."""
