"""The paths of the webhooks' server, which installations name and the server serves."""

from typing import Final

DEFAULT_PATH: Final = "/default"
"""The path that fills in defaults."""

GATED_PATH: Final = "/validate"
"""The path that judges objects in managed namespaces."""

UNGATED_PATH: Final = "/validate-ungated"
"""The path that judges objects in all other namespaces."""

CONVERT_PATH: Final = "/convert"
"""The path that converts objects of kinds with several versions."""


def validate_path(box: str) -> str:
    """Return the URL path of the webhook that validates objects by the rules of a box."""
    return f"/boxes/{box}/validate"


def default_path(box: str) -> str:
    """Return the URL path of the webhook that sets the fields that a box computes."""
    return f"/boxes/{box}/default"
