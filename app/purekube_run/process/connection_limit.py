"""The limit of connections of one port, and the choice of the connection to close when it is reached (RUN-11).

Pure: no sockets and no time. A connection's rank is its progress, from the lowest: its client does not read the
response, its request is incomplete, it is idle between two requests, its request is being answered. If all places are
taken, the address with the most connections of the lowest rank loses one. A new connection is refused instead if its
address has more connections than that address, so that opening more gains nothing.

A busy client that must leave gets its response first, so its connection stays open for a while. During this time it
does not count as busy. Otherwise the same client would be chosen again when the next connection is one too many, and
all places could be busy.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs


class ConnectionStage(Enum):
    """The stages of a client's connection to a port, such as idle (its requests are answered) or busy (one is not yet).

    By its stage, `ConnectionLimit` selects the connection to close if there are too many.
    """

    UNREAD = "the client does not read the answer"
    UNHEARD = "no whole request has come"
    IDLE = "all its requests are answered"
    BUSY = "a whole request is being answered"
    PROBE = "a probe is being answered"
    LEAVING = "its request is being refused, to make room"


_MAKE_ROOM: Final = (
    ConnectionStage.UNREAD,
    ConnectionStage.UNHEARD,
    ConnectionStage.IDLE,
    ConnectionStage.LEAVING,
)


@attrs.define(eq=False)
class Client:
    """One connection of a client, at a stage such as idle or busy.

    `address` is a result of `address_of`. `leave` closes the connection, whatever its stage is.
    """

    address: str
    leave: Callable[[], object]
    stage: ConnectionStage = ConnectionStage.UNHEARD


class ConnectionLimit:
    """A limit of `total` connections, which selects the connection to close when the limit is reached.

    At most three quarters may be busy, so that there is room for new connections. Health probes do not count as busy,
    and are never closed to make room.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._most_busy = max(1, total * 3 // 4)
        self._clients: dict[Client, None] = {}
        """The clients in the order of their last steps."""

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, client: object) -> bool:
        return client in self._clients

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._clients))

    def enter(self, client: Client) -> Client | None:
        """Add a new client, and return None if there is room.

        Otherwise return the client that the caller must close: another client to make room, or the new client itself.
        """
        leaving = None
        if len(self._clients) >= self._total:
            leaving = self._outnumbered(self._first_to_leave(), client)
            self.forget(leaving)
        if leaving is not client:
            self._clients[client] = None
        return leaving

    def move(self, client: Client, stage: ConnectionStage) -> Client | None:
        """Record that a client has reached a stage.

        If too many clients are busy then, return the client that the caller must close; otherwise return None.
        """
        if client not in self._clients or client.stage is ConnectionStage.LEAVING:
            return None
        self.forget(client)
        client.stage = stage
        self._clients[client] = None
        if stage is not ConnectionStage.BUSY or self._busy() <= self._most_busy:
            return None
        leaving = self._cheapest(ConnectionStage.BUSY)
        assert leaving is not None, "at least `client` is busy"
        leaving.stage = ConnectionStage.LEAVING
        return leaving

    def _busy(self) -> int:
        return sum(client.stage is ConnectionStage.BUSY for client in self._clients)

    def forget(self, client: Client) -> None:
        """Free the place of a client that has disconnected."""
        self._clients.pop(client, None)

    def _first_to_leave(self) -> Client | None:
        """Return the client to close first when there is no room, or None if every client waits for a response.

        Clients that are already being closed come last, since their response is almost sent.
        """
        clients = map(self._cheapest, _MAKE_ROOM)
        return next((client for client in clients if client is not None), None)

    def _outnumbered(self, victim: Client | None, newcomer: Client) -> Client:
        """Return the client to close: `newcomer` if its address has more connections than that of `victim`, else
        `victim`.

        Without a `victim`, it is `newcomer`.
        """
        counts = Counter(client.address for client in (*self._clients, newcomer))
        return newcomer if victim is None or counts[newcomer.address] > counts[victim.address] else victim

    def _cheapest(self, stage: ConnectionStage) -> Client | None:
        """Return the client at `stage` to close first, or None if no client is at that stage.

        It is the client with the most clients at that stage from the same address, and among these the one that has
        been there longest.
        """
        clients = [client for client in self._clients if client.stage is stage]
        counts = Counter(client.address for client in clients)
        return max(clients, key=lambda client: counts[client.address], default=None)


def address_of(peer: object) -> str:
    """Return the address under which the connections of a peer are counted: its IPv4 address, or its IPv6 /64 prefix.

    One host may own an entire /64.
    """
    host = str(peer[0]).partition("%")[0] if isinstance(peer, tuple) and peer else ""
    try:
        parsed = ip_address(host)
    except ValueError:
        return host
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Address(int(parsed) >> 64 << 64))
    return host
