"""The rights of boxes and of the accounts that act for them, each with exactly the verbs that are needed (RUN-7)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    SECRET,
    SERVICE_ACCOUNT,
    Access,
)
from purekube.boxes.decision.decide import access_of, access_of_account, owners
from purekube.composites.rights import LEASE
from tests.support.boxes import box_of, config, crd, deployment, secret

SHOP = Kind("example.com", "v1", "Shop", "shops")
CLUSTER_SHOP = Kind("example.com", "v1", "Shop", "shops", namespaced=False)
FOLLOWED = ("list", "watch")
SHARED = (Access(CUSTOM_RESOURCE_DEFINITION, FOLLOWED), Access(EVENT, ("create", "patch")))
PARENT = (Access(SHOP, ("get", *FOLLOWED, "patch")), Access(SHOP, ("patch",), "status"))


@pytest.mark.parametrize(
    ("more", "verbs"),
    [
        ({}, ("get", "create", "patch", "delete")),
        ({"apply": "IfAbsent"}, ("get", "create", "delete")),
        ({"apply": "Once"}, ("get", "create", "patch", "delete")),
        ({"onDelete": "Orphan"}, ("get", "create", "patch")),
        ({"apply": "IfAbsent", "onDelete": "Orphan"}, ("get", "create", "patch")),
        ({"onDelete": "Orphan", "onImmutable": "Recreate"}, ("get", "create", "patch", "delete")),
        ({"apply": "IfAbsent", "onImmutable": "Recreate"}, ("get", "create", "delete")),
    ],
)
def test_a_resource_needs_the_verbs_of_its_settings(more: dict[str, Any], verbs: tuple[str, ...]) -> None:
    access = access_of([box_of(config("a", **more))])
    assert access.everywhere == SHARED
    assert access.tenant == (*PARENT, Access(CONFIG_MAP, FOLLOWED), Access(CONFIG_MAP, verbs))
    assert access.own == LEASE
    account = access_of_account(box_of(config("a", **more), serviceAccountName="builder"))
    assert account.tenant == (Access(CONFIG_MAP, FOLLOWED), Access(CONFIG_MAP, verbs))
    assert account.everywhere == ()


MADE = ("get", "create", "patch", "delete")
WIDE = {"id": "n", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}, "owner": "Label"}


def test_what_is_not_beside_parents_needs_rights_everywhere() -> None:
    last = {"phases": [{"resources": [secret("s")]}]}
    box = box_of(deployment("web"), WIDE, deletion=last)
    access = access_of([box])
    assert access.everywhere == (*SHARED, Access(NAMESPACE, FOLLOWED), Access(NAMESPACE, MADE))
    near = (Access(DEPLOYMENT, FOLLOWED), Access(SECRET, FOLLOWED))
    assert access.tenant == (*PARENT, *near, Access(DEPLOYMENT, MADE), Access(SECRET, MADE))
    by_account = box_of(deployment("web"), WIDE, deletion=last, serviceAccountName="builder")
    assert access_of_account(by_account).everywhere == (Access(NAMESPACE, FOLLOWED), Access(NAMESPACE, MADE))
    assert access_of_account(by_account).tenant == (*near, Access(DEPLOYMENT, MADE), Access(SECRET, MADE))


@pytest.mark.parametrize(("text", "name"), [("builder", "builder"), ("${self.metadata.name}", "")])
def test_an_account_that_acts_is_impersonated_by_its_name_where_that_is_written_down(text: str, name: str) -> None:
    access = access_of([box_of(deployment("web"), serviceAccountName=text), box_of(config("a"))])
    impersonated = Access(SERVICE_ACCOUNT, ("impersonate",), name=name)
    assert access.everywhere == SHARED
    others = (Access(CONFIG_MAP, FOLLOWED), Access(CONFIG_MAP, MADE))
    assert access.tenant == (*PARENT, impersonated, *PARENT, *others)


@pytest.mark.parametrize("policy", ["Refuse", "Orphan", "Delete"])
def test_parents_are_deleted_by_the_box_that_says_so(policy: str) -> None:
    delete = [Access(SHOP, ("delete",))] if policy == "Delete" else []
    children = (Access(CONFIG_MAP, FOLLOWED), *delete, Access(CONFIG_MAP, MADE))
    assert access_of([box_of(config("a"), deletionPolicy=policy)]).tenant == (*PARENT, *children)
    cluster = access_of([box_of(WIDE, kind=crd(scope="Cluster"), deletionPolicy=policy)])
    assert (Access(CLUSTER_SHOP, ("delete",)) in cluster.everywhere) is (policy == "Delete")
    assert cluster.tenant == ()


def test_finalizers_of_parents_are_updated_unless_the_order_is_strict() -> None:
    boxes = [box_of(config("a")), box_of(config("a"), deletion={"order": "Strict"})]
    assert list(owners(boxes)) == [Access(SHOP, ("update",), "finalizers")]


def test_namespaces_are_followed_where_a_box_asks_for_them() -> None:
    box = box_of(config("a"), namespaces={"matchLabels": {"a": "b"}})
    assert access_of([box]).everywhere == (*SHARED, Access(NAMESPACE, FOLLOWED))
