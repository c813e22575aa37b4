"""A layer that refuses requests of a controller in Python for which it has not declared the rights (RUN-7).

A controller declares them by class attributes such as `owns` and `reads`. Its RBAC role is printed from the
declaration. This layer refuses undeclared requests before the API server does: with a message that names the missing
class attribute, and also in tests, which have no roles.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Final, cast

from purekube.apimachinery.errors import Forbidden, NameTaken, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.controller.execute import OnWrite
from purekube.controller.ownership import foreign_owner
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send, Watch, WatchEvent
from purekube.ports.kube_api import left_of

ON_WRITE: Final[ContextVar[OnWrite | None]] = ContextVar("on_write", default=None)
"""The function that records the writes of the current pass. Tasks that user code starts during its call inherit it."""

FIND: Final[ContextVar[Callable[[ObjectRef], Manifest | None]]] = ContextVar("find")
"""The function that returns an object from the caches of the controller whose pass is running; None if it is not
cached.
"""


class DeclaredRights:
    """A middleware of the API client that refuses requests for which a controller has not declared the verb, and
    applies that would take over a child of another owner.

    It also reports each write to the function in the context variable `ON_WRITE`.
    """

    def __init__(self, name: str, verbs: Mapping[Kind, frozenset[str]]) -> None:
        self._verbs = verbs
        self.name = name

    def around(self, api: KubeApi) -> KubeApi:
        """Return a client that sends the requests of the controller by `api`, and refuses verbs that it has not
        declared.
        """
        return api.through(self.send, self.watch)

    async def send(self, request: KubeRequest, proceed: Send) -> Manifest:
        """Send a request by `proceed`, and return the response. Raises Forbidden if its verb is not declared, and
        NameTaken for an apply to an object of another owner.

        After a write whose object still exists, the function in `ON_WRITE`, if there is one, is called with the
        object's reference and new resourceVersion.
        """
        self._check(request)
        if request.verb is KubeVerb.APPLY and not request.subresource:
            await _refuse_foreign(request, proceed)
        answer = await proceed(request)
        on_write = ON_WRITE.get()
        written = left_of(answer) if request.verb is KubeVerb.DELETE else answer
        if on_write is not None and request.writes and written is not None:
            on_write((ref_of(written, request.kind), str(metadata(written).get("resourceVersion", ""))))
        return answer

    def watch(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        """Open a watch by `proceed`. Raises Forbidden if the verb `watch` is not declared for the kind."""
        self._check(request)
        return proceed(request)

    def _check(self, request: KubeRequest) -> None:
        if request.account is not None:
            raise Forbidden(f"{self.name} may not impersonate {request.account}")
        allowed = self._verbs.get(request.kind, frozenset())
        for verb in _rights(request):
            if verb not in allowed:
                may = (
                    f"it may {', '.join(sorted(allowed))}"
                    if allowed
                    else "name the kind in owns, or to read it in reads"
                )
                raise Forbidden(f"{self.name} may not {verb} {request.kind.crd_name.rstrip('.')}: {may}")


async def _refuse_foreign(request: KubeRequest, proceed: Send) -> None:
    """Raise NameTaken if the object that the request applies with an owner exists already, and is not that owner's.

    The object is read only if the cache does not show that it is that owner's.
    """
    wanted, manager = cast("Manifest", request.body), str(request.params.get("fieldManager"))
    find = FIND.get(None)
    cached = None if find is None else find(request.ref)
    if not metadata(wanted).get("ownerReferences") or (cached and not foreign_owner(cached, wanted, manager)):
        return
    try:
        live = await proceed(KubeRequest(KubeVerb.GET, request.kind, request.namespace, request.name))
    except NotFound:
        return
    if why := foreign_owner(live, wanted, manager):
        raise NameTaken(f"{request.ref}: {why}")


def _rights(request: KubeRequest) -> tuple[str, ...]:
    """Return the RBAC verbs that a request needs.

    An apply needs `create` as well as `patch`, as the object may not exist.
    """
    if request.verb is KubeVerb.APPLY:
        return ("patch status",) if request.subresource else ("patch", "create")
    return (request.action,)
