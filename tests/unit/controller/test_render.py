"""REC-2: a decision as data says everything that it does, so that two that do different things read differently."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef, canonical_json
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SECRET
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


A = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "a"}
B = {**A, "name": "b"}
DATA: dict[str, dict[str, Any]] = {
    "finalizer added": {"finalizer": "add"},
    "annotation removed": {"annotations": {"a": None}},
    "dry run": {"dryRun": [{"object": A}]},
    "patch of another": {"patch": [{"object": B, "mergePatch": {"data": {"a": "1"}}}]},
    "apply": {"apply": [{"manifest": BODY}]},
    "forced apply": {"apply": [{"force": True, "manifest": BODY}]},
    "create": {"create": [{"manifest": BODY}]},
    "create with shorter text": {"create": [{"manifest": BODY, "fill": [{"path": "data.a", "length": 8}]}]},
    "delete": {"delete": [{"object": A, "uid": "uid"}]},
    "delete of one version": {"delete": [{"object": A, "uid": "uid", "resourceVersion": "7"}]},
    "delete of another kind": {"delete": [{"object": {**A, "kind": "Secret"}, "uid": "uid"}]},
    "status": {"status": {"a": 1}},
    "event": {"events": [{"type": "Normal", "reason": "Made", "action": "Apply", "note": "it was made"}]},
    "backoff": {"requeue": "backoff"},
    "refused": {"requeue": "refused"},
    "after a while": {"lookAgainAfterSeconds": 3.0},
    "as another account": {"apply": [{"manifest": BODY}], "as": B},
}


@pytest.mark.parametrize("name", DATA)
def test_a_decision_is_data_under_the_words_of_a_person_who_reads_it_REC_2(name: str) -> None:
    assert as_data(DECISIONS[name]) == DATA[name]


def test_an_object_without_a_namespace_is_told_without_one_REC_2() -> None:
    decision = Decision(deletes=(Delete(ObjectRef(NAMESPACE, None, "a"), "uid"),))
    (told,) = as_data(decision)["delete"]

    assert told["object"] == {"apiVersion": "v1", "kind": "Namespace", "name": "a"}


def test_effects_are_told_in_the_order_of_execution_REC_2() -> None:
    everything = Decision(
        finalizer=Finalizer.ADD, annotations={"a": "b"}, dry_runs=(Apply(CONFIG_MAP, BODY),),
        patches=(MergePatch(REF, {}),), applies=(Apply(CONFIG_MAP, BODY),), creates=(Create(CONFIG_MAP, BODY),),
        deletes=(Delete(REF, "uid"),), account=OTHER, status={"status": {"a": 1}}, events=(EVENT,),
        requeue=Requeue.BACKOFF,
    )  # fmt: skip
    assert list(as_data(everything)) == [
        "dryRun", "finalizer", "annotations", "patch", "apply", "create", "delete", "as", "status", "events", "requeue",
    ]  # fmt: skip
