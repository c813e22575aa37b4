"""One attempt of a simulated controller at its object: its outcome and its duration, by the rules of the test."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from kubelab.downstream.behaviour import DownstreamOutcome, DownstreamRule, Ending
from kubelab.downstream.controller import ObjectView


@attrs.frozen
class Attempt:
    """A running attempt. It ends at `until`; a stalled one has no end."""

    outcome: DownstreamOutcome
    began: datetime
    until: datetime | None
    rule: DownstreamRule | None = None

    def used_up(self, used: tuple[DownstreamRule, ...]) -> tuple[DownstreamRule, ...]:
        """Return the rules that are used up after this attempt: `used`, and its own."""
        return used if self.rule is None else (*used, self.rule)


def begin(view: ObjectView, used: Sequence[DownstreamRule], seconds: float) -> Attempt:
    """Begin an attempt at the object, which takes `seconds` unless its outcome has a duration."""
    rule = view.behaviour.choose(view.ref, used)
    outcome = rule.outcome if rule is not None else DownstreamOutcome()
    takes = outcome.seconds if outcome.seconds is not None else seconds
    until = None if outcome.ending is Ending.STALL else view.at(takes)
    return Attempt(outcome, view.now, until, rule)


def released(view: ObjectView, attempt: Attempt) -> bool:
    """Report whether a stalled attempt must be decided again, because its rule was removed."""
    return attempt.until is None and attempt.rule not in view.behaviour.rules
