"""The observer of the reviews that the webhooks answer. The metrics implement it (RUN-5)."""

from typing import Final, Protocol


class ReviewObserver(Protocol):
    """An observer of reviews, by the path of their webhook. Every review that began ends, once."""

    def webhook(self, path: str) -> None:
        """Observe that a webhook is served."""

    def review_began(self, path: str) -> None:
        """Observe that a webhook received a review."""

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        """Observe that a review was answered with this HTTP code; one that was abandoned or failed counts as 500."""


class _NoObserver:
    def webhook(self, path: str) -> None:
        pass

    def review_began(self, path: str) -> None:
        pass

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        pass


UNWATCHED: Final[ReviewObserver] = _NoObserver()
