"""`box graph` and `box docs`: the graph and the page of a box that can be run."""

from collections.abc import Sequence
from pathlib import Path

from vworkspace_app.boxes.drawing import dot, mermaid
from vworkspace_app.boxes.load import load_boxes, runnable
from vworkspace_app.boxes.page import page
from vworkspace_core.boxes.box import Box


def graph_of_file(file: str, crds: Sequence[Path], language: str) -> str:
    """Return the graph in `mermaid` or `dot`. Raises CommandError for a box with problems."""
    box = _box(file, crds)
    return mermaid(box) if language == "mermaid" else dot(box)


def page_of_file(file: str, crds: Sequence[Path]) -> str:
    """Return the page as Markdown. Raises CommandError for a box with problems."""
    return page(_box(file, crds))


def _box(file: str, crds: Sequence[Path]) -> Box:
    return runnable(load_boxes([file], crds))[0]
