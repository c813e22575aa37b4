"""Events of no job: kept once per key (PULL-6)."""

import uuid
from typing import Any

import pytest

from vworkspace_app.conformance.examined import AT, Examine, Examined, needs
from vworkspace_app.conformance.subject import Offer
from vworkspace_core.errors import Invalid


def event(key: str) -> dict[str, Any]:
    """An event that no instance has."""
    return {"kind": "ConditionTransition", "eventKey": f"conformance/{key}", "timestamp": AT}


def test_a_batch_of_a_hundred_events_is_taken_and_so_is_its_replay_PULL_6(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        run = uuid.uuid4().hex
        batch = [event(f"{run}/{number}") for number in range(100)]
        await c.control.events(batch)
        await c.control.events(batch)

    examine(body)


@needs(Offer.RECORDS, Offer.ACCOUNTS)
def test_events_are_kept_once_per_key_in_order_PULL_6(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        await c.control.events([event("a"), event("b")])
        await c.control.events([event("b"), event("c"), event("a")])

        kept = [found["eventKey"] for found in await c.subject.events(c.id)]
        assert kept == [f"conformance/{key}" for key in "abc"]

    examine(body)


BAD_BATCHES = {
    "empty": [],
    "one malformed": [event("x"), {"kind": "x"}],
    "too long": [event(str(number)) for number in range(101)],
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_batch_that_is_empty_too_long_or_malformed_is_Invalid(examine: Examine, name: str) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Invalid):
            await c.control.events(BAD_BATCHES[name])

    examine(body)


@pytest.mark.parametrize("name", BAD_BATCHES)
@needs(Offer.RECORDS, Offer.ACCOUNTS)
def test_of_a_refused_batch_nothing_is_kept(examine: Examine, name: str) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Invalid):
            await c.control.events(BAD_BATCHES[name])
        assert list(await c.subject.events(c.id)) == []

    examine(body)
