"""The rights of a composite by place, and the commands that grant missing ones (RUN-7, RUN-12, REC-13)."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import Right
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    EVENT,
    LEASE,
    NAMESPACE,
    SECRET,
    Access,
)
from purekube.composites.composite import Composite, wants_metadata
from purekube.composites.rights import (
    child_rights,
    composite_access,
    hidden_message,
    is_of_account,
    not_permitted,
    owner_access,
    parent_rights,
    remedy,
    role_applied,
    shared_access,
    with_remedies,
)
from tests.support.composites import GADGET, PLANET, SHOP, Read, by_account, composite, recording

FOLLOWED = ("list", "watch")
PARENT = [Access(SHOP, ("get", "list", "watch", "patch")), Access(SHOP, ("patch",), "status")]
NEAR = [Access(CONFIG_MAP, FOLLOWED), Access(DEPLOYMENT, FOLLOWED)]
WIDE = [Access(NAMESPACE, FOLLOWED)]
MADE = ("get", "create", "patch", "delete")


@pytest.mark.parametrize(
    ("described", "near", "wide"),
    [
        (composite(), [*PARENT, *NEAR], WIDE),
        (composite(anywhere=frozenset({DEPLOYMENT})), [*PARENT, NEAR[0]], [NEAR[1], *WIDE]),
        (composite(kind=PLANET), [], [*(attrs.evolve(each, kind=PLANET) for each in PARENT), *NEAR, *WIDE]),
        (by_account(), PARENT, []),
        (composite(child_kinds=(), externals=(Read(SECRET),)), [*PARENT, Access(SECRET, FOLLOWED)], []),
        (composite(child_kinds=(), externals=(Read(SECRET, watch=False),)), [*PARENT, Access(SECRET, ("get",))], []),
        (composite(child_kinds=(), externals=(Read(SECRET, elsewhere=True),)), PARENT, [Access(SECRET, FOLLOWED)]),
        (composite(child_kinds=(), externals=(Read(NAMESPACE),)), PARENT, WIDE),
    ],
)
def test_what_is_beside_parents_needs_rights_there_and_all_else_everywhere(
    described: Composite, near: list[Access], wide: list[Access]
) -> None:
    assert list(parent_rights(described, near=True)) == near
    assert list(parent_rights(described, near=False)) == wide


def test_rights_on_children_are_those_of_the_account_too() -> None:
    described = by_account(externals=(Read(SECRET, watch=False),))
    assert list(child_rights(described, near=True)) == [*NEAR, Access(SECRET, ("get",))]
    assert list(child_rights(described, near=False)) == WIDE


@pytest.mark.parametrize(
    ("more", "reads_namespaces"),
    [
        ({}, False),
        ({"namespaces": {}}, False),
        ({"namespaces": {"matchLabels": {"a": "b"}}}, True),
        ({"asks_namespaces": True}, True),
    ],
)
def test_namespaces_are_followed_where_a_composite_chooses_by_them(
    more: dict[str, Any], reads_namespaces: bool
) -> None:
    always = [Access(CUSTOM_RESOURCE_DEFINITION, FOLLOWED), Access(EVENT, ("create", "patch"))]
    shared = list(shared_access((composite(), composite(**more))))
    assert shared == always + ([Access(NAMESPACE, FOLLOWED)] if reads_namespaces else [])


def test_a_controller_may_make_and_remove_all_its_children() -> None:
    access = composite_access(composite())
    shared = (Access(CUSTOM_RESOURCE_DEFINITION, FOLLOWED), Access(EVENT, ("create", "patch")))
    assert access.everywhere == (*shared, *WIDE, Access(NAMESPACE, MADE))
    assert access.tenant == (Access(CONFIG_MAP, MADE), Access(DEPLOYMENT, MADE), *PARENT, *NEAR)
    assert access.own == (Access(LEASE, ("get", "create", "update")),)


def test_finalizers_are_updated_of_kinds_whose_children_refer_to_them() -> None:
    composites = (composite(), composite(kind=PLANET, references=False), composite(kind=GADGET))
    assert list(owner_access(composites)) == [Access(kind, ("update",), "finalizers") for kind in (SHOP, GADGET)]


@pytest.mark.parametrize(
    ("read", "is_slim"),
    [
        (Read(SECRET), True),
        (Read(SECRET, fields=(("metadata", "name"), ("metadata",))), True),
        (Read(SECRET, fields=(("metadata", "name"), ("data", "a"))), False),
        (Read(SECRET, fields=((),)), False),
        (Read(CONFIG_MAP, fields=(("metadata", "name"),)), False),
    ],
)
def test_of_a_secret_only_metadata_is_read_where_nothing_else_is_asked_for(read: Read, is_slim: bool) -> None:
    assert wants_metadata(read) is is_slim


# --- missing rights --------------------------------------------------------------------------------------------------

USER = "system:serviceaccount:"
LIST = Right("list", "", "configmaps", "team")
APPLIED = " | kubectl apply --server-side -f -"
RBAC = "vworkspace-operator box rbac shop.yaml"


@pytest.mark.parametrize(
    ("described", "right", "is_account"),
    [
        (composite(), LIST, False),
        (by_account(), LIST, True),
        (by_account(), Right("list", "apps", "deployments"), True),
        (by_account(), Right("list", "example.org", "deployments"), False),
        (by_account(), Right("list", "", "secrets"), False),
        (by_account(externals=(Read(SECRET),)), Right("get", "", "secrets"), True),
        (by_account(), Right("patch", "example.com", "shops"), False),
    ],
)
def test_a_right_on_children_is_the_accounts_where_one_acts(
    described: Composite, right: Right, is_account: bool
) -> None:
    assert is_of_account(described, right) is is_account


@pytest.mark.parametrize(
    ("described", "right", "command"),
    [
        (composite(), LIST, f"{RBAC} --namespace team{APPLIED}"),
        (composite(), Right("list", "", "configmaps"), f"{RBAC}{APPLIED}"),
        (
            composite(),
            attrs.evolve(LIST, user=f"{USER}vworkspace-system:vworkspace-box-shop"),
            f"{RBAC} --namespace team{APPLIED}",
        ),
        (
            composite(),
            attrs.evolve(LIST, user=f"{USER}vworkspace-system:other"),
            f"{RBAC} --namespace team --service-account other{APPLIED}",
        ),
        (
            composite(),
            attrs.evolve(LIST, user=f"{USER}mine:vworkspace-box-shop"),
            f"{RBAC} --namespace team --system-namespace mine{APPLIED}",
        ),
        (
            composite(),
            attrs.evolve(LIST, user=f"{USER}mine:other"),
            f"{RBAC} --namespace team --system-namespace mine --service-account other{APPLIED}",
        ),
        (composite(), attrs.evolve(LIST, user="mary"), f"{RBAC} --namespace team{APPLIED}"),
        (
            by_account(),
            attrs.evolve(LIST, user=f"{USER}team:builder"),
            f"{RBAC} --for-account team/builder --namespace team{APPLIED}",
        ),
        (
            by_account(),
            Right("patch", "example.com", "shops", "", f"{USER}mine:other"),
            f"{RBAC} --system-namespace mine --service-account other{APPLIED}",
        ),
    ],
)
def test_the_remedy_of_a_missing_right_names_what_is_not_the_default(
    described: Composite, right: Right, command: str
) -> None:
    assert remedy(described, right) == command


def test_the_remedy_covers_kinds_of_an_earlier_definition() -> None:
    right = Right("list", "example.org", "gadgets", user=f"{USER}team:builder")
    former = " --former Gadget/gadgets.v1beta1.example.org"
    assert remedy(composite(), right, (GADGET,)) == (
        f"{RBAC}{former} --system-namespace team --service-account builder{APPLIED}"
    )
    assert remedy(by_account(), right, (GADGET,)) == f"{RBAC}{former} --for-account team/builder{APPLIED}"
    assert remedy(composite(), Right("list", "", "x"), (GADGET, NAMESPACE)) == (
        f"{RBAC}{former} --former Namespace/namespaces.v1/{APPLIED}"
    )


def test_a_role_without_a_default_account_names_none() -> None:
    right = attrs.evolve(LIST, user=f"{USER}mine:other")
    assert role_applied("print it", right) == f"print it --namespace team{APPLIED}"
    assert role_applied("print it", right, "other") == f"print it --namespace team --system-namespace mine{APPLIED}"


def test_a_missing_right_is_told_of_the_one_who_lacks_it() -> None:
    right = attrs.evolve(LIST, user=f"{USER}team:builder")
    assert not_permitted(by_account(), right) == (
        "ServiceAccount team/builder may not list configmaps in namespace team. "
        f"To fix: {RBAC} --for-account team/builder --namespace team{APPLIED}"
    )
    assert not_permitted(composite(), LIST) == (
        f"the box shop may not list configmaps in namespace team. To fix: {RBAC} --namespace team{APPLIED}"
    )


HIDDEN = {
    PLANET: Right("list", "example.com", "planets"),
    GADGET: Right("list", "example.org", "gadgets", user=f"{USER}mine:vworkspace-box-shop"),
}


def test_kinds_that_may_not_be_listed_are_told_in_order_with_one_command() -> None:
    assert hidden_message(composite(), HIDDEN) == (
        "box shop does not make Planet, Gadget any more and cannot prune what it made: it may not list "
        "planets.example.com in the whole cluster; may not list gadgets.example.org in the whole cluster. To fix: "
        f"{RBAC} --former Planet/planets.v1.example.com/ --former Gadget/gadgets.v1beta1.example.org{APPLIED}"
    )
    assert hidden_message(composite(), dict(reversed(HIDDEN.items()))) == hidden_message(composite(), HIDDEN)


def refused(verb: str, resource: str, group: str = "", where: str = "at the cluster scope", user: str = "mary") -> str:
    """The message of the API server about a missing right."""
    return f'is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {where}'


def remedied(
    message: str, described: Composite, status: ConditionStatus = ConditionStatus.TRUE, hidden: Any = None
) -> DesiredCondition:
    parent = recording(CONFIG_MAP, GADGET, of=described)
    (told,) = with_remedies(described, parent, hidden or {}, [DesiredCondition("Stalled", status, "Why", message)])
    return told


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (refused("list", "configmaps"), RBAC),
        (refused("list", "gadgets", "example.org"), f"{RBAC} --former Gadget/gadgets.v1beta1.example.org"),
        (refused("list", "gadgets", "example.com"), RBAC),
        (refused("list", "others", "example.org"), RBAC),
        (refused("list", "configmaps", where='in the namespace "far"'), f"{RBAC} --namespace far"),
        (refused("impersonate", "serviceaccounts", where='in the namespace "far"'), f"{RBAC} --namespace team"),
        (refused("impersonate", "serviceaccounts"), f"{RBAC} --namespace team"),
    ],
)
def test_a_condition_about_a_missing_right_ends_with_the_command(message: str, command: str) -> None:
    told = remedied(message, composite())
    assert told == DesiredCondition("Stalled", ConditionStatus.TRUE, "Why", f"{message}. To fix: {command}{APPLIED}")


def test_a_hidden_kind_stalls_what_is_not_stalled_for_another_reason() -> None:
    described = composite()
    expected = DesiredCondition("Stalled", ConditionStatus.TRUE, "Forbidden", hidden_message(described, HIDDEN))
    assert remedied("", described, ConditionStatus.FALSE, HIDDEN) == expected
    for status, hidden in (
        (ConditionStatus.TRUE, HIDDEN),
        (ConditionStatus.FALSE, {}),
        (ConditionStatus.UNKNOWN, HIDDEN),
    ):
        assert remedied("so", described, status, hidden) == DesiredCondition("Stalled", status, "Why", "so")
    ready = DesiredCondition("Ready", ConditionStatus.FALSE, "Why", "so")
    assert list(with_remedies(described, recording(), HIDDEN, [ready])) == [ready]
