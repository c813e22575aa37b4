"""The observer of the reviews that the webhooks answer. The metrics implement it (RUN-5)."""

from typing import Final, Protocol


class ReviewObserver(Protocol):
    """A webhook is known by its path. Every review that began ends, once."""

    def webhook(self, path: str) -> None:
        """One is served there."""

    def review_began(self, path: str) -> None:
        """A review came to it."""

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        """It was answered with this code of HTTP; what was given up or failed counts as 500."""


class _Nobody:
    def webhook(self, path: str) -> None:
        pass

    def review_began(self, path: str) -> None:
        pass

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        pass


UNWATCHED: Final[ReviewObserver] = _Nobody()
