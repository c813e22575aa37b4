"""The progress of a rollout: the number of pods of each template, as a function of time alone."""

from datetime import datetime, timedelta

import attrs

from kubelab.downstream.attempts import Attempt
from kubelab.downstream.behaviour import DownstreamRule, Ending


@attrs.frozen
class Pods:
    """Counts of pods. `ready` are ready pods of the newest template, `left` remaining pods of earlier ones."""

    want: int
    updated: int
    ready: int
    left: int

    @property
    def done(self) -> bool:
        """True if the rollout is complete."""
        return self.ready == self.want and not self.left


@attrs.frozen
class Rollout:
    """The memory of a workload: the observed generation, and the rollout to its template.

    `before` pods of another template were ready when it began. One pod after the other becomes ready, each after
    `seconds`, and replaces one of these. Pods of an attempt that fails or stalls are created and never become ready.
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
        """Report whether the rollout's pods become ready."""
        return self.attempt.outcome.ending is Ending.SUCCEED

    def at(self, now: datetime) -> Pods:
        """Return the counts of pods at a time."""
        passed = (now - self.began).total_seconds()
        steps = self.want if self.seconds <= 0 else int((passed + 1e-6) / self.seconds)
        done = max(0, min(self.want, steps)) if self.works else 0
        left = self.before if done == 0 and self.want > 0 else max(0, self.before - done)
        if done == self.want:
            left = 0
        return Pods(self.want, min(self.want, done + 1), done, left)

    def next_step(self, now: datetime) -> datetime | None:
        """Return when the next pod becomes ready; None if no more will."""
        pods = self.at(now)
        if pods.done or not self.works:
            return None
        return self.began + timedelta(seconds=self.seconds * (pods.ready + 1))
