"""Which types the operators of CEL take, and which they give."""

from typing import Final

from vworkspace_fake.apiserver.cel.syntax import CelSyntaxError
from vworkspace_fake.apiserver.cel.types import BOOL, DYN, CelType

__all__ = ["operate", "want"]

_ORDERED: Final = frozenset(("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration", "dyn"))
_NUMBERS: Final = frozenset(("int", "uint", "double"))


def want(wanted: CelType, found: CelType, where: str) -> None:
    """Raise CelSyntaxError where a value of type `found` stands in the place of another."""
    if not found.fits(wanted):
        raise CelSyntaxError(f"no matching overload for {where!r} applied to {found}")


def operate(operator: str, left: CelType, right: CelType) -> CelType:
    """The type of what a binary operator gives. Raises CelSyntaxError for types that do not go together."""
    mismatch = CelSyntaxError(f"no matching overload for {operator!r} applied to ({left}, {right})")
    if operator in ("&&", "||"):
        want(BOOL, left, operator)
        want(BOOL, right, operator)
        return BOOL
    if operator in ("==", "!="):
        if not (left.fits(right) or "null" in (left.name, right.name)):
            raise mismatch
        return BOOL
    if operator == "in":
        if right.name not in ("list", "map", "object", "dyn"):
            raise mismatch
        if right.name == "list" and right.item is not None and not left.fits(right.item):
            raise mismatch
        return BOOL
    if operator in ("<", "<=", ">", ">="):
        numbers = {left.name, right.name} <= _NUMBERS
        if not (numbers or (left.fits(right) and left.name in _ORDERED and right.name in _ORDERED)):
            raise mismatch
        return BOOL
    return _arithmetic(left, right, mismatch)


def _arithmetic(left: CelType, right: CelType, mismatch: CelSyntaxError) -> CelType:
    if "dyn" in (left.name, right.name):
        return DYN
    if {left.name, right.name} <= {"timestamp", "duration"}:
        return DYN
    if left.name != right.name or left.name not in {*_NUMBERS, "string", "bytes", "list"}:
        raise mismatch
    return left
