"""The settings as users see them: flags of commands, the output of `run --print-config`, and docs/settings.md."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

from purekube.apimachinery.secret_material import redact
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.arguments.signature import Parameter
from vworkspace_app.settings.loading import CONFIG_VARIABLE, Loaded
from vworkspace_app.settings.setting_types import SWITCH, TEXT, Setting, as_text
from vworkspace_app.settings.table import SETTINGS

F = TypeVar("F", bound=Callable[..., None])


def with_flags(command: F) -> F:
    """Return `command` with a flag for each setting in its signature, in place of `**flags`.

    A flag that the user does not give has the value None.
    """
    return with_flags_of(SETTINGS)(command)


def with_flags_of(rows: Iterable[Setting]) -> Callable[[F], F]:
    """Return a decorator like `with_flags`, but only with flags for the settings `rows`."""
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
        about = Parameter(name=row.flags, help=f"{row.about} {_hint(row)}".rstrip())
        # Flags are text: so the table reads flags, variables and the file alike, and reports all problems at once.
        kind: Any = Annotated[bool | None, about] if row.setting_type is SWITCH else Annotated[str | None, about]
        yield inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _hint(row: Setting) -> str:
    """Return the hint on a flag's values and default in its help text, such as `(between 1 and 64; default 4)`."""
    hints = [] if row.setting_type in (SWITCH, TEXT) else [row.setting_type.about]
    hints += [f"default {row.shown_default}"] if row.shown_default else []
    return f"({'; '.join(hints)})" if hints else ""


def print_config(loaded: Loaded) -> str:
    """Return the effective settings in the form of a settings file.

    A comment at each setting tells where it was set: by a flag, a variable, the file or the default. Secrets are
    masked. A setting without a value is a comment.
    """
    return "".join(_line(row, loaded) for row in SETTINGS)


def _line(row: Setting, loaded: Loaded) -> str:
    value, origin = getattr(loaded.settings, row.name), loaded.origins[row.name]
    if value is None:
        return f"# {row.key}: not set\n"
    shown = value if isinstance(value, bool | int | float) else as_text(value)
    text = dump([redact({row.key: shown})], Format.YAML).rstrip("\n")
    return f"{text}  # {redact(origin)}\n"


def markdown() -> str:
    """Return the text of docs/settings.md."""
    rows = "\n".join(_row(row) for row in SETTINGS)
    return _PAGE.format(rows=rows, variable=CONFIG_VARIABLE)


def _row(row: Setting) -> str:
    return f"| `{row.flag}` | {row.setting_type.about} | {_code(row.shown_default)} | {row.about} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


_PAGE = """# Settings of `vworkspace-operator run`

Generated from `app/vworkspace_app/settings/table.py`.

A flag wins over the environment, the environment over the file, the file over the default. `--drift-detection` is
`VWORKSPACE_DRIFT_DETECTION` in the environment and `driftDetection` in the file, and so on. The file is YAML, named by
`--config FILE` or `{variable}`. An empty variable counts as not set; an unknown one that begins with `VWORKSPACE_` is
refused, except those that Kubernetes makes for Services. `--namespace` is also `--system-namespace`, its name in
`manifests`. At its start the operator reports all problems, each with the place of the value; `--print-config` prints
the values in force with their origins, as a settings file, with secrets masked.

| flag | takes | default | meaning |
|---|---|---|---|
{rows}

No setting holds a secret: credentials come from files or Secrets, which can be replaced while the operator runs.
"""
