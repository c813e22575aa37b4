"""A decorator for tests that are one story: an async function that a world, a site or an event loop runs."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Story: TypeAlias = Callable[..., Awaitable[object]]


def run_by(play: Callable[..., object] | str, *more: Any, **options: Any) -> Callable[[Story], Callable[..., None]]:
    """Return a decorator that makes a test of a story: the test calls `play(story, *more, **options)`.

    `play` passes the story's positional parameters, such as a site. Its keyword-only parameters are pytest's fixtures.
    If `play` is a string, it names a fixture or parameter of the test that is the function.
    """

    def decorate(story: Story) -> Callable[..., None]:
        @functools.wraps(story)
        def test(**fixtures: Any) -> None:
            player = fixtures.pop(play) if isinstance(play, str) else play
            player(functools.partial(story, **fixtures), *more, **options)

        of_pytest = [each for each in inspect.signature(story).parameters.values() if each.kind is each.KEYWORD_ONLY]
        if isinstance(play, str):
            of_pytest.append(inspect.Parameter(play, inspect.Parameter.KEYWORD_ONLY))
        test.__signature__ = inspect.Signature(of_pytest)  # type: ignore[attr-defined]  # pytest reads it
        return test

    return decorate
