"""Holding a queue while the control plane is away, so that what waits goes out in order afterwards (PULL-5)."""

from collections.abc import Callable


class SendGate:
    """Whether a queue may send: freely, or one try at a time while it is held. `wake` is told when more is allowed.

    The single tries are for the day on which only the poll is broken: one that works allows the next.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._one_allowed = False
        self.is_held = True

    @property
    def is_open(self) -> bool:
        """Whether something may be sent now."""
        return not self.is_held or self._one_allowed

    def hold(self) -> None:
        """From now on nothing but single tries."""
        self.is_held, self._one_allowed = True, False

    def release(self) -> None:
        """Send freely."""
        self.is_held = False
        self._wake()

    def allow_one(self) -> None:
        """Allow one try."""
        self._one_allowed = True
        self._wake()

    def began(self) -> None:
        """A try is under way, and uses up what was allowed."""
        self._one_allowed = False

    def succeeded(self) -> None:
        """It got an answer."""
        self._one_allowed = self.is_held
