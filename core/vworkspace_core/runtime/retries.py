"""How long a key waits that did not succeed: failures are counted, and each takes longer (RUN-2)."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar, assert_never

from vworkspace_core.runtime.backoff import Backoff, jitter_of
from vworkspace_core.runtime.outcome import Failed, Outcome, Outdated, Postponed, Succeeded

__all__ = ["Retries"]

K = TypeVar("K", bound=Hashable)

_OUTDATED: Final = Backoff(base=0.05, cap=30.0)


class Retries(Generic[K]):
    """Failures by key since its last success; `total` counts all that were ever tried again."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self.total = 0

    def failures(self, key: K) -> int:
        """Failures of a key since its last success."""
        return self._failures.get(key, 0)

    def delay(self, key: K, outcome: Outcome) -> float | None:
        """Seconds until the key is wanted again after `outcome`; None when it is not."""
        match outcome:
            case Succeeded(look_again_after):
                self._failures.pop(key, None)
                return look_again_after
            case Failed(retry_after, at_most):
                attempt = self._failed(key)
                return max(retry_after, min(at_most, self._backoff.delay(attempt, jitter_of(key, attempt))))
            case Outdated():
                attempt = self._failed(key)
                return _OUTDATED.delay(attempt - 1, jitter_of(key, attempt)) if attempt > 1 else 0.0
            case Postponed(seconds):
                return seconds
            case _:
                assert_never(outcome)

    def _failed(self, key: K) -> int:
        self.total += 1
        self._failures[key] = attempt = self._failures.get(key, 0) + 1
        return attempt
