"""How hard Hypothesis tries, as a share of what the profile says: `make test-long` then tries harder everywhere."""

from hypothesis import settings

__all__ = ["effort"]


def effort(share: float) -> int:
    """The number of examples; 1.0 is what a law gets that says nothing (`tests/conftest.py`)."""
    return max(1, round(settings().max_examples * share))
