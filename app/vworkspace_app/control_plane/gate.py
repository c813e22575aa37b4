"""Holding a lane while the control plane is away, so that what waits goes out in order afterwards (PULL-5)."""

from collections.abc import Callable


class SendGate:
    """Whether a lane may send: freely, or one try at a time while it is held. `wake` is told when more is allowed.

    The single tries are for the day on which only the poll is broken: one that works allows the next.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._allowed = False
        self.held = True

    @property
    def is_open(self) -> bool:
        """Whether something may be sent now."""
        return not self.held or self._allowed

    def hold(self) -> None:
        """From now on nothing but single tries."""
        self.held, self._allowed = True, False

    def release(self) -> None:
        """Send freely."""
        self.held = False
        self._wake()

    def let_one(self) -> None:
        """Allow one try."""
        self._allowed = True
        self._wake()

    def began(self) -> None:
        """A try is under way, and uses up what was allowed."""
        self._allowed = False

    def worked(self) -> None:
        """It got an answer."""
        self._allowed = self.held
