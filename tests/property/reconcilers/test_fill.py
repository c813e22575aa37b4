"""Random text is filled in where its path says, however that is written, or the node says what is wrong (PH-7)."""

import base64
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.reconcilers import Children, Desired, Fill, Node, Object, pure_reconciler
from purekube.reconcilers.decide_pure import composite_of
from tests.support.composite_world import NS, CompositeWorld
from tests.support.shop import SHOP, ShopSpec


def drawn(kind: str, fill: Fill) -> str:
    """What is in the field `data.password` of an object that was made with it."""
    made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "drawn"}}

    @pure_reconciler(SHOP, owns=[f"v1/{kind}"])
    def drawing(self: Object[Any, Any], children: Children) -> Desired[Any]:
        return Desired([Node("drawn", made, generate=[fill])], SHOP.status())

    world = CompositeWorld(composite_of(drawing), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.settle()
    assert world.condition()["status"] == "True"
    live = world.get(ObjectRef(SECRET if kind == "Secret" else CONFIG_MAP, NS, "drawn"))
    return str(get_path(live, "data", "password"))


@pytest.mark.parametrize("path", ["data.password", ("data", "password"), ["data", "password"]])
@pytest.mark.parametrize("encoded", [True, False])
def test_a_path_may_be_a_text_or_keys_and_a_secret_holds_it_in_base64(path: Any, encoded: bool) -> None:
    assert len(base64.b64decode(drawn("Secret", Fill(path, length=20, base64=encoded)), validate=True)) == 20
    assert len(drawn("ConfigMap", Fill(path, length=20))) == 20


@pytest.mark.parametrize("path", ["", (), "data.", ("data", ""), ("data", 1)])
def test_a_path_that_leads_nowhere_is_refused_where_it_is_written(path: Any) -> None:
    with pytest.raises(ValueError, match="the path of a field is such as"):
        Fill(path)
