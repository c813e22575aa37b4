"""The remedy for a right that is missing: what it prints grants that right, and prints roles and nothing else (U8)."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from purekube.apimachinery.errors import Right, refused_right
from purekube.apimachinery.resources import Access
from purekube_run.process.yaml_documents import Format
from tests.support.commands import one_line, run
from tests.support.rights import Right as GrantedRight
from tests.support.rights import granted
from vworkspace_app.commands.manifests import PrintedPart, render_manifests
from vworkspace_app.install import InstallOptions
from vworkspace_core.api.installation import Installation, InstallTool, installation_of, namespace_of_account
from vworkspace_core.api.remedies import account_remedy, crds_remedy, remedy
from vworkspace_core.install import access

TEAM, VELERO, SYSTEM = "team", "velero", "vworkspace-system"
ACCOUNT: Final = f"system:serviceaccount:{SYSTEM}:vworkspace-operator"
ROLES: Final = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def rights(user: str = ACCOUNT, *, agent: bool = True) -> Iterator[Right]:
    """Every right that the operator is given, each where it is."""
    own = access.OWN if agent else access.LOCAL_OWN
    tenant = (*access.TENANT, *(access.JOBS if agent else ()))
    for accesses, namespace in ((access.EVERYWHERE, ""), (own, SYSTEM), (tenant, TEAM), (access.VELERO, VELERO)):
        for one in accesses:
            yield from _rights_of(one, namespace, user)


def _rights_of(one: Access, namespace: str, user: str) -> Iterator[Right]:
    for verb in one.verbs:
        yield Right(verb, one.kind.group, one.resource, namespace, user)


def options_of(command: str) -> tuple[InstallOptions, list[str]]:
    """What a printed command line asks `manifests` for: its options, and the namespaces."""
    words = shlex.split(command.partition(" |")[0])
    assert words[:3] == ["vworkspace-operator", "manifests", "--rbac-only"], command
    given: dict[str, Any] = {}
    namespaces: list[str] = []
    rest = iter(words[3:])
    for word in rest:
        match word:
            case "--no-agent":
                given["agent"] = False
            case "--namespace":
                namespaces.append(next(rest))
            case "--velero-namespace":
                given["velero_namespace"] = next(rest)
            case "--user":
                given["user"] = next(rest)
            case _:
                raise AssertionError(f"{word}: no remedy has that")
    return InstallOptions(**given), namespaces


def printed_by(command: str) -> list[dict[str, Any]]:
    options, namespaces = options_of(command)
    text = render_manifests(PrintedPart(rbac_only=True, namespace=namespaces), options, Format.YAML)
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("agent", [True, False])
@pytest.mark.slow
def test_the_remedy_of_each_right_grants_it_and_prints_roles_alone(agent: bool) -> None:
    prints: dict[str, list[dict[str, Any]]] = {}
    for right in rights(agent=agent):
        command = remedy(right, Installation(agent=agent))
        manifests = prints.setdefault(command, printed_by(command))
        assert {manifest["kind"] for manifest in manifests} <= ROLES, command
        needed = GrantedRight(right.namespace or "*", right.group, right.resource, right.verb)
        assert any(each.covers(needed) for each in granted(manifests)), f"{right}: {command}"
    assert len(prints) == 3, "the operator's own, a gated namespace's, Velero's"


@pytest.mark.slow
def test_the_remedy_for_a_person_outside_the_cluster_binds_that_person_under_other_names() -> None:
    """The roles of an installation beside it stay as they are."""
    of_the_installation = {
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace"))
        for right in rights()
        for one in printed_by(remedy(right))
    }
    for right in rights("https://id.example/alice#1 o'neill"):
        manifests = printed_by(remedy(right, Installation(keeper=InstallTool.HELM, name="ours", place=SYSTEM)))
        names = {
            (manifest["kind"], manifest["metadata"]["name"], manifest["metadata"].get("namespace"))
            for manifest in manifests
        }
        assert not names & of_the_installation
        (binding, *_) = [manifest for manifest in manifests if manifest["kind"].endswith("Binding")]
        assert binding["subjects"] == [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "https://id.example/alice#1 o'neill"}
        ]


def test_the_remedy_names_the_namespace_of_the_account_that_was_refused() -> None:
    refused = 'leases.coordination.k8s.io is forbidden: User "system:serviceaccount:ops:vworkspace-operator" cannot '
    right = refused_right(
        refused + 'update resource "leases" in API group "coordination.k8s.io" in the namespace "ops"'
    )
    assert right is not None
    assert remedy(right).startswith("vworkspace-operator manifests --rbac-only --system-namespace ops |")
    assert namespace_of_account("system:serviceaccount:ops:another") == ""


LABELLED: Final[Mapping[str, tuple[dict[str, Any], Installation]]] = {
    "printed": ({}, Installation()),
    "Helm": (
        {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "ours", "meta.helm.sh/release-namespace": "ops"},
        },
        Installation(keeper=InstallTool.HELM, name="ours", place="ops"),
    ),
    "Flux by Helm": (
        {
            "labels": {"helm.toolkit.fluxcd.io/name": "ours", "helm.toolkit.fluxcd.io/namespace": "flux-system"},
            "annotations": {"meta.helm.sh/release-name": "ours", "meta.helm.sh/release-namespace": "ops"},
        },
        Installation(keeper=InstallTool.FLUX_HELM_RELEASE, name="ours", place="flux-system"),
    ),
    "Flux by kustomize": (
        {
            "labels": {
                "kustomize.toolkit.fluxcd.io/name": "apps",
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            }
        },
        Installation(keeper=InstallTool.FLUX_KUSTOMIZATION, name="apps", place="flux-system"),
    ),
    "Argo CD": (
        {"annotations": {"argocd.argoproj.io/tracking-id": "platform:/ServiceAccount:ops/vworkspace-operator"}},
        Installation(keeper=InstallTool.ARGO_CD, name="platform"),
    ),
    "Argo CD by label": (
        {"labels": {"app.kubernetes.io/instance": "platform"}},
        Installation(keeper=InstallTool.ARGO_CD, name="platform"),
    ),
}


@pytest.mark.parametrize("name", LABELLED)
def test_the_tool_that_keeps_the_operator_is_known_and_no_remedy_writes_beside_it(name: str) -> None:
    metadata, desired = LABELLED[name]
    installation = installation_of({"metadata": metadata}, SYSTEM, agent=True)
    assert installation == desired
    said = [remedy(right, installation) for right in rights()]
    said += [account_remedy(TEAM, "vworkspace-release", installation), crds_remedy(installation)]
    for text in said:
        assert ("kubectl" in text) is (installation.keeper is InstallTool.NOBODY), text
        assert installation.name in text


def test_the_remedy_where_helm_keeps_the_roles_is_a_value_of_the_chart() -> None:
    helm = Installation(keeper=InstallTool.HELM, name="ours", place="ops")
    values = {remedy(right, helm).partition("ours, ")[2] for right in rights()}
    assert values == {
        "nothing is missing: upgrade it to the chart of the operator's version, which brings the roles back",
        "add {namespace: team} to tenants",
        "set veleroNamespace: velero",
    }


@pytest.mark.slow
def test_roles_alone_are_printed_and_what_says_nothing_about_them_is_refused() -> None:
    whole = {one["kind"] for one in yaml.safe_load_all(run("manifests", "--rbac-only").out)}
    assert whole == ROLES
    account = list(yaml.safe_load_all(run("manifests", "--rbac-only", "--namespace", "a", "--account", "deployer").out))
    assert [(one["kind"], one["metadata"]["name"]) for one in account] == [
        ("ServiceAccount", "deployer"),
        ("Role", "deployer"),
        ("RoleBinding", "deployer"),
    ]
    for words in (
        ("--rbac-only", "--image", "x"),
        ("--rbac-only", "--crds-only"),
        ("--user", "alice"),
        ("--account", "deployer", "--namespace", "a"),
    ):
        assert one_line(run("manifests", *words), 2)
