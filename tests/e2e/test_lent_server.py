"""RUN-8: a kube-apiserver that is lent to one story after the other holds nothing of the story before."""

from functools import partial
from typing import Any, Final

import pytest

from tests.support.boxes import crd
from tests.support.lent_server import lent
from tests.support.plain_http import until
from tests.support.server_thread import Wire, wired_to

pytestmark = pytest.mark.slow

SHOPS: Final = "/apis/example.com/v1/namespaces/team/shops"
MADE: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/namespaces": {"metadata": {"name": "team"}},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"metadata": {"name": "shopkeeper"}, "rules": []},
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": crd(),
    SHOPS: {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "corner", "finalizers": ["example.com/till"]},
        "spec": {"image": "till", "parts": []},
    },
}


def is_made(wire: Wire, path: str) -> bool:
    return wire.send("POST", path, MADE[path]).status == 201


def test_the_next_story_has_the_same_server_and_finds_nothing_in_it() -> None:
    with lent() as first, wired_to(first) as wire:
        for path in MADE:
            until(partial(is_made, wire, path))
    with lent() as second, wired_to(second) as wire:
        assert second is first
        for path, manifest in MADE.items():
            assert wire.send("GET", f"{path}/{manifest['metadata']['name']}").status == 404


def test_a_server_that_keeps_what_a_story_made_is_lent_to_no_other() -> None:
    with pytest.raises(ZeroDivisionError), lent() as first:
        raise ZeroDivisionError
    with lent() as second:
        assert second is not first
