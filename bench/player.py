"""The controllers of Deployments, load balancers and ingresses, played by a measurement: they answer at once."""

import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from bench.boxes import SPACE, Cluster, encoded, is_ready
from bench.reaching import Client
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import DEPLOYMENT, INGRESS, SERVICE

LIMIT: Final = 3
"""The field `revisionHistoryLimit` of a changed Deployment."""
MERGE: Final = "application/merge-patch+json"
PATIENCE: Final = 600.0
"""The seconds without any progress after which a measurement fails."""


def _rolled_out(live: dict[str, Any]) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    generation = live["metadata"]["generation"]
    return {
        **dict.fromkeys(counts, live["spec"]["replicas"]),
        "observedGeneration": generation,
        "conditions": conditions,
    }


STATUSES: Final[Mapping[Kind, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    DEPLOYMENT: _rolled_out,
    SERVICE: lambda live: {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    INGRESS: lambda live: {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}},
}
"""The statuses that the controllers of these kinds write once all is well."""

FOLLOWS: Final = {DEPLOYMENT: SERVICE, SERVICE: INGRESS}
"""The kinds by the kind whose gate they open: the follower is created when the first is ready."""


@attrs.define
class Player:
    """A simulation of the controllers: it makes every workload ready at once, and records when it saw what."""

    on: Cluster
    played: dict[tuple[Kind, str], int] = attrs.field(factory=dict)
    """The generation with a status."""
    sent: dict[tuple[Kind, str], float] = attrs.field(factory=dict)
    seen: dict[tuple[Kind, str], float] = attrs.field(factory=dict)
    ready: dict[str, float] = attrs.field(factory=dict)
    changed: dict[str, float] = attrs.field(factory=dict)

    def start(self, *parents: Kind) -> None:
        for kind in (*STATUSES, *parents):
            threading.Thread(target=self._follow, args=(kind,), daemon=True).start()

    def _follow(self, kind: Kind) -> None:
        client = self.on.client
        while True:
            try:
                for row in self.on.client.stream(f"{_root(kind)}/{kind.plural}?watch=true&timeoutSeconds=3600"):
                    at, event = time.perf_counter(), msgspec.json.decode(row)
                    if event.get("type") in ("ADDED", "MODIFIED"):
                        self._note(kind, event["object"], at, client)
            except ConnectionRefusedError:
                return  # the cluster has been taken down
            except (OSError, ValueError):
                pass
            time.sleep(0.5)  # the stream is over, or the kind is not served yet

    def _note(self, kind: Kind, live: dict[str, Any], at: float, client: Client) -> None:
        meta = live["metadata"]
        if meta["namespace"] != SPACE:
            return
        name = meta["name"].removesuffix("-svc").removesuffix("-ingress")
        self.seen.setdefault((kind, name), at)
        if kind not in STATUSES:
            if is_ready(live):
                self.ready.setdefault(name, at)
            return
        if kind == DEPLOYMENT and live["spec"].get("revisionHistoryLimit") == LIMIT:
            self.changed.setdefault(name, at)
        generation = meta.get("generation", 1)
        if self.played.get((kind, name)) != generation:
            self.sent.setdefault((kind, name), time.perf_counter())
            body = encoded({"status": STATUSES[kind](live)})
            self._send(client, f"{path_of(kind, meta['name'])}/status", body)
            self.played[(kind, name)] = generation

    @staticmethod
    def _send(client: Client, path: str, body: bytes) -> None:
        """Send a status; once more if the server has closed the connection, which it does after 90 idle seconds."""
        try:
            client.send("PATCH", path, body, MERGE)
        except (OSError, http.client.HTTPException):
            client.close()
            client.send("PATCH", path, body, MERGE)

    def reactions(self, names: Sequence[str]) -> list[float]:
        """Return the milliseconds from sending a child's status to seeing the next child."""
        pairs = [(kind, follower, name) for kind, follower in FOLLOWS.items() for name in names]
        return [1000 * (self.seen[(follower, name)] - self.sent[(kind, name)]) for kind, follower, name in pairs]


def _root(kind: Kind) -> str:
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"


def path_of(kind: Kind, name: str = "") -> str:
    return f"{_root(kind)}/namespaces/{SPACE}/{kind.plural}" + (f"/{name}" if name else "")


def wait(times: Mapping[str, float], names: Sequence[str]) -> float:
    """Wait until each name has a time; return the last one. It fails if nothing moves any more."""
    since, count = time.perf_counter(), 0
    while (now := sum(name in times for name in names)) < len(names):
        if now > count:
            since, count = time.perf_counter(), now
        assert time.perf_counter() - since < PATIENCE, f"{len(names) - now} of {len(names)} never came so far"
        time.sleep(0.05)
    return max(times[name] for name in names)
