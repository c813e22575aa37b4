"""How a rollout goes on: how many pods of which template there are at a moment, as a function of time alone."""

from datetime import datetime, timedelta

import attrs

from vworkspace_fake.downstream.attempts import Attempt
from vworkspace_fake.downstream.behaviour import DownstreamRule, Ending


@attrs.frozen
class Pods:
    """How many there are. `ready` are those of the newest template that are ready, `left` those of before."""

    want: int
    updated: int
    ready: int
    left: int

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.ready == self.want and not self.left


@attrs.frozen
class Rollout:
    """What is remembered of a workload: the generation that was observed, and the rollout to its template.

    `before` pods of another template were ready when it began. A pod at a time comes to be ready, each after
    `seconds`; with every one that does, one of before goes. Pods of an attempt that fails or stalls are made and
    never ready.
    """

    generation: int
    template: str
    before: int
    want: int
    began: datetime
    seconds: float
    attempt: Attempt
    used: tuple[DownstreamRule, ...] = ()

    @property
    def works(self) -> bool:
        """Whether its pods come to be ready."""
        return self.attempt.outcome.ending is Ending.SUCCEED

    def at(self, now: datetime) -> Pods:
        """The pods at a moment."""
        passed = (now - self.began).total_seconds()
        steps = self.want if self.seconds <= 0 else int((passed + 1e-6) / self.seconds)
        done = max(0, min(self.want, steps)) if self.works else 0
        left = self.before if done == 0 and self.want > 0 else max(0, self.before - done)
        if done == self.want:
            left = 0
        return Pods(self.want, min(self.want, done + 1), done, left)

    def next_step(self, now: datetime) -> datetime | None:
        """When the next pod is ready; None when none comes any more."""
        pods = self.at(now)
        if pods.done or not self.works:
            return None
        return self.began + timedelta(seconds=self.seconds * (pods.ready + 1))
