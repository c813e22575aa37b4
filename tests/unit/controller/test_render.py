"""REC-2: a decision as data says everything that it does, so that two that do different things read differently."""

import attrs

from purekube.apimachinery.manifest import ObjectRef, canonical_json
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.controller.decision import Apply, Create, Decision, Delete, Fill, Finalizer, MergePatch, Requeue, as_data
from purekube.ports import KubernetesEvent

REF = ObjectRef(CONFIG_MAP, "ns", "a")
OTHER = ObjectRef(CONFIG_MAP, "ns", "b")
BODY = CONFIG_MAP.manifest("a", "ns")
EVENT = KubernetesEvent(REF, "uid", "Normal", "Made", "Apply", "it was made")

DECISIONS = {
    "nothing": Decision(),
    "finalizer added": Decision(finalizer=Finalizer.ADD),
    "finalizer removed": Decision(finalizer=Finalizer.REMOVE),
    "annotation": Decision(annotations={"a": "b"}),
    "annotation removed": Decision(annotations={"a": None}),
    "dry run": Decision(dry_runs=(Apply(CONFIG_MAP, BODY),)),
    "patch": Decision(patches=(MergePatch(REF, {"data": {"a": "1"}}),)),
    "patch of another": Decision(patches=(MergePatch(OTHER, {"data": {"a": "1"}}),)),
    "other patch": Decision(patches=(MergePatch(REF, {"data": {"a": None}}),)),
    "apply": Decision(applies=(Apply(CONFIG_MAP, BODY),)),
    "forced apply": Decision(applies=(Apply(CONFIG_MAP, BODY, force=True),)),
    "create": Decision(creates=(Create(CONFIG_MAP, BODY),)),
    "create with random text": Decision(creates=(Create(CONFIG_MAP, BODY, fill=(Fill(("data", "a")),)),)),
    "create with shorter text": Decision(creates=(Create(CONFIG_MAP, BODY, fill=(Fill(("data", "a"), 8),)),)),
    "delete": Decision(deletes=(Delete(REF, "uid"),)),
    "delete of another life": Decision(deletes=(Delete(REF, "another"),)),
    "delete of one version": Decision(deletes=(Delete(REF, "uid", "7"),)),
    "delete of another kind": Decision(deletes=(Delete(ObjectRef(SECRET, "ns", "a"), "uid"),)),
    "status": Decision(status={"status": {"a": 1}}),
    "event": Decision(events=(EVENT,)),
    "other event": Decision(events=(attrs.evolve(EVENT, note="it was not"),)),
    "backoff": Decision(requeue=Requeue.BACKOFF),
    "refused": Decision(requeue=Requeue.REFUSED),
    "after a while": Decision(requeue=Requeue.at_latest(3.0)),
    "after a longer while": Decision(requeue=Requeue.at_latest(4.0)),
    "as another account": Decision(applies=(Apply(CONFIG_MAP, BODY),), account=OTHER),
}


def test_two_decisions_that_do_different_things_are_different_data_REC_2() -> None:
    names: dict[bytes, str] = {}
    for name, decision in DECISIONS.items():
        data = canonical_json(as_data(decision))
        assert data not in names, (name, names[data])
        names[data] = name


def test_a_decision_without_effects_is_empty_data_REC_2() -> None:
    assert as_data(Decision(only_if_current=True)) == {}
