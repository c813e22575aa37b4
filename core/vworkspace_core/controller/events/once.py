"""What was said already, so that it is said once: bounded, the oldest forgotten first."""

from collections import OrderedDict


class Once:
    """The last thing said of each subject, of `most` subjects at most."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._said: OrderedDict[str, str] = OrderedDict()

    def first(self, subject: str, said: str) -> bool:
        """Whether this differs from what was said last of the subject; it counts as said from now on."""
        before = self._said.get(subject)
        self._said[subject] = said
        self._said.move_to_end(subject)
        if len(self._said) > self._most:
            self._said.popitem(last=False)
        return before != said

    def forget(self, subject: str) -> bool:
        """What was said is over; whether there was anything."""
        return self._said.pop(subject, None) is not None
