"""Several iterators of kro are the nested loop over their lists, the first one outermost (PH-6)."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purekube.boxes.box import BoxNode
from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_convert import convert

NAMES = ("item", "b", "c")


def converted(count: int) -> BoxNode:
    """The resource of a definition with that many iterators, which checks without any hint."""
    listed = [{name: f"${{schema.spec.{name}s}}"} for name in NAMES[:count]]
    text = "-".join(f"${{{name}}}" for name in NAMES[:count])
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": text}, "data": {"all": f"{text}"}}
    fields = {f"{name}s": "[]string" for name in NAMES}
    spec = {
        "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": fields},
        "resources": [{"id": "config", "forEach": listed, "template": template}],
    }
    conversion = convert({"kind": "ResourceGraphDefinition", "metadata": {"name": "shop"}, "spec": spec})
    assert conversion.problems == ()
    (made,) = conversion.boxes
    crd = CrdVersions.of(made.crd)
    examined = examine(read_box(made.box), crd, Schemas([crd]))
    assert (examined.problems, examined.unchecked, examined.untyped) == ((), (), ())
    assert examined.box is not None
    return examined.box.nodes[0]


NODES = {count: converted(count) for count in (1, 2, 3)}
LISTS = st.lists(st.sampled_from(("x", "y", "z")), max_size=3, unique=True)


def objects_of(node: BoxNode, spec: Mapping[str, Sequence[str]]) -> list[tuple[str, Any]]:
    """The key and the manifest of each object that a resource makes."""
    loop = node.iteration
    assert loop is not None
    scope = {"self": {"spec": spec}}
    scopes = [{**scope, loop.variable: each} for each in loop.items.evaluate(scope)]
    return [(loop.key.evaluate(each), node.template.render(each)) for each in scopes]


@given(st.sampled_from((1, 2, 3)), st.tuples(LISTS, LISTS, LISTS))
def test_several_iterators_are_a_nested_loop(count: int, lists: tuple[list[str], ...]) -> None:
    spec = {f"{name}s": listed for name, listed in zip(NAMES, lists, strict=True)}
    made = objects_of(NODES[count], spec)

    wanted = ["-".join(each) for each in product(*lists[:count])]
    assert [manifest["metadata"]["name"] for _, manifest in made] == wanted
    assert [manifest["data"] for _, manifest in made] == [{"all": text} for text in wanted]
    assert [key for key, _ in made] == wanted
