"""One attempt of a simulated controller at its object: how it ends, and when, by the rules of the test."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from vworkspace_fake.downstream.behaviour import DownstreamOutcome, DownstreamRule, Ending
from vworkspace_fake.downstream.controller import ObjectView


@attrs.frozen
class Attempt:
    """One attempt under way. It ends at `until`; one that stalls has no end."""

    outcome: DownstreamOutcome
    began: datetime
    until: datetime | None
    rule: DownstreamRule | None = None

    def used_up(self, used: tuple[DownstreamRule, ...]) -> tuple[DownstreamRule, ...]:
        """The rules that have had their turn after this one: `used`, and its own."""
        return used if self.rule is None else (*used, self.rule)


def begin(view: ObjectView, used: Sequence[DownstreamRule], seconds: float) -> Attempt:
    """A new attempt at the object, which takes `seconds` where its outcome does not say."""
    rule = view.behaviour.choose(view.ref, used)
    outcome = rule.outcome if rule is not None else DownstreamOutcome()
    takes = outcome.seconds if outcome.seconds is not None else seconds
    until = None if outcome.ending is Ending.STALL else view.at(takes)
    return Attempt(outcome, view.now, until, rule)


def released(view: ObjectView, attempt: Attempt) -> bool:
    """Whether a stalled attempt is to be decided anew: its rule is no longer among those that hold."""
    return attempt.until is None and attempt.rule not in view.behaviour.rules
