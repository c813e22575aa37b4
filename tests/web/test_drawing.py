"""SEE-3: where nodes and edges of a drawing stand, in pixels."""

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from vworkspace_app.page.drawing import NODE_HEIGHT, NODE_WIDTH, drawing_of
from vworkspace_core.overview.object_graph import graph_of_tree
from vworkspace_core.overview.summary import OverviewState, Summary
from vworkspace_core.overview.tree import Branch, ObjectOrigin

FIVE_ABREAST = 5 * (NODE_WIDTH + 34)


def chain(depth: int) -> Branch:
    """Objects of which each is made from the one before."""
    branch = Branch(Summary(ObjectRef(HELM_RELEASE, "ns", "last"), OverviewState.NOT_READY))
    for level in range(depth - 1):
        branch = Branch(Summary(ObjectRef(HELM_RELEASE, "ns", f"r-{level}"), OverviewState.READY), (branch,))
    return branch


@pytest.mark.parametrize("depth", [1, 4, 5, 11])
def test_a_deep_drawing_goes_down_and_is_no_wider_than_a_screen_SEE_3(depth: int) -> None:
    drawing = drawing_of(graph_of_tree(chain(depth), ObjectOrigin()))

    assert drawing.fits
    assert drawing.width <= FIVE_ABREAST
    corners = [(placed.x, placed.y) for placed in drawing.nodes]
    assert len(set(corners)) == depth + 1
    assert all(0 <= x <= drawing.width - NODE_WIDTH and 0 <= y <= drawing.height - NODE_HEIGHT for x, y in corners)
    assert len(drawing.lines) == depth


def test_a_drawing_that_is_deep_and_wide_scrolls_sideways_SEE_3() -> None:
    summary = Summary(ObjectRef(HELM_RELEASE, "ns", "root"), OverviewState.READY)
    wide = tuple(Branch(Summary(ObjectRef(HELM_RELEASE, "ns", f"w-{at}"), OverviewState.READY)) for at in range(9))
    drawing = drawing_of(graph_of_tree(Branch(summary, (*wide, chain(9))), ObjectOrigin()))

    assert not drawing.fits
    assert drawing.width > FIVE_ABREAST
