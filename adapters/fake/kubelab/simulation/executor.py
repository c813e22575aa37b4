"""The execution of the effects of simulated controllers.

An effect is a request that a controller's pass yields, such as a read, a write or a pause. The executor sends reads and
writes to the API server through a `KubeApi`.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

from kubelab.simulation.effects import (
    Effect,
    PostEvent,
    Question,
    SimulatedApply,
    SimulatedCreate,
    SimulatedDelete,
    SimulatedGet,
    SimulatedList,
    SimulatedPatch,
    Sleep,
)
from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound, OperatorError, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CORE_EVENT
from purekube.ports import KubeApi, PatchType

# client-go: tools/pager/pager.go, defaultPageSize.
_PAGE: Final = 500

AnswerQuestion = Callable[[Question[Any]], Awaitable[Any]]


async def list_all(api: KubeApi, kind: Kind, namespace: str | None = None, selector: str = "") -> Sequence[Manifest]:
    """Return every object of a kind, read page by page, or none if the kind is not served.

    `namespace` None means all namespaces. `selector` is a label selector; an empty one selects all objects.
    """
    items: list[Manifest] = []
    token = ""
    while True:
        try:
            page = await api.list(kind, namespace=namespace, label_selector=selector, limit=_PAGE, continue_token=token)
        except KindMissing:
            return ()
        items.extend(page.items)
        token = page.continue_token
        if not token:
            return tuple(items)


class SimulationExecutor:
    """An executor of effects, which are the reads, writes and questions that simulated controllers' passes yield.

    It sends reads and writes to the API server `api`. `answer` is called for each effect that is a `Question`, which is
    a request to another system, and returns its answer.
    """

    def __init__(self, api: KubeApi, answer: AnswerQuestion) -> None:
        self._api = api
        self._answer = answer

    async def perform(self, effect: Effect, field_manager: str) -> Any:
        """Perform one effect (a read, a write or a question to another system), and return its answer.

        `field_manager` is the manager of the effect's writes. Raises the errors of `KubeApi`, unless the effect ignores
        errors.
        """
        match effect:
            case SimulatedGet(ref):
                return await self._get(ref)
            case SimulatedList(kind, namespace):
                return await list_all(self._api, kind, namespace)
            case SimulatedPatch():
                return await self._patch(effect, field_manager)
            case Question():
                return await self._answer(effect)
            case Sleep():
                raise AssertionError("time passes in the simulator, not here")
            case _:
                return await self._write(effect, field_manager)

    async def _write(
        self, effect: SimulatedApply | SimulatedCreate | SimulatedDelete | PostEvent, field_manager: str
    ) -> None:
        match effect:
            case SimulatedApply(kind, manifest):
                await self._api.apply(manifest, kind=kind, field_manager=field_manager, force=True)
            case SimulatedCreate(kind, manifest):
                with suppress(AlreadyExists, KindMissing):
                    await self._api.create(manifest, kind=kind, field_manager=field_manager)
            case SimulatedDelete():
                with suppress(NotFound, Stale):
                    await self._api.delete(effect.ref, uid=effect.uid or None, propagation=effect.propagation)
            case PostEvent():
                # client-go: tools/record/event.go: an event is worth less than the work, so its loss is only logged.
                with suppress(OperatorError):
                    await self._api.create(_event(effect, field_manager), kind=CORE_EVENT, field_manager=field_manager)
            case _:
                assert_never(effect)

    async def _get(self, ref: ObjectRef) -> Manifest | None:
        try:
            return await self._api.get(ref)
        except NotFound:
            return None

    async def _patch(self, patch: SimulatedPatch, field_manager: str) -> bool:
        """Patch an object. Return whether the object was patched.

        The API server answers 409 if the object has another uid than the patch (W-30).
        """
        body = dict(patch.body)
        if patch.uid:
            body["metadata"] = {**body.get("metadata", {}), "uid": patch.uid}
        try:
            await self._api.patch(
                patch.ref, body, patch_type=PatchType.MERGE, field_manager=field_manager, subresource=patch.subresource
            )
        except NotFound:
            return False
        except Stale:
            if not patch.uid:
                raise
            return False
        return True


def _event(post: PostEvent, component: str) -> Manifest:
    """Return the Event of the core group that `post` requests, in the form in which Kubernetes' controllers post it.

    The same reason and message give the same name, so a repetition creates no further Event.
    """
    digest = hashlib.sha256(f"{post.uid}/{post.reason}/{post.message}".encode()).hexdigest()
    ref = post.ref
    about = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "namespace": ref.namespace, "name": ref.name}
    manifest = CORE_EVENT.manifest(f"{ref.name[:200]}.{digest[:16]}", ref.namespace)
    return {
        **manifest,
        "involvedObject": {**about, "uid": post.uid},
        "type": post.type,
        "reason": post.reason,
        "message": post.message,
        "source": {"component": component},
        "firstTimestamp": post.moment,
        "lastTimestamp": post.moment,
        "count": 1,
    }
