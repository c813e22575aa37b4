"""The settings for people: `run --print-config`, docs/settings.md."""

from purekube.apimachinery.secret_material import redact
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.settings.loading import CONFIG_VARIABLE, Loaded
from vworkspace_app.settings.setting_types import Setting, as_text
from vworkspace_app.settings.table import SETTINGS


def print_config(loaded: Loaded) -> str:
    """Return a settings file of the settings in force, with origins.

    Secrets are masked; unset settings are comments.
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
