"""The command `controllers run`: its flags are some of those of `run`."""

import os
from typing import Annotated, Any

from cyclopts import Parameter

from purekube_run.process.errors import USAGE, CommandError
from vworkspace_app.cli.box_run import NAMES, WatchNamespaces
from vworkspace_app.settings import load
from vworkspace_app.settings.flags import with_flags_of
from vworkspace_app.settings.table import SETTINGS


@with_flags_of(row for row in SETTINGS if row.name in NAMES)
def run(
    *names: Annotated[str, Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")],
    watch_namespace: WatchNamespaces = None,
    **flags: Any,
) -> None:
    """Run controllers alone. Its text for `--help` is given at registration."""
    from vworkspace_app.commands.controllers import run_by_name

    if not names:
        raise CommandError("give at least one NAME (see vworkspace-operator controllers list)", status=USAGE)
    run_by_name(load(flags, os.environ).settings, names, watch_namespace or ())
