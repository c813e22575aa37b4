"""The URL paths of the webhook server, as the webhook configurations name them and the server serves them."""

from typing import Final

DEFAULT_PATH: Final = "/default"
"""The path of the defaulting webhook."""

GATED_PATH: Final = "/validate"
"""The path of the validating webhook for objects in managed namespaces."""

UNGATED_PATH: Final = "/validate-ungated"
"""The path of the validating webhook for objects in all other namespaces."""


def validate_path(box: str) -> str:
    """Return the URL path of the webhook that validates objects by the rules of the box named `box`.

    A box is a file that declares an operator for one kind.
    """
    return f"/boxes/{box}/validate"


def default_path(box: str) -> str:
    """Return the URL path of the mutating webhook that sets the fields computed by the box with this name.

    A box is a file that declares an operator for one kind.
    """
    return f"/boxes/{box}/default"


def kind_review_path(crd_name: str, *, mutates: bool) -> str:
    """Return the URL path of a webhook for a kind that is written in Python; `crd_name` is the name of the kind's CRD.

    If `mutates` is True the webhook sets defaults, otherwise it validates.
    """
    return f"/kinds/{crd_name}/{'default' if mutates else 'validate'}"
