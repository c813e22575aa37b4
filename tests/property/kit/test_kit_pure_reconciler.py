"""The laws of the kit hold for a pure reconciler, and find a function that is none (PH-7, L1)."""

from itertools import count
from typing import Any

import pytest

from purekube.reconcilers import Children, Desired, Node, Object, PureReconciler, pure_reconciler
from purekube_kit import laws
from purekube_run.simulation.extensions.purity import AskedTwice
from tests.support.shop import SHOP, ShopSpec, config, shop


@pytest.mark.slow
def test_the_laws_hold_for_a_pure_reconciler() -> None:
    laws.hold(shop, SHOP.new("mine", ShopSpec(parts=("a",)), namespace="default"))


def impure(how: str) -> PureReconciler[Any, Any]:
    """A function that reads what is neither the object nor its children, or changes these."""
    numbers = count()

    @pure_reconciler(SHOP, owns=["v1/ConfigMap"])
    def counting(self: Object[Any, Any], children: Children) -> Desired[Any]:
        match how:
            case "manifest":
                return Desired([Node("a", config("a", number=str(next(numbers))))], SHOP.status())
            case "nodes":
                return Desired([Node(f"a-{next(numbers)}", config("a"))], SHOP.status())
            case "status":
                return Desired([], SHOP.status(ready=next(numbers)))
            case _:
                dict.__setitem__(self.manifest["spec"], "image", "another")
                return Desired([], SHOP.status())

    return counting


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("manifest", "another a the second time"),
        ("nodes", "the nodes a-0 the first time, a-1 the second"),
        ("status", "the status ShopStatus(ready=0"),
        ("given", "it changed what it was given"),
    ],
)
def test_a_function_that_answers_otherwise_is_found(how: str, told: str) -> None:
    asked = AskedTwice(impure(how).function)
    asked(SHOP.read({"metadata": {"name": "mine"}, "spec": {"image": "x"}}), Children())

    assert told in asked.different


def test_an_impure_function_breaks_a_law() -> None:
    with pytest.raises(laws.LawBroken, match=r"the law “(answers alike|comes to rest)” does not hold"):
        laws.hold(impure("status"), SHOP.new("mine", ShopSpec(), namespace="default"))
