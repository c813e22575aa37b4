"""Graphs and what happens to them, drawn by Hypothesis."""

from typing import Any

import attrs
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.graph.node import ApplyPolicy, Until
from tests.support.graph_world import EXTRA, PART, NodeSpec

IDS = "abcde"
HARD = (Until.APPLIED, Until.OBSERVED, Until.READY)
FAULTS = tuple(f"{what}/{cause}" for what in ("include", "render", "gate") for cause in ("MISSING", "FAULT", "LIMIT"))


@st.composite
def graphs(draw: st.DrawFn, *, plain: bool = False, most: int = 5) -> tuple[NodeSpec, ...]:
    """Nodes without a circle of hard edges, in any order; `plain` ones are always kept up."""
    count = draw(st.integers(1, most))
    kinds: list[Kind] = [draw(st.sampled_from([PART, PART, EXTRA, CONFIG_MAP])) for _ in range(count)]
    nodes = []
    for at in range(count):
        edges: dict[str, Until] = {}
        for before in range(at):
            until = draw(st.sampled_from([None, None, Until.NOTHING, *HARD]))
            if until is not None and not (until is Until.READY and kinds[before] == CONFIG_MAP):
                edges[IDS[before]] = until
        if draw(st.booleans()) and at + 1 < count:
            edges[IDS[at + 1]] = Until.NOTHING
        policies = [ApplyPolicy.ALWAYS] * 4 + ([] if plain else [ApplyPolicy.IF_ABSENT, ApplyPolicy.ONCE])
        listed = draw(st.integers(0, 3)) == 0
        policy = draw(st.sampled_from(policies))
        nodes.append(
            NodeSpec(IDS[at], tuple(edges.items()), kinds[at], policy, listed=listed, refers=draw(st.booleans()))
        )
    return tuple(draw(st.permutations(nodes)))


@attrs.frozen
class Deed:
    """Something that happens: what, to whom, and how."""

    what: str
    at: int = 0
    how: Any = None


LISTS = st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True)
DEEDS = st.one_of(
    st.builds(Deed, st.just("size"), st.integers(1, 3)),
    st.builds(Deed, st.just("without"), how=st.lists(st.sampled_from(IDS), max_size=2)),
    st.builds(Deed, st.just("closed"), how=st.lists(st.sampled_from(IDS), max_size=2)),
    st.builds(Deed, st.just("fault"), how=st.dictionaries(st.sampled_from(IDS), st.sampled_from(FAULTS), max_size=2)),
    st.builds(Deed, st.just("items"), how=st.dictionaries(st.sampled_from(IDS), LISTS, max_size=3)),
    st.builds(Deed, st.just("say"), st.integers(0, 9), st.sampled_from(["Ready", "Ready", "Stalled"])),
    st.builds(Deed, st.sampled_from(["delete", "strip", "hold", "unlabel"]), st.integers(0, 9)),
    st.builds(
        Deed,
        st.just("refuse"),
        st.integers(0, 4),
        st.sampled_from(
            ["apply/Invalid", "apply/Unavailable", "create/Forbidden", "delete/Forbidden", "patch/Invalid"]
        ),
    ),
    st.builds(Deed, st.sampled_from(["relent", "heal", "heal", "missing", "drop"])),
    st.builds(Deed, st.just("crash"), st.integers(1, 8), st.booleans()),
)
