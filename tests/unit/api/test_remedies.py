# ruff: noqa: E501
"""SEE-3: how a missing right is granted, by the tool that installed the operator; a command names only what is missing."""

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, Invalid, Right, leaves_of, refused_right, unwrap_group
from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.decision import Failure
from vworkspace_core.api.installation import Installation, InstallTool, installation_of, namespace_of_account
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.managed_namespace import closed_namespace
from vworkspace_core.api.remedies import (
    account_remedy,
    approval_remedy,
    approve_command,
    crds_remedy,
    missing_right_of,
    not_permitted,
    remedy,
    resume_command,
)
from vworkspace_core.overview.remedy import commands_in

ACCOUNT = "system:serviceaccount:vworkspace-system:vworkspace-operator"
APPLY = "| kubectl apply --server-side -f -"
ROLES = "vworkspace-operator manifests --rbac-only"


def right(verb: str, resource: str, namespace: str = "", user: str = ACCOUNT) -> Right:
    name, _, group = resource.partition(".")
    return Right(verb, group, name, namespace, user)


SCOPES: list[tuple[Right, str, str]] = [
    (right("create", "helmreleases.helm.toolkit.fluxcd.io", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("patch", "configmaps", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("get", "secrets", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("list", "secrets", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("list", "pods", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("list", "events", "team"), " --namespace team", "add {namespace: team} to tenants"),
    (right("create", "backups.velero.io", "velero"), " --velero-namespace velero", "set veleroNamespace: velero"),
    (right("get", "backups.velero.io", "velero"), " --velero-namespace velero", "set veleroNamespace: velero"),
    (right("create", "tokenreviews.authentication.k8s.io"), " --setting page=token-review", "set settings.page: token-review"),
    *((one, "", "nothing is missing: upgrade it to the chart of the operator's version, which brings the roles back") for one in (
        right("watch", "helmreleases.helm.toolkit.fluxcd.io"),
        right("watch", "helmreleases.helm.toolkit.fluxcd.io", "team"),
        right("list", "backups.velero.io", "velero"),
        right("patch", "applicationinstances.apps.vworkspace.io", "team"),
        right("patch", "operations/status.ops.vworkspace.io", "team"),
        right("create", "events.events.k8s.io", "team"),
        right("create", "leases.coordination.k8s.io", "vworkspace-system"),
        right("patch", "secrets", "team"),
        right("list", "configmaps", "team"),
        right("get", "pods", "team"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("missing", "words", "value"), SCOPES, ids=lambda value: str(value)[:60])
def test_a_right_is_granted_by_the_roles_that_hold_it_and_no_more_SEE_3(missing: Right, words: str, value: str) -> None:
    printed = f"{ROLES}{words}"
    values = {
        InstallTool.NOBODY: f"{printed} {APPLY}",
        InstallTool.HELM: f"in the values of the Helm release ops/vwo, {value}",
        InstallTool.FLUX_HELM_RELEASE: f"in your GitOps repository, in the values of the HelmRelease ops/vwo, {value}",
        InstallTool.FLUX_KUSTOMIZATION: f"in your GitOps repository, the Kustomization ops/vwo, add what this prints: {printed}",
        InstallTool.ARGO_CD: f"in your GitOps repository, the Application of Argo CD ops/vwo, add what this prints: {printed}",
    }  # fmt: skip
    for tool in InstallTool:
        installation = Installation(keeper=tool, name="vwo", place="ops")
        assert remedy(missing, installation) == values[tool]
        assert not_permitted(missing, installation) == f"the operator may not {missing}. To fix: {values[tool]}"


def test_a_person_outside_the_cluster_gets_roles_whatever_tool_manages_the_operators() -> None:
    missing = right("create", "configmaps", "team", user="alice o'hara")
    helm = Installation(keeper=InstallTool.HELM, name="vwo", place="ops")

    assert remedy(missing, helm) == f"{ROLES} --namespace team --user 'alice o'\"'\"'hara' {APPLY}"
    assert namespace_of_account("system:serviceaccount:ops:another") == ""


def test_whoever_is_not_named_is_the_operator_itself() -> None:
    missing = right("create", "configmaps", "team", user="")
    helm = Installation("ops", keeper=InstallTool.HELM, name="vwo", place="ops")

    assert remedy(missing, helm) == "in the values of the Helm release ops/vwo, add {namespace: team} to tenants"
    assert remedy(missing, Installation("ops")) == f"{ROLES} --namespace team --system-namespace ops {APPLY}"


def test_a_release_is_resumed_by_a_patch_after_which_nobody_holds_the_field() -> None:
    command = resume_command(ObjectRef(OPERATION, "team", "a"))

    name = f"{OPERATION.crd_name} a -n team"
    assert command == f'kubectl patch {name} --type=merge -p \'{{"spec":{{"suspend":null}}}}\''


def test_the_command_is_for_the_namespace_of_the_account_and_an_operator_without_agent() -> None:
    missing = right("create", "configmaps", "team", user=ACCOUNT.replace("vworkspace-system", "ops"))

    assert (
        remedy(missing, Installation(agent=False))
        == f"{ROLES} --namespace team --system-namespace ops --no-agent {APPLY}"
    )
    own = attrs.evolve(missing, namespace="ops")
    assert remedy(own) == f"{ROLES} --system-namespace ops {APPLY}"


LABEL, NAME = "helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"
HELM = {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}


@pytest.mark.parametrize(
    ("labels", "annotations", "tool", "managed_by"),
    [
        ({}, {}, InstallTool.NOBODY, "the  "),
        ({f"{LABEL}/name": "r", f"{LABEL}/namespace": "n"}, HELM, InstallTool.FLUX_HELM_RELEASE, "the HelmRelease n/r"),
        ({f"{NAME}/name": "r", f"{NAME}/namespace": "n"}, {}, InstallTool.FLUX_KUSTOMIZATION, "the Kustomization n/r"),
        ({}, HELM, InstallTool.HELM, "the Helm release n/r"),
        ({"app.kubernetes.io/instance": "x"}, HELM, InstallTool.HELM, "the Helm release n/r"),
        ({}, {"argocd.argoproj.io/tracking-id": "app:v1:x"}, InstallTool.ARGO_CD, "the Application of Argo CD app"),
        ({"argocd.argoproj.io/instance": "app"}, {}, InstallTool.ARGO_CD, "the Application of Argo CD app"),
        ({"app.kubernetes.io/instance": "app"}, {}, InstallTool.ARGO_CD, "the Application of Argo CD app"),
    ],
)
def test_the_outermost_tool_is_known_by_the_marks_on_the_operators_account(
    labels: dict[str, str], annotations: dict[str, str], tool: InstallTool, managed_by: str
) -> None:
    found = installation_of({"metadata": {"labels": labels, "annotations": annotations}}, "ops", agent=False)

    assert (found.namespace, found.agent, found.keeper, found.managed_by) == ("ops", False, tool, managed_by)
    assert installation_of(None, "ops", agent=True) == Installation("ops")


def test_definitions_and_accounts_come_by_the_same_tool() -> None:
    by = {tool: Installation(keeper=tool, name="vwo", place="ops") for tool in InstallTool}
    assert crds_remedy(by[InstallTool.NOBODY]) == f"vworkspace-operator manifests --crds-only {APPLY}"
    for tool in (InstallTool.HELM, InstallTool.FLUX_HELM_RELEASE):
        assert crds_remedy(by[tool]) == f"upgrade {by[tool].managed_by}; its value crds.install is not to be false"
        assert account_remedy("team", "runner", by[tool]) == (
            f"in the values of {by[tool].managed_by}, add {{namespace: team}} to tenants, or upgrade it where that is there"
        )
    account = f"{ROLES} --namespace team --account runner"
    assert account_remedy("team", "runner", by[InstallTool.NOBODY]) == f"{account} {APPLY}"
    for tool in (InstallTool.FLUX_KUSTOMIZATION, InstallTool.ARGO_CD):
        where = f"in your GitOps repository, {by[tool].managed_by}, add what this prints:"
        assert crds_remedy(by[tool]) == f"{where} vworkspace-operator manifests --crds-only"
        assert account_remedy("team", "runner", by[tool]) == f"{where} {account}"


def test_a_namespace_is_opened_and_prepared_by_one_command_where_no_tool_keeps_the_roles_RES_5() -> None:
    label = "kubectl label namespace team managed-by=vworkspace"
    printed = "vworkspace-operator manifests --namespace team --no-agent"
    said = {
        tool: closed_namespace(
            "team", {"metadata": {}}, Installation(agent=False, keeper=tool, name="vwo", place="ops")
        )
        for tool in InstallTool
    }
    assert said[InstallTool.NOBODY].endswith(f". To fix: {label} && {printed} {APPLY}")
    assert commands_in(said[InstallTool.NOBODY]) == (f"{label} && {printed} {APPLY}",)
    assert said[InstallTool.FLUX_KUSTOMIZATION].endswith(
        f"{label}. Then, in your GitOps repository, the Kustomization ops/vwo, add what this prints: {printed}"
    )
    assert commands_in(said[InstallTool.FLUX_KUSTOMIZATION]) == (label, printed)
    assert "add {namespace: team} to tenants" in said[InstallTool.FLUX_HELM_RELEASE]
    assert commands_in(said[InstallTool.FLUX_HELM_RELEASE]) == (label,)


def test_approvals_are_given_by_the_control_plane_or_by_a_secret_of_ones_own_OPS_4() -> None:
    ref = ObjectRef(OPERATION, "team", "restore-1")
    assert approve_command(ref) == "vworkspace-operator approve op/restore-1 -n team"
    assert approve_command(ref, Installation("ops")).endswith(" --system-namespace ops")
    assert "approval-secret" in approval_remedy(Installation("ops"))
    assert "kubectl create secret generic vworkspace-agent-credentials -n ops" in approval_remedy(
        Installation("ops", agent=False)
    )


def test_the_first_missing_right_of_several_failures_is_named() -> None:
    ref = ObjectRef(OPERATION, "team", "a")
    text = f'User "{ACCOUNT}" cannot create resource "configmaps" in API group "" in the namespace "team"'
    failures = [Failure(ref, "apply", Invalid("wrong")), Failure(ref, "apply", Forbidden("a quota")),
                Failure(ref, "apply", Forbidden(text))]  # fmt: skip
    assert missing_right_of(failures) == not_permitted(right("create", "configmaps", "team"))
    assert missing_right_of(failures[:2]) == missing_right_of([]) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('User "u" cannot get resource "pods" in API group "" in the namespace "n"', Right("get", "", "pods", "n", "u")),
        ('User "u" cannot list resource "a/status" in API group "g" at the cluster scope', Right("list", "g", "a/status")),
        ('User "u" cannot impersonate-on:serviceaccounts:patch resource "pods" in API group "" in the namespace "n"',
         Right("impersonate", "", "serviceaccounts", "n")),
        ("exceeded quota", None),
    ],
)  # fmt: skip
def test_a_refusal_names_its_right_in_the_words_of_every_authorizer(text: str, expected: Right | None) -> None:
    assert refused_right(text) == expected
    if expected is not None:
        assert refused_right(text).user == "u"  # type: ignore[union-attr]


def test_a_right_reads_as_kubectl_writes_it() -> None:
    assert str(Right("patch", "g", "a/status", "n")) == "patch a.g/status in namespace n"
    assert str(Right("list", "", "pods")) == "list pods in the whole cluster"


def test_errors_of_task_groups_are_found_however_deep() -> None:
    inner, other = Invalid("a"), Forbidden("b")
    group = ExceptionGroup("x", [ExceptionGroup("y", [inner]), other])
    assert list(leaves_of(group)) == [inner, other]
    assert unwrap_group(group) is group
    assert unwrap_group(ExceptionGroup("x", [ExceptionGroup("y", [inner])])) is inner
    assert unwrap_group(inner) is inner
