"""The places of one port: which connection gets one, and which gives its own up (RUN-11).

Pure: no sockets and no time. A connection is worth what it has shown: nothing until a whole request has come, little
between two requests, and more while its request is being answered. Where places run short, the address that has most
of the kind that is worth least gives one up, so that nobody gains by opening more.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from ipaddress import IPv6Address, ip_address

import attrs


class Stage(Enum):
    """How far a connection has come."""

    UNHEARD = "no whole request has come, or its answer is not read"
    IDLE = "all its requests are answered"
    BUSY = "a whole request is being answered"
    PROBE = "a probe is being answered"


@attrs.define(eq=False)
class Client:
    """One connection from an address, as `address_of` has it. `leave` ends it, at whatever stage it is."""

    address: str
    leave: Callable[[], object]
    stage: Stage = Stage.UNHEARD


class Places:
    """At most `total` connections, of which at most three quarters are busy: a newcomer always finds room.

    Probes are not counted among the busy and are never sent away.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._most_busy = max(1, total * 3 // 4)
        self._clients: dict[Client, None] = {}
        """In the order of their last steps."""

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, client: object) -> bool:
        return client in self._clients

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._clients))

    def enter(self, client: Client) -> Client | None:
        """Give a newcomer a place; return the client that has to leave for it, maybe the newcomer, if any does."""
        leaving = None
        if len(self._clients) >= self._total:
            leaving = self._cheapest(Stage.UNHEARD) or self._cheapest(Stage.IDLE) or client
            self.forget(leaving)
        if leaving is not client:
            self._clients[client] = None
        return leaving

    def move(self, client: Client, stage: Stage) -> Client | None:
        """Note how far a client has come; return the client that has to leave for it, if any does."""
        if client not in self._clients:
            return None
        self.forget(client)
        client.stage = stage
        self._clients[client] = None
        busy = sum(other.stage is Stage.BUSY for other in self._clients) if stage is Stage.BUSY else 0
        return self._cheapest(Stage.BUSY) if busy > self._most_busy else None

    def forget(self, client: Client) -> None:
        """Free the place of a client that has gone."""
        self._clients.pop(client, None)

    def _cheapest(self, stage: Stage) -> Client | None:
        """The client of the stage that took its last step first, of the address that has most of them."""
        clients = [client for client in self._clients if client.stage is stage]
        counts = Counter(client.address for client in clients)
        return max(clients, key=lambda client: counts[client.address], default=None)


def address_of(peer: object) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 of an IPv6 address, which one host has whole."""
    host = str(peer[0]).partition("%")[0] if isinstance(peer, tuple) and peer else ""
    try:
        parsed = ip_address(host)
    except ValueError:
        return host
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Address(int(parsed) >> 64 << 64))
    return host
