"""Defects of the roll-out of an applied box, for `defects.py`: each puts one wrong line in."""

from collections.abc import Collection
from typing import Any

import attrs
import pytest

from purekube.boxes.rollout_policy import BoxRollout
from purekube.boxes.rollouts import applied, rollout
from purekube.boxes.rollouts.applied import BoxState
from purekube.boxes.rollouts.judgement import Foresight
from purekube.boxes.rollouts.revised import RevisedBox
from purekube.controller.decision import Decision


def moves_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all objects be not Ready at a time."""
    monkeypatch.setattr(BoxRollout, "unavailable_of", lambda self, total: total)


def goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no failed objects when the next ones are chosen."""
    correct = rollout._phase

    def defective(policy: BoxRollout, counts: rollout.RolloutCounts, *given: Any) -> Any:
        return correct(policy, attrs.evolve(counts, failed=0), *given)

    monkeypatch.setattr(rollout, "_phase", defective)


def undoes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find no revision to which objects can return."""
    monkeypatch.setattr(applied, "_former", lambda state: False)


def judges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every revision for one that no dry run refuses."""
    monkeypatch.setattr(BoxState, "foresight", property(lambda self: Foresight.SOUND))


def moves_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the last object in the order first."""
    correct = rollout.in_order

    def defective(order: Any, members: Collection[rollout.RolloutMember]) -> list[rollout.RolloutMember]:
        return correct(order, members)[::-1]

    monkeypatch.setattr(rollout, "in_order", defective)


def decides_by_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide every object by the newest definition, whatever revision it records."""
    correct = RevisedBox._decide

    def defective(self: RevisedBox, *given: Any) -> Decision:
        newest = [*self.boxes.values()][-1]
        return correct(attrs.evolve(self, boxes=dict.fromkeys(self.boxes, newest)), *given)

    monkeypatch.setattr(RevisedBox, "_decide", defective)
