"""RUN-9, RUN-12: who may act as somebody else, on the embedded API server and on a kube-apiserver alike."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from kubelab.access.authorization import service_account
from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Right, refused_right
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.support.lent_server import lent
from tests.support.patience import PATIENCE
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired, wired_to

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
APPS: Final = "system:serviceaccount:default:apps"
CONFIGS: Final = "/api/v1/namespaces/default/configmaps"


@contextmanager
def _embedded() -> Iterator[tuple[Wire, Wire]]:
    server = ApiServer(now=wall_clock, rbac=True)
    callers = {"admin": ADMIN, "operator": service_account(*OPERATOR_USER.split(":")[2:])}
    with served(server, tokens=callers) as url, wired(url, "admin") as admin, wired(url, "operator") as operator:
        yield admin, operator


@contextmanager
def _real() -> Iterator[tuple[Wire, Wire]]:
    with lent() as server, wired_to(server) as admin, wired_to(server, server.operator_token) as operator:
        yield admin, operator


on_both = pytest.mark.parametrize(
    "server", [pytest.param(_embedded, id="embedded"), pytest.param(_real, id="kube-apiserver")]
)


def user(wire: Wire, **headers: str) -> tuple[str, list[str]]:
    answer = wire.send("POST", WHO, REVIEW, **headers)
    assert answer.status == 201, answer.raw
    info = answer.json["status"]["userInfo"]
    return info["username"], sorted(info["groups"])


def let(admin: Wire, rule: dict[str, Any]) -> None:
    """Give the operator a rule in the namespace."""
    _, _, namespace, name = OPERATOR_USER.split(":")
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "acts"}
    typed = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "acts"}}
    role = {**typed, "kind": "Role", "rules": [rule]}
    binding = {**typed, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    assert admin.send("POST", f"{RBAC}/roles", role).status == 201
    assert admin.send("POST", f"{RBAC}/rolebindings", binding).status == 201


def until(wire: Wire, wanted: Right | None, **headers: str) -> Answer:
    """The answer to a list, once roles have come into force: the one that lacks this right."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = wire.send("GET", CONFIGS, **headers)
        right = None if answer.status == 200 else refused_right(answer.json["message"])
        if right == wanted:
            return answer
        assert time.monotonic() < deadline, answer.raw
        time.sleep(0.05)


@on_both
@pytest.mark.slow
def test_an_account_is_acted_as_with_the_right_to_impersonate_it_and_without_none_RUN_12(server: Any) -> None:
    impersonate = Right("impersonate", "", "serviceaccounts", "default")
    named = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"], "resourceNames": ["apps"]}
    with server() as (admin, operator):
        until(operator, impersonate, Impersonate_User=APPS)
        let(admin, named)
        # From here on it is the account that may not, whatever the operator may.
        refused = until(operator, Right("list", "", "configmaps", "default"), Impersonate_User=APPS)
        assert APPS in refused.json["message"]
        until(operator, impersonate, Impersonate_User=f"{APPS}-2")
        # What is beyond the account takes rights of its own, groups that it has anyway included.
        for header in ({"Impersonate_Group": "system:serviceaccounts"}, {"Impersonate_Uid": "u"}):
            assert operator.send("GET", CONFIGS, Impersonate_User=APPS, **header).status == 403
        assert operator.send("GET", CONFIGS, Impersonate_User="jane").status == 403
        assert operator.send("GET", "/version", Impersonate_User=f"{APPS}-2").status == 403
        assert operator.send("GET", CONFIGS, Impersonate_Group="system:masters").status == 400


@on_both
@pytest.mark.slow
def test_who_is_acted_as_has_the_groups_of_that_identity_and_no_other_RUN_12(server: Any) -> None:
    of_all = "system:authenticated"
    of_accounts = [of_all, "system:serviceaccounts", "system:serviceaccounts:default"]
    with server() as (admin, _):
        assert user(admin, Impersonate_User=APPS) == (APPS, of_accounts)
        assert user(admin, Impersonate_User=APPS, Impersonate_Group="devs") == (APPS, ["devs", of_all])
        assert user(admin, Impersonate_User="jane") == ("jane", [of_all])
        assert user(admin, Impersonate_User="jane", Impersonate_Group="devs") == ("jane", ["devs", of_all])
        bad = "system:serviceaccount:default:Bad_Name"
        assert user(admin, Impersonate_User=bad) == (bad, [of_all])
        assert "system:masters" in user(admin)[1]


def test_a_refusal_in_the_words_of_1_36_names_the_right_that_is_missing() -> None:
    message = (
        'configmaps is forbidden: User "a" cannot impersonate-on:serviceaccount:list resource "configmaps" in API '
        'group "" in the namespace "default"'
    )
    assert refused_right(message) == Right("impersonate", "", "serviceaccounts", "default")
