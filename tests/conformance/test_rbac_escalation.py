"""Nobody grants rights that they do not have (RUN-8, RUN-9)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import pytest

from kubelab.access.authorization import service_account
from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.conformance.test_builtin_rules import Place
from tests.support.cluster_choice import real_server
from tests.support.effort import unused_name
from tests.support.patience import until
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired, wired_to

GROUP: Final = "rbac.authorization.k8s.io"
VERSION: Final = f"{GROUP}/v1"
NAMESPACE, NAME = OPERATOR_USER.split(":")[2:]
SUBJECT: Final = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
Rules = list[dict[str, Any]]


def rule(resources: str, verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


@attrs.frozen
class Two:
    """One namespace, as its administrator and as someone with few rights sees it."""

    admin: Place
    user: Place

    def role(self, name: str, *rules: dict[str, Any], by: Place | None = None) -> Answer:
        body = {"metadata": {"name": name}, "rules": list(rules)}
        place = by or self.user
        return place.wire.send("POST", place.url(VERSION, "roles"), body)

    def binding(self, name: str, role: str, kind: str = "Role", by: Place | None = None) -> Answer:
        reference = {"kind": kind, "name": role, "apiGroup": GROUP}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [SUBJECT]}
        place = by or self.user
        return place.wire.send("POST", place.url(VERSION, "rolebindings"), body)

    def allow(self, name: str, *rules: dict[str, Any]) -> None:
        """Give the user rights, and wait until the authorizer knows of them."""
        assert self.role(name, *rules, by=self.admin).status == 201
        assert self.binding(name, name, by=self.admin).status == 201
        review = {"spec": {"namespace": self.admin.namespace}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        parts = ("resources", "verbs")

        def known() -> bool:
            held = self.user.wire.send("POST", path, review).json["status"]["resourceRules"]
            return all(any(all({*one[p]} <= {*two[p]} for p in parts) for two in held) for one in rules)

        until(known, "the rights are known")


@contextmanager
def _embedded() -> Iterator[tuple[Wire, Wire]]:
    server = ApiServer(now=wall_clock, rbac=True)
    tokens = {"admin": ADMIN, "user": service_account(NAMESPACE, NAME)}
    with served(server, gc_delay=None, tokens=tokens) as url, wired(url, "admin") as admin, wired(url, "user") as user:
        yield admin, user


@contextmanager
def _real() -> Iterator[tuple[Wire, Wire]]:
    server = real_server()
    with wired_to(server) as admin, wired_to(server, server.operator_token) as user:
        yield admin, user


@pytest.fixture(params=[pytest.param(_embedded, id="http"), pytest.param(_real, id="kube-apiserver")])
def two(request: pytest.FixtureRequest) -> Iterator[Two]:
    with request.param() as (admin, user):
        namespace = unused_name("grants")
        assert admin.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
        found = Two(Place(admin, namespace), Place(user, namespace))
        found.allow(
            "mine",
            rule("configmaps", "get list"),
            rule("secrets", "get", resourceNames=["a"]),
            rule("*", "get", "apps"),
            rule("roles rolebindings", "get create update patch", GROUP),
        )
        yield found


def said(answer: Answer) -> tuple[int, list[str]]:
    """The status, and the rights that are lacking."""
    return answer.status, answer.json["message"].split("\n")[1:] if answer.status == 403 else []


ROLES: Final[list[tuple[Rules, list[str]]]] = [
    ([rule("configmaps", "get")], []),
    ([rule("configmaps", "list", resourceNames=["q"])], []),
    ([rule("secrets", "get", resourceNames=["a"])], []),
    ([rule("deployments deployments/scale", "get", "apps")], []),
    (
        [rule("configmaps", "get delete watch")],
        ['{APIGroups:[""], Resources:["configmaps"], Verbs:["delete" "watch"]}'],
    ),
    ([rule("configmaps/status", "get")], ['{APIGroups:[""], Resources:["configmaps/status"], Verbs:["get"]}']),
    ([rule("secrets", "get")], ['{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}']),
    (
        [rule("services pods", "get"), rule("y", "*", "x", resourceNames=["b"])],
        [
            '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
            '{APIGroups:[""], Resources:["services"], Verbs:["get"]}',
            '{APIGroups:["x"], Resources:["y"], ResourceNames:["b"], Verbs:["*"]}',
        ],
    ),
]


def test_a_role_holds_only_rights_that_its_writer_has(two: Two) -> None:
    for number, (rules, lacking) in enumerate(ROLES):
        answer = two.role(f"r{number}", *rules)
        assert said(answer) == (403 if lacking else 201, lacking), rules
    groups = '"system:serviceaccounts" "system:serviceaccounts:vworkspace-system" "system:authenticated"'
    refusal = two.role("r", rule("pods", "get")).json["message"].split("\n")[0]
    who = f'user "{OPERATOR_USER}" (groups=[{groups}])'
    assert (
        refusal == f'roles.{GROUP} "r" is forbidden: {who} is attempting to grant RBAC permissions not currently held:'
    )


def test_a_change_of_a_role_is_a_grant_of_all_that_it_holds(two: Two) -> None:
    assert two.role("big", rule("pods", "get"), by=two.admin).status == 201
    url = two.user.url(VERSION, "roles", "big")
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"rules": [rule("pods", "list")]}):
        assert two.user.patch(url, patch).status == 403
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
    assert two.user.patch(url, {"metadata": {"ownerReferences": [owner]}}).status == 200, (
        "as the garbage collector does"
    )
    assert two.user.patch(url, {"rules": [rule("configmaps", "get")]}).status == 200


def test_a_role_that_is_bound_is_granted(two: Two) -> None:
    assert two.role("big", rule("pods", "get"), by=two.admin).status == 201
    assert two.role("small", rule("configmaps", "get"), by=two.admin).status == 201
    assert two.binding("b1", "small").status == 201
    assert said(two.binding("b2", "big")) == (403, ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'])
    for kind in ("Role", "ClusterRole"):
        absent = two.binding("b3", "absent", kind)
        assert (absent.status, absent.json["message"]) == (404, f'rolebindings.{GROUP} "absent" not found')
    assert two.binding("b3", "absent", by=two.admin).status == 201


def test_the_verbs_bind_and_escalate_permit_more(two: Two) -> None:
    assert two.role("big", rule("pods", "get"), by=two.admin).status == 201
    two.allow("binds", rule("roles", "bind", GROUP, resourceNames=["big", "absent"]))
    assert two.binding("b1", "big").status == 201
    assert two.binding("b2", "absent").status == 201
    two.allow("escalates", rule("roles", "escalate", GROUP))
    assert two.role("any", rule("nodes", "*")).status == 201
