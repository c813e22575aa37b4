"""How an object of a reconciler's kind says that a pass over it was stopped: a missing right above all (REC-13)."""

from typing import Final

from vworkspace_core.apimachinery.errors import Right
from vworkspace_core.composites.blocked_pass import stopped
from vworkspace_core.composites.remedies import role_applied
from vworkspace_core.controller.blocked_pass import BlockedWords
from vworkspace_core.reconcilers.controllers import STANDARD, AnyController, Reconciler, kind_of, name_of
from vworkspace_core.reconcilers.outcome import READY, STALLED

ROLES: Final = "vworkspace-operator controllers rbac"
"""The command that prints the roles of controllers."""


def blocked_words(controller: AnyController) -> BlockedWords:
    """How the status of its kind says it."""
    own = controller.conditions if isinstance(controller, Reconciler) else ()
    return BlockedWords(
        kind_of(controller),
        (*STANDARD, *own),
        stopped,
        lambda wanted, at: {},
        events={READY: False, STALLED: True},
    )


def not_permitted(controller: AnyController, right: Right) -> str:
    """For people: what may not be done, and what gives the right."""
    return f"the controller {name_of(controller)} may not {right}. To fix: {remedy(controller, right)}"


def remedy(controller: AnyController, right: Right) -> str:
    """The command that prints the role."""
    return role_applied(f"{ROLES} {name_of(controller)}", right, f"vworkspace-controller-{name_of(controller)}")
