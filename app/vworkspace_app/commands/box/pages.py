"""The commands `box graph` and `box docs`, which print a box's dependency graph and a page for its users."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from purekube.boxes.box import Box
from purekube_run.boxes.box_drawing import dot, mermaid
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.boxes.page import page
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds


def graph_of_file(file: str, crds: Sequence[Path], language: str) -> str:
    """Return the dependency graph of the box in a file, in the language `mermaid` or `dot`.

    `crds` are files with further CRDs. Raises CommandError for a box with problems.
    """
    box = _box(file, crds)
    return mermaid(box) if language == "mermaid" else dot(box)


def _box(file: str, crds: Sequence[Path]) -> Box:
    return runnable(load_boxes([file], crds))[0]


def graph(
    file: Annotated[str, Parameter(help="File with the box.")],
    /,
    *,
    crds: Crds = None,
    output: Annotated[
        Literal["mermaid", "dot"], Parameter(name=("--output", "-o"), help="Language of the graph.")
    ] = "mermaid",
) -> None:
    """Print a box's dependency graph as the source of a diagram; each edge has the line that caused it.

    The nodes of the graph are the resources of the box and the objects that it reads. GitHub and many editors draw
    Mermaid. The program `dot` of Graphviz draws the output of `-o dot`. Example:

        vworkspace-operator box graph webapp.yaml -o dot | dot -Tsvg > webapp.svg
    """
    print(graph_of_file(file, crds or [], output), end="")


def docs(file: Annotated[str, Parameter(help="File with the box.")], /, *, crds: Crds = None) -> None:
    """Print a page about a box for its users: fields, children and their order, conditions.

    Example:

        vworkspace-operator box docs webapp.yaml > webapp.md
    """
    print(page(_box(file, crds or [])), end="")
