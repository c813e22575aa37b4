"""The commands that write the first files of a project."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vworkspace_app.cli.boxes import init as init_box

init = App(name="init", help="Begin an operator: a reconciler in Python, or a box.")
init.command(init_box, name="box")


@init.command
def reconciler(
    name: Annotated[str, Parameter(help="Name of the project and of the controller, as `shops`.")],
    /,
    *,
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `Shop`.")],
    group: Annotated[str, Parameter(help="Group of the kind.")] = "example.com",
    directory: Annotated[Path | None, Parameter(help="Folder for the project; without it one of its name.")] = None,
) -> None:
    """Write a project with a kind, its reconciler in Python and a test, which passes as it is.

    Example:

        vworkspace-operator init reconciler shops --group example.com --kind Shop
    """
    from vworkspace_app.commands.init_reconciler import write_project

    write_project(name, group, kind, Path(name) if directory is None else directory)
