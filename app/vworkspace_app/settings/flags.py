"""The flags of a command, made from the table of settings."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from vworkspace_app.settings.setting_types import SWITCH, TEXT, Setting
from vworkspace_app.settings.table import SETTINGS

F = TypeVar("F", bound=Callable[..., None])


def with_flags(command: F) -> F:
    """Give `command`, which takes `**flags`, one flag for each row of the table; a missing flag is passed as None."""
    return with_flags_of(SETTINGS)(command)


def with_flags_of(rows: Iterable[Setting]) -> Callable[[F], F]:
    """Return a decorator like `with_flags`, for these rows only."""
    chosen = tuple(rows)
    return lambda command: _given_flags(command, chosen)


def _given_flags(command: F, rows: Iterable[Setting]) -> F:
    signature = inspect.signature(command)
    own = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = (*own, *_flags(rows))
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _flags(rows: Iterable[Setting]) -> Iterator[inspect.Parameter]:
    for row in rows:
        about = Parameter(name=row.flags if row.also else None, help=f"{row.about} {_hint(row)}".rstrip())
        # Flags are text: so the table reads flags, variables and the file alike, and reports all problems at once.
        kind: Any = Annotated[bool | None, about] if row.setting_type is SWITCH else Annotated[str | None, about]
        yield inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _hint(row: Setting) -> str:
    """Return what a flag takes, and its default: `(between 1 and 64; default 4)`."""
    hints = [] if row.setting_type in (SWITCH, TEXT) else [row.setting_type.about]
    hints += [f"default {row.shown_default}"] if row.shown_default else []
    return f"({'; '.join(hints)})" if hints else ""
