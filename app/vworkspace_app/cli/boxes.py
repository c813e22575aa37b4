"""The commands about boxes: operators from a file."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

box = App(name="box", help="Operators from a file: check them, see what they would do, convert those of others.")


@box.command
def convert(
    file: Annotated[str, Parameter(name="FILE", help="A YAML file; `-` is standard input.")],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write files into this folder instead of printing them.")
    ] = None,
) -> int:
    """Make boxes of a Katalog of Orkestra, or of a ResourceGraphDefinition of kro.

    What has no counterpart in a box is told on standard error, with its line, and the exit status is then 1; the boxes
    are made all the same. A CRD that a Katalog names is read from the file beside it. Examples:

        vworkspace-operator box convert webapp.katalog.yaml
        vworkspace-operator box convert webapp.rgd.yaml -o boxes
    """
    from vworkspace_app.commands.box_convert import convert_file, write_files

    found = convert_file(file)
    if output is None:
        print("---\n".join(made.text for made in found.files), end="")
    else:
        for path in write_files(found.files, output):
            print(path)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    told = f"{len(found.problems)} not converted" if found.problems else "everything converted"
    print(f"convert: {found.boxes} box{'es' * (found.boxes != 1)}, {told}", file=sys.stderr)
    return int(bool(found.problems))
