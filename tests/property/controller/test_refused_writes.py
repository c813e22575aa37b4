"""RUN-3, REC-13: whatever write is refused, for whatever reason, the decision that follows is told of it once."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import (
    Conflict,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Apply, Create, Decision, Delete, Failure, MergePatch, Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from purekube.ports import EventSink, KubeRequest, KubernetesEvent, Send
from tests.support.apiserver_world import NOW

SOURCE = ObjectRef(CONFIG_MAP, "default", "source")
CHILD = ObjectRef(CONFIG_MAP, "default", "child")
NEW = ObjectRef(CONFIG_MAP, "default", "new")
BODY = {**CONFIG_MAP.manifest(CHILD.name, "default"), "data": {"a": "1"}}
FIRST = {**CONFIG_MAP.manifest(NEW.name, "default"), "data": {"a": "1"}}

WRITES: Mapping[str, Any] = {
    "apply": lambda uid: Decision(applies=(Apply(CONFIG_MAP, BODY),)),
    "create": lambda uid: Decision(creates=(Create(CONFIG_MAP, FIRST),)),
    "patch": lambda uid: Decision(patches=(MergePatch(CHILD, {"data": {"a": "1"}}),)),
    "delete": lambda uid: Decision(deletes=(Delete(CHILD, uid),)),
}
REFUSALS: list[OperatorError] = [
    Forbidden("no"),
    Unauthorized("who"),
    Invalid("wrong"),
    Conflict("held", (FieldConflict("somebody", ".data.a"),)),
    KindMissing("not served"),
    Unavailable("busy", status=429),
    Unavailable("no answer"),
    Permanent("redirected"),
]


@attrs.frozen
class Source:
    """An object that is reconciled."""

    metadata: ObjectMeta


class Silent(EventSink):
    """Events are not what this is about."""

    async def emit(self, event: KubernetesEvent) -> None: ...


def refusing(api: InProcessKube, verb: str, error: OperatorError) -> InProcessKube:
    """Return an API server that refuses one verb."""

    async def refuse(request: KubeRequest, proceed: Send) -> Manifest:
        if request.action == verb:
            raise error
        return await proceed(request)

    return api.through(refuse)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.message)
@pytest.mark.parametrize("verb", WRITES)
def test_each_refused_write_is_one_failure_of_that_object_and_verb_in_the_next_decision(
    verb: str, error: OperatorError
) -> None:
    told: list[tuple[Failure, ...]] = []
    api = InProcessKube(ApiServer(now=lambda: NOW))
    child = run_sync(api.create(BODY, kind=CONFIG_MAP, field_manager="test"))
    source = run_sync(api.create(CONFIG_MAP.manifest(SOURCE.name, "default"), kind=CONFIG_MAP, field_manager="test"))

    def decide(_: Source, seen: Snapshot) -> Decision:
        told.append(seen.failures)
        return WRITES[verb](child["metadata"]["uid"]) if not seen.failures else Decision()

    def read(manifest: Manifest) -> Source:
        meta = manifest["metadata"]
        return Source(ObjectMeta(name=SOURCE.name, namespace="default", uid=meta["uid"]))

    rules = PassRules(CONFIG_MAP, read, decide, "test", "test/finalizer")
    run_sync(run_pass(rules, read(source), Snapshot(objects={CHILD: child}), refusing(api, verb, error), Silent()))

    assert told[0] == ()
    if isinstance(error, KindMissing) and verb in ("patch", "delete"):
        assert not any(told), "what is not served is gone, and nothing is left to be refused"
    else:
        ref = NEW if verb == "create" else CHILD
        assert [(one.ref, one.verb, one.error) for one in told[1]] == [(ref, verb, error)]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.message)
def test_an_object_whose_patch_was_refused_is_not_deleted_by_the_same_decision_REC_10(error: OperatorError) -> None:
    """The patch prepares the end: Flux would skip the uninstall of a release that was not resumed."""
    api = InProcessKube(ApiServer(now=lambda: NOW))
    child = run_sync(api.create(BODY, kind=CONFIG_MAP, field_manager="test"))
    source = Source(ObjectMeta(name=SOURCE.name, namespace="default"))
    both = Decision(patches=WRITES["patch"]("").patches, deletes=WRITES["delete"](child["metadata"]["uid"]).deletes)

    def decide(_: Source, seen: Snapshot) -> Decision:
        return Decision() if seen.failures else both

    rules = PassRules(CONFIG_MAP, lambda _: source, decide, "test", "test/finalizer", rounds=1)
    result = run_sync(
        run_pass(rules, source, Snapshot(objects={CHILD: child}), refusing(api, "patch", error), Silent())
    )

    expected = [("delete", CHILD)] if isinstance(error, KindMissing) else []
    assert list(result.executed) == expected, "only what is not served, and so gone, is deleted"


@pytest.mark.parametrize("verb", WRITES)
def test_what_is_not_refused_is_no_failure(verb: str) -> None:
    told: list[tuple[Failure, ...]] = []
    api = InProcessKube(ApiServer(now=lambda: NOW))
    child = run_sync(api.create(BODY, kind=CONFIG_MAP, field_manager="test"))
    source = Source(ObjectMeta(name=SOURCE.name, namespace="default"))

    def decide(_: Source, seen: Snapshot) -> Decision:
        told.append(seen.failures)
        return WRITES[verb](child["metadata"]["uid"]) if len(told) == 1 else Decision()

    rules = PassRules(CONFIG_MAP, lambda _: source, decide, "test", "test/finalizer")
    result = run_sync(run_pass(rules, source, Snapshot(objects={CHILD: child}), api, Silent()))

    assert told == [(), ()]
    assert [done for done, _ in result.executed] == [verb]
