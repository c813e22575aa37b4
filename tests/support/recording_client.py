"""A `KubeApi` that takes down what is written through it: the audit log of any API server, as its client saw it."""

from collections.abc import AsyncIterator

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, metadata
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send, Watch, WatchEvent
from purekube.ports.kube import WRITES
from purekube_http.requests import METHODS


@attrs.frozen
class Write:
    """One write. `status` is 0 where the client does not learn it; `changed` tells whether it left a new version.

    Both are guessed until the answer is there.
    """

    method: str
    path: str
    status: int
    changed: bool


def _path(request: KubeRequest) -> str:
    root = (
        f"/apis/{request.kind.group}/{request.kind.version}" if request.kind.group else f"/api/{request.kind.version}"
    )
    place = f"/namespaces/{request.namespace}" if request.namespace else ""
    name = "" if request.verb is KubeVerb.CREATE else request.name
    return "/".join(part for part in (f"{root}{place}/{request.kind.plural}", name, request.subresource) if part)


class Witness(KubeApi):
    """Passes everything on to `api`, which may be replaced, and takes down what is written."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(_Replaceable(self))
        self.api = api
        self.writes: list[Write] = []
        self._versions: dict[str, set[str]] = {}
        self.transport = self.through(self._send, self._watch).transport

    def knows(self, manifest: Manifest) -> bool:
        """Whether its client has been told of this version of the object."""
        meta = metadata(manifest)
        return str(meta.get("resourceVersion")) in self._versions.get(str(meta.get("uid")), ())

    def _saw(self, manifest: Manifest) -> None:
        meta = metadata(manifest)
        self._versions.setdefault(str(meta.get("uid")), set()).add(str(meta.get("resourceVersion")))

    async def _send(self, request: KubeRequest, proceed: Send) -> Manifest:
        if request.verb is KubeVerb.DELETE:
            self.writes.append(Write("DELETE", _path(request), 0, True))
            answer = await proceed(request)
        elif request.verb in WRITES:
            return await self._wrote(request, proceed)
        else:
            answer = await proceed(request)
        for item in answer["items"] if request.verb is KubeVerb.LIST else (answer,):
            self._saw(item)
        return answer

    async def _watch(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        async for event in proceed(request):
            self._saw(event.object)
            yield event

    async def _wrote(self, request: KubeRequest, proceed: Send) -> Manifest:
        # The watch may tell of the write before its answer is there; who has seen it, and forgets what was written
        # until then, has forgotten this one too.
        before = {uid: frozenset(versions) for uid, versions in self._versions.items()}
        begun = Write(METHODS[request.verb], _path(request), 0, True)
        self.writes.append(begun)
        try:
            answer = await proceed(request)
        except OperatorError:
            self._ended(begun, attrs.evolve(begun, changed=False))
            raise
        known = before.get(str(metadata(answer).get("uid")))
        changed = known is None or str(metadata(answer).get("resourceVersion")) not in known
        self._ended(begun, attrs.evolve(begun, status=201 if known is None else 200, changed=changed))
        self._saw(answer)
        return answer

    def _ended(self, begun: Write, ended: Write) -> None:
        self.writes[:] = [ended if write is begun else write for write in self.writes]


@attrs.frozen
class _Replaceable:
    """The transport of the client that the witness has at the moment."""

    witness: Witness

    async def send(self, request: KubeRequest) -> Manifest:
        return await self.witness.api.transport.send(request)

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        return self.witness.api.transport.watch(request)
