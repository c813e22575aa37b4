"""The check that only one controller writes the statuses of a kind, since two would undo each other's writes (PH-9)."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.controller.managed_fields import StatusOwner

_OPERATOR: Final = "vworkspace-operator"
_PREFIXES: Final = {"vworkspace-box.": "box", "vworkspace-controller.": "controller"}


@attrs.frozen
class StatusWriter:
    """A controller that writes the statuses of a kind. `title` is its name in messages, such as `box webapp` (a box is
    an operator that a file declares).
    """

    kind: Kind
    title: str


def shared_statuses(writers: Iterable[StatusWriter]) -> Iterator[str]:
    """Yield a message for each controller whose kind already has another status writer. Two versions of a kind count as
    the same kind.
    """
    first: dict[tuple[str, str], str] = {}
    for writer in writers:
        key = (writer.kind.group, writer.kind.plural)
        if key not in first:
            first[key] = writer.title
        else:
            yield (
                f"the {first[key]} and the {writer.title} would both write the status of {writer.kind.kind} objects "
                f"({writer.kind.crd_name}), and each would undo the other: run one of them"
            )


def other_writer(owner: StatusOwner, live: Manifest) -> str:
    """Return the name of another controller of this project that writes the object's conditions, as managedFields show.
    Return "" if there is none. A manual edit does not count, because it does not recur.

    `owner` holds this controller's own field manager and the types of its conditions.
    """
    return next((title for manager in owner.condition_holders(live) if (title := _title(manager))), "")


def _title(manager: str) -> str:
    if manager == _OPERATOR:
        return "operator"
    kinds = (
        f"{kind} {manager.removeprefix(prefix)}" for prefix, kind in _PREFIXES.items() if manager.startswith(prefix)
    )
    return next(kinds, "")


def refusal(title: str, other: str, hand_back: str) -> str:
    """Return the message that the controller `title` writes no status because the controller `other` already does.

    Both would undo each other's writes. `hand_back` is the command that hands the status over once `other` is gone.
    """
    renamed = " If it was renamed, give it its former name back."
    return (
        f"the {other} writes the status of this object, so the {title} leaves it alone: each would undo the other. "
        f"Run one of them.{renamed if other.split()[0] == title.split()[0] else ''} "
        f"Once the {other} is gone for good, hand the status over: {hand_back}"
    )
