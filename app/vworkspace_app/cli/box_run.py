"""The command `box run`: its flags are some of those of `run`."""

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from cyclopts import Parameter

from purekube_run.process.errors import USAGE, CommandError
from vworkspace_app.settings import load
from vworkspace_app.settings.flags import with_flags_of
from vworkspace_app.settings.table import SETTINGS

NAMES: Final = (
    "kubeconfig",
    "namespace",
    "workers",
    "listen",
    "metrics_names",
    *(name for name in (row.name for row in SETTINGS) if name.startswith("leader_elect")),
    "webhook_listen",
    "webhook_certificates",
    "grace_period",
    "log_format",
    "log_level",
)
"""The settings of `run` that apply to boxes alone."""


WatchNamespaces: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        help="Watch this namespace only, as roles that were printed with --namespace allow; repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


@with_flags_of(row for row in SETTINGS if row.name in NAMES)
def run(
    *files: Annotated[str, Parameter(name="FILE", help="Files with a box each.")],
    crds: Annotated[
        list[Path] | None,
        Parameter(help="File or folder with further CRDs; repeatable.", negative="", consume_multiple=False),
    ] = None,
    watch_namespace: WatchNamespaces = None,
    **flags: Any,
) -> None:
    """Run the operators of some files. Its text for `--help` is given at registration."""
    from purekube_run.boxes.load import load_boxes, runnable
    from vworkspace_app.commands.box_run import run_boxes

    if not files:
        raise CommandError("give at least one FILE (see vworkspace-operator box run --help)", status=USAGE)
    run_boxes(load(flags, os.environ).settings, runnable(load_boxes(files, crds or [])), watch_namespace or ())
