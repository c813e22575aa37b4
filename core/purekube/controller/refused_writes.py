"""Refused writes explained: which manager holds the field, and the command that hands it back (REC-6, REC-8)."""

from collections.abc import Container, Iterator, Sequence
from typing import Any, Final

from purekube.apimachinery.errors import Conflict, FieldConflict
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.controller.decision import Failure
from purekube.controller.managed_fields import entries, kubectl_patch

_MOST_FIELDS: Final = 8


def is_own_history(failure: Failure, manager: str) -> bool:
    """Report whether a conflict names only our own Update entry (S-32), against which force is right (REC-6)."""
    error = failure.error
    return isinstance(error, Conflict) and bool(error.conflicts) and _other_managers(error, manager) == ()


def _other_managers(error: Conflict, manager: str) -> tuple[FieldConflict, ...]:
    return tuple(conflict for conflict in error.conflicts if conflict.manager != manager)


def conflict_message(failure: Failure, error: Conflict, manager: str) -> str:
    """Name the other managers, their fields and the command that hands these back; editing is not enough (REC-8)."""
    by_manager: dict[str, list[str]] = {}
    for conflict in _other_managers(error, manager):
        by_manager.setdefault(conflict.manager, []).append(conflict.field)
    held = "; ".join(
        f'field manager "{manager}" holds {_first_paths(fields)}' for manager, fields in sorted(by_manager.items())
    )
    command = _hand_back(failure, by_manager.keys())
    return f"{failure.ref}: {held}" + (f". To hand it back: {command}" if command else "")


def _first_paths(fields: Sequence[str]) -> str:
    """List the first paths; not all, since the command after them is the more important part of the message."""
    named = ", ".join(fields[:_MOST_FIELDS])
    return named if len(fields) <= _MOST_FIELDS else f"{named} and {len(fields) - _MOST_FIELDS} more"


def _hand_back(failure: Failure, managers: Container[str]) -> str:
    """Return a command whose JSON patch removes the blocking managedFields entries, guarded by their managers."""
    steps: list[dict[str, Any]] = []
    for index, entry in _object_entries(failure.live):
        manager, operation = str(get_path(entry, "manager")), str(get_path(entry, "operation"))
        if manager in managers:
            path = f"/metadata/managedFields/{index}"
            steps.append({"op": "test", "path": f"{path}/manager", "value": manager})
            steps.append({"op": "test", "path": f"{path}/operation", "value": operation})
            steps.append({"op": "remove", "path": path})
    return kubectl_patch(failure.ref, steps) if steps else ""


def other_holders(live: Manifest | None, manager: str, *path: str) -> set[str]:
    """Return the field managers other than `manager` that hold the field at `path`."""
    fields = [f"f:{step}" for step in path]
    return {
        str(get_path(entry, "manager"))
        for _, entry in _object_entries(live)
        if get_path(entry, "fieldsV1", *fields) is not None and get_path(entry, "manager") != manager
    }


def _object_entries(live: Manifest | None) -> Iterator[tuple[int, Any]]:
    """Yield entries about the object itself, last first, so that a removal does not move the positions still to use.

    `kubectl scale` writes the spec through a subresource; entries of the status hold no field that is applied.
    """
    found = reversed(list(entries(live)))
    return ((index, entry) for index, entry in found if get_path(entry, "subresource") != "status")
