"""The command `run`: its flags are the table of settings (`vworkspace_app.settings`)."""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vworkspace_app.settings import load, shown
from vworkspace_app.settings.flags import with_flags
from vworkspace_app.settings.loading import CONFIG_VARIABLE


@with_flags
def run(
    *,
    config: Annotated[
        Path | None, Parameter(help=f"Settings file (YAML); flags and variables win over it. [env: {CONFIG_VARIABLE}]")
    ] = None,
    print_config: Annotated[
        bool, Parameter(help="Print the settings in force, and where each was said, and end.", negative="")
    ] = False,
    **flags: Any,
) -> None:
    """Run the operator. Its text for `--help` is given at registration."""
    loaded = load(flags, os.environ, config)
    if print_config:
        print(shown.print_config(loaded), end="")
        return
    from vworkspace_app.commands.run import run_operator

    run_operator(loaded.settings)
