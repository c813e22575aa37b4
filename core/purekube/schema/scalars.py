"""Restrictions on single values: a string, a number or a member of an enumeration."""

from typing import Any, Final

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import go_value, invalid_type, invalid_value, not_supported, too_long
from purekube.schema.equality import equal
from purekube.schema.formats import matches_format
from purekube.schema.node import Schema, ValueChecks

INT_FORMATS: Final = {"int32": 31, "int64": 63}
"""Integer formats and their number of bits without the sign."""


def check_scalar(schema: Schema, checks: ValueChecks, value: Any, path: str) -> list[StatusCause]:
    """Check length, pattern, format, bounds and enumeration of one value."""
    causes: list[StatusCause] = []
    if isinstance(value, str):
        causes += _string(checks, value, path)
        causes += check_format(schema, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        causes += _number(checks, value, path)
    return causes + check_enum(checks, value, path)


def check_format(schema: Schema, value: str, path: str) -> list[StatusCause]:
    """Check the format of a string, if the schema names one that is checked."""
    if not schema.format or matches_format(schema.format, value):
        return []
    return [invalid_type(path, value, f"{path} in body must be of type {schema.format}: {go_value(value)}")]


def _string(checks: ValueChecks, value: str, path: str) -> list[StatusCause]:
    """Return the first failure of length and pattern; a real server reports no more than one of them."""
    if checks.max_length is not None and len(value) > checks.max_length:
        return [too_long(path, checks.max_length)]
    if checks.min_length is not None and len(value) < checks.min_length:
        return [invalid_value(path, value, f"{path} in body should be at least {checks.min_length} chars long")]
    if checks.pattern is not None and not checks.pattern.matches_in(value):
        return [invalid_value(path, value, f"{path} in body should match '{checks.pattern_text}'")]
    return []


def check_range(name: str, value: int, path: str) -> list[StatusCause]:
    """Check the range of an integer format."""
    bound = 1 << INT_FORMATS[name]
    if -bound <= value < bound:
        return []
    return [invalid_type(path, value, f"Checked value {path} with value {value} must be an {name}")]


def _number(checks: ValueChecks, value: float, path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    multiple = checks.multiple_of
    if multiple is not None and abs(value / multiple - round(value / multiple)) > 1e-9:
        causes.append(invalid_value(path, value, f"{path} in body should be a multiple of {go_value(multiple)}"))
    low, high = checks.minimum, checks.maximum
    if high is not None and (value >= high if checks.exclusive_maximum else value > high):
        words = "less than" if checks.exclusive_maximum else "less than or equal to"
        causes.append(invalid_value(path, value, f"{path} in body should be {words} {go_value(high)}"))
    if low is not None and (value <= low if checks.exclusive_minimum else value < low):
        words = "greater than" if checks.exclusive_minimum else "greater than or equal to"
        causes.append(invalid_value(path, value, f"{path} in body should be {words} {go_value(low)}"))
    return causes


def check_enum(checks: ValueChecks | None, value: Any, path: str) -> list[StatusCause]:
    """Check membership in an enumeration; applies to null too."""
    if checks is None or checks.enum is None or any(equal(value, allowed) for allowed in checks.enum):
        return []
    return [not_supported(path, value, checks.enum)]
