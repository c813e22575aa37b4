"""The commands about boxes: operators in a file."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

box = App(name="box", help="Operators from a file: check them, show them, begin one, convert those of others.")

Files = Annotated[list[str], Parameter(help="Files with one box each; their CRDs lie beside them.")]
Crds = Annotated[
    list[Path] | None,
    Parameter(
        help="Folder or file with CRDs of the kinds that the box makes or reads; repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


@box.command
def check(
    files: Files,
    /,
    *,
    crds: Crds = None,
    output: Annotated[Literal["text", "json"], Parameter(name=("--output", "-o"), help="Form of the answer.")] = "text",
) -> int:
    """Say everything that is wrong with boxes, with file, line and column; needs no cluster.

    Expressions are typed by the schemas of the CRDs and of built-in kinds. Exit status 1 says that a box cannot be run.
    Examples:

        vworkspace-operator box check webapp.yaml
        vworkspace-operator box check boxes/*.yaml --crds crds/ -o json
    """
    from vworkspace_app.commands.box_check import check_boxes

    return check_boxes(files, crds or [], output)


@box.command
def graph(
    file: Annotated[str, Parameter(help="File with the box.")],
    /,
    *,
    crds: Crds = None,
    output: Annotated[
        Literal["mermaid", "dot"], Parameter(name=("--output", "-o"), help="Language of the graph.")
    ] = "mermaid",
) -> None:
    """Print what waits for what, each edge with the line that made it.

    Example:

        vworkspace-operator box graph webapp.yaml -o dot | dot -Tsvg > webapp.svg
    """
    from vworkspace_app.commands.box_pages import graph_of_file

    print(graph_of_file(file, crds or [], output), end="")


@box.command
def docs(file: Annotated[str, Parameter(help="File with the box.")], /, *, crds: Crds = None) -> None:
    """Print a page about a box for its users: fields, what is made of them and in which order, conditions.

    Example:

        vworkspace-operator box docs webapp.yaml > webapp.md
    """
    from vworkspace_app.commands.box_pages import page_of_file

    print(page_of_file(file, crds or []), end="")


RUN = """Run the operators of boxes, and nothing else. Inside a cluster the service account is taken.

Beside the operator's own kinds they are run by `run --box FILE`. Each flag can be given as a variable
(`--log-level`: `VWORKSPACE_LOG_LEVEL`) too. Example:

    vworkspace-operator box run webapp.yaml --kubeconfig kc
"""

box.command("vworkspace_app.cli.box_run:run", name="run", help=RUN)


@box.command
def init(
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `WebApp`.")],
    /,
    *,
    group: Annotated[str, Parameter(help="Group of the kind.")] = "example.com",
    plural: Annotated[str, Parameter(help="Its plural; without it the kind in small letters and an s.")] = "",
    directory: Annotated[Path, Parameter(help="Folder for the two files.")] = Path(),
) -> None:
    """Write a box and its CRD to begin with; files that exist are left alone.

    Example:

        vworkspace-operator box init WebApp && vworkspace-operator box check webapp.yaml
    """
    from vworkspace_app.commands.box_init import write_beginning

    write_beginning(kind, group, plural, directory)


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
