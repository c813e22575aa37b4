"""What shows that an informer lives: when it last moved, when the server last answered (RUN-5)."""

from typing import Final, assert_never

import attrs

from vworkspace_core.runtime.informer_events import Command, InformerEvent, OpenStream, ReadPage, Wait, is_answer

__all__ = ["Pulse"]

_PAGE_SECONDS: Final = 120.0
"""The longest that reading a page may take: several times what the adapter allows for a silence."""


@attrs.define
class Pulse:
    """Times on the monotonic clock; both begin with `began`. `patience` is how long nothing may happen at present."""

    began: float
    moved_at: float = attrs.field(init=False)
    answered_at: float = attrs.field(init=False)
    patience: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.moved_at = self.answered_at = self.began

    def moved(self, event: InformerEvent, now: float) -> None:
        """The informer is told of something."""
        self.moved_at = now
        if is_answer(event):
            self.answered_at = now

    def does(self, command: Command) -> None:
        """The informer is to do something that may take a while."""
        match command:
            case ReadPage():
                self.patience = _PAGE_SECONDS
            case OpenStream(quiet_limit=seconds) | Wait(seconds):
                self.patience = seconds
            case _:
                assert_never(command)
