"""Checks of events that belong to no job: the control plane keeps one event per key (PULL-6)."""

import uuid
from typing import Any

import pytest

from purekube.apimachinery.errors import Invalid
from vworkspace_app.conformance.examined import AT, Examined, check
from vworkspace_app.conformance.subject import Offer

INSTANCE = {
    "apiVersion": "apps.vworkspace.io/v1alpha1",
    "kind": "ApplicationInstance",
    "namespace": "conformance",
    "name": "nobody",
    "uid": "5f0d",
}
CLUSTER = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "namespace": "", "name": "c1", "uid": "77d2"}


def condition(kind: str) -> dict[str, Any]:
    """Return a condition of the type `kind` in the form in which the agent reports conditions."""
    fields = {"type": kind, "status": "True", "reason": "Conformance", "message": ""}
    return {**fields, "lastTransitionTime": AT, "observedGeneration": 1}


def event(key: str, kind: str = "ConditionTransition") -> dict[str, Any]:
    """Return an event of the type `kind` as the agent posts it; it is about an instance that does not exist.

    `key` is the unique part of its `eventKey`, by which the control plane recognizes an event that it has already
    received.
    """
    return {
        "kind": kind,
        "eventKey": f"conformance/{key}",
        "timestamp": AT,
        "resourceRef": INSTANCE,
        "conditions": [condition("Ready")],
    }


def heartbeat(key: str) -> dict[str, Any]:
    """Return a heartbeat in the form that the agent sends: an event with the conditions of the Cluster object.

    `key` is the unique part of its `eventKey`, by which the control plane recognizes an event that it has already
    received.
    """
    conditions = [condition("Connected"), condition("Authenticated")]
    return {**event(key, "ClusterHeartbeat"), "resourceRef": CLUSTER, "conditions": conditions}


@check()
async def test_a_batch_of_a_hundred_events_is_taken_and_so_is_its_replay_PULL_6(c: Examined) -> None:
    run = uuid.uuid4().hex
    batch = [event(f"{run}/{number}") for number in range(100)]
    await c.control.events(batch)
    await c.control.events(batch)


@check(Offer.RECORDS, Offer.ACCOUNTS)
async def test_events_are_kept_once_per_key_in_order_PULL_6(c: Examined) -> None:
    await c.control.events([event("a"), event("b")])
    await c.control.events([event("b"), event("c"), event("a")])

    keys = [record["eventKey"] for record in await c.subject.events(c.id)]
    assert keys == [f"conformance/{key}" for key in "abc"]


@check()
async def test_every_kind_of_event_is_taken_as_the_agent_posts_it_PULL_6(c: Examined) -> None:
    run = uuid.uuid4().hex
    operation = {**INSTANCE, "apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Operation"}
    kinds = ("OperationStarted", "OperationSucceeded", "OperationFailed", "OperationCancelled")
    life = [{**event(f"{run}/{kind}", kind), "resourceRef": operation, "operation": {}} for kind in kinds]
    about_the_cluster = [
        heartbeat(f"{run}/beat"),
        {**heartbeat(f"{run}/rotated"), "kind": "CredentialRotated", "clusterId": c.id},
        {**heartbeat(f"{run}/nobody-made-it"), "resourceRef": {**CLUSTER, "uid": ""}, "conditions": []},
    ]
    transition = {**event(f"{run}/told"), "previous": {"status": "False", "reason": "Installing"}}

    await c.control.events([transition, *about_the_cluster, *life])


@check(Offer.RECORDS, Offer.ACCOUNTS)
async def test_an_event_keeps_what_it_is_about_and_every_condition_PULL_6(c: Examined) -> None:
    await c.control.events([event("a"), heartbeat("b")])

    records = await c.subject.events(c.id)
    assert [record["resourceRef"] for record in records] == [INSTANCE, CLUSTER]
    types = [[entry["type"] for entry in record["conditions"]] for record in records]
    assert types == [["Ready"], ["Connected", "Authenticated"]]


BAD_BATCHES = {
    "empty": [],
    "one malformed": [event("x"), {"kind": "x"}],
    "too long": [event(str(number)) for number in range(101)],
}


@pytest.mark.parametrize("name", BAD_BATCHES)
@check()
async def test_a_batch_that_is_empty_too_long_or_malformed_is_Invalid(c: Examined, name: str) -> None:
    with pytest.raises(Invalid):
        await c.control.events(BAD_BATCHES[name])


@pytest.mark.parametrize("name", BAD_BATCHES)
@check(Offer.RECORDS, Offer.ACCOUNTS)
async def test_of_a_refused_batch_nothing_is_kept(c: Examined, name: str) -> None:
    with pytest.raises(Invalid):
        await c.control.events(BAD_BATCHES[name])
    assert list(await c.subject.events(c.id)) == []
