"""Role-based access control: what roles and bindings permit, and what a refusal says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.access.authorization import Attributes, permits, service_account
from kubelab.access.impersonation import Identity, impersonated
from kubelab.model.calls import ADMIN, Caller, RequestTarget
from kubelab.model.failure import ApiFailure
from kubelab.server import ApiServer
from kubelab.storage.listing import ListOptions
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING
from tests.support.apiserver_world import GIZMO, RIG, apply, at, gizmo, new_server

BOT = service_account("default", "bot")
BOT_SUBJECT = {"kind": "ServiceAccount", "name": "bot", "namespace": "default"}
READ = {"apiGroups": ["tests.example"], "resources": ["gizmos"], "verbs": ["get", "list", "watch"]}


def write(server: ApiServer, kind: Kind, name: str, **fields: Any) -> None:
    server.create(at(server, kind), {**kind.manifest(name), **fields})


def bind(server: ApiServer, kind: Kind, role: Kind, *subjects: dict[str, str]) -> None:
    write(server, kind, "b", roleRef={"kind": role.kind, "name": "r"}, subjects=list(subjects))


def allowed(server: ApiServer, caller: Caller, target: RequestTarget) -> bool:
    try:
        server.list(target, ListOptions(), caller)
    except ApiFailure as failure:
        if failure.status != 403:
            raise
        return False
    return True


def test_nothing_is_allowed_that_no_rule_permits() -> None:
    server = new_server(rbac=True)
    assert not allowed(server, BOT, at(server, GIZMO))
    assert allowed(server, Caller("root", ("system:masters",)), at(server, GIZMO))


def test_a_role_that_names_an_object_lets_a_list_of_that_name_through() -> None:
    """As a real server: a list or watch whose field selector allows one name is authorized with that name."""
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[{**READ, "resourceNames": ["one"]}])
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)
    gizmos = at(server, GIZMO)
    for selector, passes in (
        ("metadata.name=one", True),
        ("metadata.name==one", True),
        ("metadata.name=other", False),
        ("metadata.name!=one", False),
        ("", False),
        ("metadata.name", False),
    ):
        options = ListOptions(field_selector=selector)
        for verb in (server.list, server.watch):
            try:
                verb(gizmos, options, BOT)
                found = True
            except ApiFailure as failure:
                found = failure.status != 403
            assert found is passes, (selector, verb)


def test_a_role_can_permit_requests_about_its_own_namespace() -> None:
    """As a real server (measured): the namespace of `GET /api/v1/namespaces/default` is `default`."""
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}])
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)
    named = {name: RequestTarget(server.resource(NAMESPACE), None, name) for name in ("default", "kube-system")}
    assert server.get(named["default"], BOT).status == 200
    with pytest.raises(ApiFailure, match='in the namespace "kube-system"'):
        server.get(named["kube-system"], BOT)


def test_a_role_holds_in_its_namespace_only() -> None:
    server = new_server(rbac=True)
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)
    assert not allowed(server, BOT, at(server, GIZMO))  # the role is not there yet
    write(server, ROLE, "r", rules=[READ])
    assert allowed(server, BOT, at(server, GIZMO))
    assert not allowed(server, BOT, at(server, GIZMO, namespace="kube-public"))
    assert not allowed(server, BOT, RequestTarget(server.resource(GIZMO)))
    assert not allowed(server, service_account("kube-public", "bot"), at(server, GIZMO))


def test_a_cluster_role_holds_where_its_binding_is() -> None:
    server = new_server(rbac=True)
    write(server, CLUSTER_ROLE, "r", rules=[{**READ, "resources": ["gizmos", "rigs"]}])
    bind(server, ROLE_BINDING, CLUSTER_ROLE, BOT_SUBJECT)
    assert allowed(server, BOT, at(server, GIZMO))
    assert not allowed(server, BOT, at(server, RIG))
    bind(server, CLUSTER_ROLE_BINDING, CLUSTER_ROLE, {"kind": "Group", "name": "system:serviceaccounts:default"})
    assert allowed(server, BOT, at(server, RIG))
    assert allowed(server, BOT, RequestTarget(server.resource(GIZMO)))


def test_a_binding_that_goes_takes_its_permissions() -> None:
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[READ])
    bind(server, ROLE_BINDING, ROLE, {"kind": "User", "name": "alice"})
    alice = Caller("alice", ("system:authenticated",))
    assert allowed(server, alice, at(server, GIZMO))
    server.delete(at(server, ROLE_BINDING, "b"))
    assert not allowed(server, alice, at(server, GIZMO))


def test_a_refusal_names_who_what_and_where() -> None:
    server = new_server(rbac=True)
    apply(server, gizmo("a"))
    with pytest.raises(ApiFailure) as caught:
        server.get(at(server, GIZMO, "a", subresource="status"), BOT)
    assert caught.value.message == (
        'gizmos.tests.example "a" is forbidden: User "system:serviceaccount:default:bot" cannot get resource '
        '"gizmos/status" in API group "tests.example" in the namespace "default"'
    )


def test_a_caller_may_ask_what_it_may_do() -> None:
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[READ])
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)

    def can(verb: str) -> bool:
        review = Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
        attributes = {"verb": verb, "group": "tests.example", "resource": "gizmos", "namespace": "default"}
        body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
        return bool(server.create(at(server, review), body, caller=BOT).object()["status"]["allowed"])

    assert (can("list"), can("delete")) == (True, False)


def test_a_caller_may_ask_for_its_rules() -> None:
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[READ])
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)
    review = Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
    body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"namespace": "default"}}
    assert server.create(at(server, review), body, caller=BOT).object()["status"]["resourceRules"] == [READ]


def test_to_ask_about_others_takes_a_right_and_a_name() -> None:
    server = new_server(rbac=True)
    write(server, ROLE, "r", rules=[READ])
    bind(server, ROLE_BINDING, ROLE, BOT_SUBJECT)
    review = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False)
    attributes = {"verb": "list", "group": "tests.example", "resource": "gizmos", "namespace": "default"}
    head = {"apiVersion": review.api_version, "kind": review.kind}
    asked = {**head, "spec": {"user": BOT.user, "groups": list(BOT.groups), "resourceAttributes": attributes}}
    assert server.create(at(server, review), asked).object()["status"] == {"allowed": True}
    with pytest.raises(ApiFailure, match="at least one of user or group must be specified"):
        server.create(at(server, review), {**head, "spec": {"resourceAttributes": attributes}})
    with pytest.raises(ApiFailure, match="cannot create resource"):
        server.create(at(server, review), asked, caller=BOT)


WORDS = st.sampled_from(["a", "b", "c"])
ASKED = st.builds(
    Attributes, verb=WORDS, group=WORDS, resource=WORDS, subresource=st.sampled_from(["", "s"]), name=WORDS
)
SOME = st.lists(WORDS, min_size=1, max_size=2)
RULES = st.fixed_dictionaries({"verbs": SOME, "apiGroups": SOME, "resources": SOME}, optional={"resourceNames": SOME})


@given(RULES, ASKED, st.sampled_from(["verbs", "apiGroups", "resources"]))
def test_a_star_permits_no_less(rule: dict[str, list[str]], asked: Attributes, part: str) -> None:
    if permits(rule, asked):
        assert permits({**rule, part: ["*"]}, asked)


@given(RULES, ASKED)
def test_names_only_narrow(rule: dict[str, list[str]], asked: Attributes) -> None:
    if permits(rule, asked):
        without = {key: value for key, value in rule.items() if key != "resourceNames"}
        assert permits(without, asked)


@given(RULES, ASKED)
def test_a_subresource_needs_a_rule_of_its_own(rule: dict[str, list[str]], asked: Attributes) -> None:
    if asked.subresource:
        assert not permits(rule, asked)
        assert permits({**rule, "resources": ["*"]}, asked) is permits(
            {**rule, "resources": [f"{asked.resource}/{asked.subresource}"]}, asked
        )


@pytest.mark.parametrize(
    ("user", "groups", "found"),
    [
        ("jane", (), ("system:authenticated",)),
        ("jane", ("dev",), ("dev", "system:authenticated")),
        ("jane", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
    ],
)
def test_which_groups_an_impersonated_user_has(user: str, groups: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert impersonated(ADMIN, Identity(user, groups), None).groups == found
