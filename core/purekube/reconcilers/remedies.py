"""The command that grants a right which a controller in Python lacks (RUN-7, REC-13)."""

from typing import Final

from purekube.apimachinery.errors import Right
from purekube.composites.remedies import role_applied
from purekube.reconcilers.controllers import AnyController, name_of

ROLES: Final = "vworkspace-operator controllers rbac"
"""The command that prints the roles of controllers."""


def not_permitted(controller: AnyController, right: Right) -> str:
    """Return a message for people: what is forbidden, and the command that grants the right."""
    return f"the controller {name_of(controller)} may not {right}. To fix: {remedy(controller, right)}"


def remedy(controller: AnyController, right: Right) -> str:
    """Return the command that prints and applies the role."""
    return role_applied(f"{ROLES} {name_of(controller)}", right, f"vworkspace-controller-{name_of(controller)}")
