"""`box graph` and `box docs`: the graph and the page of a box that can be run."""

from collections.abc import Sequence
from pathlib import Path

from purekube.boxes.box import Box
from purekube_run.boxes.drawing import dot, mermaid
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.boxes.page import page


def graph_of_file(file: str, crds: Sequence[Path], language: str) -> str:
    """Return the graph in `mermaid` or `dot`. Raises CommandError for a box with problems."""
    box = _box(file, crds)
    return mermaid(box) if language == "mermaid" else dot(box)


def page_of_file(file: str, crds: Sequence[Path]) -> str:
    """Return the page as Markdown. Raises CommandError for a box with problems."""
    return page(_box(file, crds))


def _box(file: str, crds: Sequence[Path]) -> Box:
    return runnable(load_boxes([file], crds))[0]
