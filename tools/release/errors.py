"""The failure of a step."""


class ReleaseError(Exception):
    """A reason not to release, in one line."""
