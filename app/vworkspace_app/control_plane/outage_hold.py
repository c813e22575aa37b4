"""The hold on a queue while the control plane is away, so that queues are sent in order afterwards (PULL-5)."""

from collections.abc import Callable


class OutageHold:
    """The permission of a queue to send: unlimited, or one try at a time while it is held.

    `wake` is called when more is allowed. Single tries help if only the poll is broken: one that succeeds allows the
    next.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._one_allowed = False
        self.is_held = True

    @property
    def is_open(self) -> bool:
        """Report whether a message may be sent now."""
        return not self.is_held or self._one_allowed

    def hold(self) -> None:
        """Allow only single tries from now on."""
        self.is_held, self._one_allowed = True, False

    def release(self) -> None:
        """Allow unlimited sending."""
        self.is_held = False
        self._wake()

    def allow_one(self) -> None:
        """Allow one try."""
        self._one_allowed = True
        self._wake()

    def began(self) -> None:
        """Record that a try began, which uses up its permission."""
        self._one_allowed = False

    def succeeded(self) -> None:
        """Record that a try was answered, which allows the next one."""
        self._one_allowed = self.is_held
