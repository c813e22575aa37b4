"""A kube-apiserver that one story after the other has for itself: each finds it as it was when it was new.

A start costs three seconds of processor time, a return a tenth of that. What a story has made is removed as controllers
would do it, which do not run here; if anything stays, the next story gets a new server.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import attrs

from purekube_kit.kube_apiserver import RealServer, started
from tests.support.server_thread import Wire, wired_to
from tests.support.server_use import real_assets

_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_METADATA: Final = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadataList"
_MERGE: Final = "application/merge-patch+json"
_NOW: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_MADE_BY_THE_SERVER: Final = frozenset({"apiservices", "leases"})
_FIRST: Final = ("webhookconfigurations", "admissionpolicies", "admissionpolicybindings")
_LAST: Final = ("customresourcedefinitions", "namespaces")
_SECONDS: Final = 10.0


@attrs.frozen
class _Found:
    """An object: its uid, the name of its resource, its path, and its finalizers."""

    uid: str
    resource: str
    path: str
    finalizers: tuple[str, ...]

    @property
    def order(self) -> int:
        """What refuses deletions goes first; a definition and a namespace after what is in them."""
        return 0 if self.resource.endswith(_FIRST) else 2 + _LAST.index(self.resource) if self.resource in _LAST else 1


@attrs.define
class _Idle:
    """A server that waits for its next story, with the uids that it had when it was new."""

    server: RealServer
    new: frozenset[str]
    stack: ExitStack


_IDLE: Final[list[_Idle]] = []


@contextmanager
def lent() -> Iterator[RealServer]:
    """Have a kube-apiserver without anything in it while the block runs; the test is skipped where there is none."""
    assets = real_assets()
    idle = _IDLE.pop() if _IDLE else None
    if idle is None:
        with ExitStack() as stack:
            server = stack.enter_context(started(assets))
            idle = _Idle(server, frozenset(found.uid for found in _all(server)), stack.pop_all())
    with ExitStack() as ends:
        ends.push(idle.stack)
        yield idle.server
        if _is_as_new(idle):
            _IDLE.append(attrs.evolve(idle, stack=ends.pop_all()))


def stop_lent_server() -> None:
    """Stop the server that waits."""
    while _IDLE:
        _IDLE.pop().stack.close()


def _all(server: RealServer) -> list[_Found]:
    with wired_to(server) as wire:
        return [*_objects(wire)]


def _is_as_new(idle: _Idle) -> bool:
    """Remove what the story has made; report whether nothing of it is left."""
    limit = time.monotonic() + _SECONDS
    with wired_to(idle.server) as wire:
        while time.monotonic() < limit:
            made = sorted((one for one in _objects(wire) if one.uid not in idle.new), key=lambda one: one.order)
            if not made:
                return True
            for one in made:
                _remove(wire, one)
    return False


def _objects(wire: Wire) -> Iterator[_Found]:
    """Yield every object of every kind that can be listed and deleted, by the preferred version of its group."""
    for path, resource in dict(_resources(wire)).items():
        answer = wire.send("GET", path, accept=_METADATA)
        for item in (answer.json["items"] or ()) if answer.status == 200 else ():
            meta: Mapping[str, Any] = item["metadata"]
            base, _, plural = path.rpartition("/")
            place = f"{base}/namespaces/{meta['namespace']}/{plural}" if "namespace" in meta else path
            yield _Found(meta["uid"], resource, f"{place}/{meta['name']}", tuple(meta.get("finalizers", ())))


def _resources(wire: Wire) -> Iterator[tuple[str, str]]:
    """Yield the path of each list with the name of its resource. Events of the core are those of their own group."""
    for root in ("/api", "/apis"):
        for group in wire.send("GET", root, accept=_DISCOVERY).json["items"]:
            name = group["metadata"].get("name", "")
            if name == "events.k8s.io" or not group["versions"]:
                continue
            version = group["versions"][0]
            base = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
            for found in version.get("resources", ()):
                if found["resource"] not in _MADE_BY_THE_SERVER and {"list", "delete"} <= {*found["verbs"]}:
                    yield f"{base}/{found['resource']}", found["resource"]


def _remove(wire: Wire, found: _Found) -> None:
    """Delete an object as if its controllers had done their work, which its finalizers wait for."""
    if found.finalizers and found.resource not in _LAST:
        wire.send("PATCH", found.path, {"metadata": {"finalizers": None}}, content_type=_MERGE)
    wire.send("DELETE", found.path, _NOW)
    if found.resource == "namespaces":
        with suppress(KeyError):
            live = wire.send("GET", found.path).json
            wire.send("PUT", f"{found.path}/finalize", {**live, "spec": {**live["spec"], "finalizers": []}})
