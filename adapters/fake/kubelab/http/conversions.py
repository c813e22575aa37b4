"""Requests that need conversion webhooks: try, fetch the missing conversions, try again."""

import http.client
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from anyio import to_thread

from kubelab.http.webhook_calls import Services, post
from kubelab.model.conversion import ConversionAnswers, ConversionNeeded, failed
from kubelab.model.failure import internal
from kubelab.model.records import encode
from kubelab.server import ApiServer

_ROUNDS = 50
"""The most retries: more than a kind has versions, because an apply compares its fields in each version."""

T = TypeVar("T")


async def converted(
    server: ApiServer, act: Callable[[], T], services: Services, answers: ConversionAnswers | None = None
) -> T:
    """Return the result of `act`, once all conversions that it needs have been fetched.

    `act` changes nothing before that. Raises ApiFailure.
    """
    known = ConversionAnswers() if answers is None else answers
    for _ in range(_ROUNDS):
        try:
            with server.conversions.answered_by(known):
                return act()
        except ConversionNeeded as need:
            await _ask(need, known, services)
    raise internal("the objects changed each time while their conversion was asked for")


async def _ask(need: ConversionNeeded, answers: ConversionAnswers, services: Services) -> None:
    uid = str(uuid4())
    try:
        answer = await to_thread.run_sync(post, need.webhook.client, encode(need.review(uid)), services)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise failed(need.objects[0], f"{type(error).__name__}: {error}") from error
    answers.learn(need, answer, uid)
