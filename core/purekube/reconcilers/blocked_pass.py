"""The words in the status of a reconciler's object when its pass was stopped, usually by a missing right (REC-13)."""

from typing import Final

from purekube.apimachinery.errors import Right
from purekube.composites.blocked_pass import stopped
from purekube.composites.remedies import role_applied
from purekube.controller.blocked_pass import BlockedWords
from purekube.reconcilers.controllers import STANDARD, AnyController, Reconciler, kind_of, name_of
from purekube.reconcilers.outcome import READY, STALLED

ROLES: Final = "vworkspace-operator controllers rbac"
"""The command that prints the roles of controllers."""


def blocked_words(controller: AnyController) -> BlockedWords:
    """Return how the status of the controller's kind describes a stopped pass."""
    own = controller.conditions if isinstance(controller, Reconciler) else ()
    return BlockedWords(
        kind_of(controller),
        (*STANDARD, *own),
        stopped,
        lambda wanted, at: {},
        events={READY: False, STALLED: True},
    )


def not_permitted(controller: AnyController, right: Right) -> str:
    """Return a message for people: what is forbidden, and the command that grants the right."""
    return f"the controller {name_of(controller)} may not {right}. To fix: {remedy(controller, right)}"


def remedy(controller: AnyController, right: Right) -> str:
    """Return the command that prints and applies the role."""
    return role_applied(f"{ROLES} {name_of(controller)}", right, f"vworkspace-controller-{name_of(controller)}")
