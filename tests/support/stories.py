"""Tests that are told as stories: an async function of a World, run on each face."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.servers import EVERY_DAY, FACES, Face, Story


def on_every_face(story: Story) -> Callable[[Face], None]:
    """A test that runs `story` on each face; in a cluster it is slow."""
    return _on(FACES, story)


def on_every_face_every_day(story: Story) -> Callable[[Face], None]:
    """A test that a plain run takes on each face."""
    return _on(EVERY_DAY, story)


def _on(faces: Sequence[Any], story: Story) -> Callable[[Face], None]:
    def test(face: Face) -> None:
        face.run(story)

    test.__name__ = test.__qualname__ = story.__name__
    test.__doc__, test.__module__ = story.__doc__, story.__module__
    return pytest.mark.parametrize("face", faces, ids=lambda face: face.name)(test)
