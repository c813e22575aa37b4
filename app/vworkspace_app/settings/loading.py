"""The loading of settings from flags, else from the environment, else from the file, else from defaults (RUN-5).

All problems are reported at once, each with the place of its value.

The settings as users see them are printed here, too: flags, the output of `run --print-config`, docs/settings.md.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import attrs

from purekube.apimachinery.errors import OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SERVICE_ACCOUNT
from purekube.apimachinery.secret_material import redact
from purekube.ports import KubeApi
from purekube_run.controller.lookups import find
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump, read_values
from vworkspace_app.arguments import Parameter
from vworkspace_app.settings.table import (
    SETTINGS,
    SWITCH,
    TEXT,
    RunSettings,
    Setting,
    as_text,
    clashes,
    inconsistencies,
)
from vworkspace_core.api.installation import Installation, installation_of
from vworkspace_core.api.labels import FIELD_MANAGER

F = TypeVar("F", bound=Callable[..., None])


async def find_installation(api: KubeApi, namespace: str, *, agent: bool) -> Installation:
    """Return how the operator in `namespace` was installed, by the labels of its service account.

    `agent` says whether it has a job agent. If the labels cannot be read, the result assumes that the printed manifests
    were applied. Raises Unavailable and Unauthorized.
    """
    try:
        account = await find(api, ObjectRef(SERVICE_ACCOUNT, namespace, FIELD_MANAGER))
    except (Unavailable, Unauthorized):
        raise
    except OperatorError:
        account = None
    return installation_of(account, namespace, agent=agent)


CONFIG_VARIABLE = "VWORKSPACE_CONFIG"
"""The variable that names the settings file if `--config` does not."""
_PREFIX = "VWORKSPACE_"
_ALL_BUT = 0.9
"""The minimum similarity to a setting's variable at which an unknown variable counts as misspelt."""
_OF_OTHERS = ("VWORKSPACE_ADMIN_TOKEN", "VWORKSPACE_CLUSTER_TOKEN", "VWORKSPACE_TOKEN")
"""The variables that other commands read, which are therefore not reported as unknown."""
_YAML_SWITCHES: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_OF_A_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)\Z")
"""The suffixes of the variables by which Kubernetes describes Services to a pod, whatever a Service is called."""


@attrs.frozen
class Loaded:
    """The effective settings, and the origin of each value.

    `origins` maps each setting's name to its origin: a flag, a variable, the file, or `default`.
    """

    settings: RunSettings
    origins: Mapping[str, str]


@attrs.frozen
class _SettingText:
    """The text that a user gave for a setting, and its origin: the flag, the variable or the file."""

    text: str
    origin: str


def load(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None = None) -> Loaded:
    """Return the effective settings. `flags` maps names of settings to values, None for a flag that was not given.

    An empty environment variable counts as not set. Raises CommandError with all problems, or if the file cannot be
    read.
    """
    file = file or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    problems = list(_misspelt(environ))
    filed = _filed(file, problems) if file else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    given: set[str] = set()
    for row in SETTINGS:
        setting_text = _setting_text(row, flags, environ, filed)
        origins[row.name] = setting_text.origin if setting_text else "default"
        if setting_text is None:
            continue
        given |= {row.name} if setting_text.text else set()
        try:
            values[row.name] = row.setting_type.read(setting_text.text)
        except ValueError as error:
            # A text that begins like a flag is quoted, so that neither a reader nor the redaction of `-pPASSWORD`
            # mistakes it.
            shown = f"'{setting_text.text}'" if setting_text.text.startswith("-") else setting_text.text
            problems.append(f"{setting_text.origin} {shown}: {error}")
    settings = RunSettings(**values)
    problems += (*clashes(given, settings), *inconsistencies(settings))
    if problems:
        raise CommandError(redact("; ".join(problems)), status=USAGE)
    return Loaded(settings, origins)


def _setting_text(
    row: Setting, flags: Mapping[str, Any], environ: Mapping[str, str], filed: Mapping[str, _SettingText]
) -> _SettingText | None:
    """Return the text that the user gave for a setting, with its origin, or None if there is none.

    The flag has priority over the environment variable, and that over the settings file (`filed`).
    """
    flag = flags.get(row.name)
    if flag is not None:
        return _SettingText(_text(flag), row.flag)
    for variable in row.variables:
        if environ.get(variable):
            return _SettingText(environ[variable], variable)
    return filed.get(row.name)


def _filed(file: Path, problems: list[str]) -> dict[str, _SettingText]:
    """Return the settings in the file, by name. Problems with the file's keys are appended to `problems`."""
    rows = {key: row for row in SETTINGS for key in row.keys}
    values: dict[str, _SettingText] = {}
    for key, value in _mapping(file).items():
        origin = f"{file}: {key}"
        if key not in rows:
            problems.append(f"{origin}: no such setting{''.join(_similar_keys(key, rows))}")
        elif isinstance(value, dict | list):
            problems.append(f"{origin}: one value is wanted, not a {'mapping' if isinstance(value, dict) else 'list'}")
        elif value is not None:
            values[rows[key].name] = _SettingText(_filed_text(rows[key], str(value)), origin)
    return values


def _filed_text(row: Setting, text: str) -> str:
    """Return the text of a setting in the file. A switch may have any word that is a boolean in YAML."""
    return _YAML_SWITCHES.get(text.lower(), text) if row.setting_type is SWITCH else text


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem for each environment variable that is probably a misspelt setting."""
    rows = {variable for row in SETTINGS for variable in row.variables}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in (_PREFIX, *rows, CONFIG_VARIABLE, *_OF_OTHERS):
            close = get_close_matches(name, rows, n=1, cutoff=_ALL_BUT)
            if close or not _OF_A_SERVICE.search(name):
                yield f"{name}: no such setting" + "".join(f"; did you mean {suggestion}?" for suggestion in close)


def _mapping(file: Path) -> dict[str, Any]:
    """Return the mapping in the file. An empty file has an empty mapping.

    Raises CommandError if the file has anything else.
    """
    # As numbers, the version 1.10 would be 1.1, and the cluster id 0123 would be 83.
    values = [value for _, value in read_values(str(file), as_texts=True)]
    if len(values) > 1 or not all(isinstance(value, dict) for value in values):
        raise CommandError(f"{file}: one mapping of names to values is wanted")
    return {str(key): item for value in values for key, item in value.items()}


def _similar_keys(key: str, rows: Mapping[str, Setting]) -> Iterator[str]:
    for close in get_close_matches(key, rows, n=1):
        yield f"; did you mean {close}?"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_flags_of(rows: Iterable[Setting]) -> Callable[[F], F]:
    """Return a decorator that puts a flag for each setting of `rows` in a command's signature, in place of `**flags`.

    A flag that the user does not give has the value None.
    """
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
    default = f"`{row.shown_default}`" if row.shown_default else ""
    return f"| `{row.flag}` | {row.setting_type.about} | {default} | {row.about} |"


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
