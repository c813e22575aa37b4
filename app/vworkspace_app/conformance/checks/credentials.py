"""Checks of tokens: for which cluster they are valid, how they are replaced, and registration (PULL-8).

With a token, a cluster's agent authenticates to the control plane, the server that offers jobs to it.
"""

import anyio
import pytest

from purekube.apimachinery.errors import Forbidden, Unauthorized
from vworkspace_app.conformance.examined import Examined, check
from vworkspace_app.conformance.subject import Offer


@check()
async def test_a_token_speaks_for_its_cluster_only(c: Examined) -> None:
    with pytest.raises(Forbidden) as refused:
        await c.control.fetch(f"{c.id}-other", 0)
    assert not isinstance(refused.value, Unauthorized), "403, not 401: the token is good"


@check()
async def test_an_unknown_token_is_Unauthorized_and_not_echoed_PULL_8(c: Examined) -> None:
    with pytest.raises(Unauthorized) as rejected:
        await c.subject.control("wrong-token-text").fetch(c.id, 0)
    assert "wrong-token-text" not in str(rejected.value)


@check(Offer.JOBS, Offer.ACCOUNTS)
async def test_a_token_that_is_refused_ends_even_a_waiting_poll(c: Examined) -> None:
    refused: list[Exception] = []

    async def poll() -> None:
        try:
            await c.control.fetch(c.id, 15)
        except Unauthorized as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await anyio.sleep(0.2)
        await c.subject.refuse(c.token)
        await c.enqueue()
    assert len(refused) == 1


@check(Offer.ACCOUNTS)
async def test_a_rotation_whose_answer_was_lost_can_be_repeated_with_the_old_token_PULL_8(c: Examined) -> None:
    lost_token, current_token = (await c.control.rotate())["token"], (await c.control.rotate())["token"]

    assert len({c.token, lost_token, current_token}) == 3
    await c.subject.control(current_token).fetch(c.id, 0)


@check(Offer.ACCOUNTS)
async def test_rotation_gives_a_new_token_and_keeps_the_old_one_for_a_while_PULL_8(c: Examined) -> None:
    fresh = (await c.control.rotate())["token"]

    assert fresh != c.token
    await c.subject.control(fresh).fetch(c.id, 0)
    await c.control.fetch(c.id, 0)


@check(Offer.REGISTRATION)
async def test_registration_is_one_time_once_its_credential_was_used_PULL_8(c: Examined) -> None:
    once = await c.subject.registration(c.id)
    ask = {"registrationToken": once, "clusterId": c.id}

    lost = await c.subject.control(once).register(ask)
    again = await c.subject.control(once).register(ask)

    assert again["clusterId"] == c.id
    assert again["token"] != lost["token"]
    with pytest.raises(Unauthorized):
        await c.subject.control(lost["token"]).fetch(c.id, 0)
    await c.subject.control(again["token"]).fetch(c.id, 0)
    with pytest.raises(Unauthorized):
        await c.subject.control(once).register(ask)


@check(Offer.REGISTRATION)
async def test_registration_takes_a_display_name_and_may_leave_the_cluster_to_the_server_PULL_1(c: Examined) -> None:
    once = await c.subject.registration(c.id)

    issued = await c.subject.control(once).register({"registrationToken": once, "displayName": "Production one"})

    assert issued["clusterId"] == c.id
    await c.subject.control(issued["token"]).fetch(c.id, 0)


@check(Offer.REGISTRATION)
async def test_registration_for_another_cluster_is_Forbidden(c: Examined) -> None:
    once = await c.subject.registration(c.id)

    with pytest.raises(Forbidden):
        await c.subject.control(once).register({"registrationToken": once, "clusterId": f"{c.id}-other"})
