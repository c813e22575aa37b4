"""A bounded memory of messages, so that each is issued once; the oldest subject is forgotten first."""

from collections import OrderedDict


class Once:
    """The last message of each subject, for at most `most` subjects."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._said: OrderedDict[str, str] = OrderedDict()

    def first(self, subject: str, said: str) -> bool:
        """Remember the subject's message and report whether it differs from the one before."""
        before = self._said.get(subject)
        self._said[subject] = said
        self._said.move_to_end(subject)
        if len(self._said) > self._most:
            self._said.popitem(last=False)
        return before != said

    def forget(self, subject: str) -> bool:
        """Forget the subject's last message and report whether there was one."""
        return self._said.pop(subject, None) is not None
