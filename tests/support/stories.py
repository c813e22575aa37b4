"""Tests that are told as stories: an async function of a World, run on each face."""

from collections.abc import Callable

import pytest

from tests.support.servers import FACES, Face, Story

__all__ = ["on_every_face"]


def on_every_face(story: Story) -> Callable[[Face], None]:
    """A test that runs `story` on each face."""

    def test(face: Face) -> None:
        face.run(story)

    test.__name__ = test.__qualname__ = story.__name__
    test.__doc__, test.__module__ = story.__doc__, story.__module__
    return pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)(test)
