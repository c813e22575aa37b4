"""`demo --kubeconfig` where the operator cannot start: it says why, and takes away what it has made."""

import json
from pathlib import Path

import pytest

from kubelab.cluster.definitions import install
from kubelab.flux.crds import flux_crds
from kubelab.http.serving import kubeconfig
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    HELM_RELEASE,
    NAMESPACE,
    RBAC_GROUP,
    RBAC_KINDS,
    SERVICE_ACCOUNT,
)
from purekube_run.controller.lookups import all_of
from tests.support.server_thread import served, wall_clock
from vworkspace_app.__main__ import run_command
from vworkspace_core.api.kinds import OWN_KINDS

CHART = ("--chart", "oci://registry.example.com/charts/podinfo", "--chart-version", "6.7.0")
MADE = (NAMESPACE, CUSTOM_RESOURCE_DEFINITION, SERVICE_ACCOUNT, *RBAC_KINDS)
ALICE = Caller("alice", ("system:authenticated",))


def permit_all_but_tokens(api: InProcessKube) -> None:
    """Let ALICE do whatever the demo does, but for one thing: she gets no token of a service account."""
    others = {kind.group for kind in (*MADE, *OWN_KINDS, HELM_RELEASE)} | {"authorization.k8s.io", "events.k8s.io"}
    rules = [
        {"apiGroups": sorted(others - {""}), "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces", "serviceaccounts"], "verbs": ["*"]},
    ]
    role = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": ALICE.user}
    subjects = [{"apiGroup": RBAC_GROUP, "kind": "User", "name": ALICE.user}]
    binding = {**CLUSTER_ROLE_BINDING.manifest(ALICE.user), "roleRef": role, "subjects": subjects}
    run_sync(api.create({**CLUSTER_ROLE.manifest(ALICE.user), "rules": rules}, kind=CLUSTER_ROLE, field_manager="test"))
    run_sync(api.create(binding, kind=CLUSTER_ROLE_BINDING, field_manager="test"))


def names(api: InProcessKube) -> set[str]:
    """What is in the cluster of the kinds that the demo makes before its operator starts."""
    found = [run_sync(all_of(api, kind)) for kind in MADE]
    return {f"{each['kind']} {each['metadata']['name']}" for manifests in found for each in manifests}


@pytest.mark.slow
def test_an_operator_that_is_not_ready_in_time_ends_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo waited without an end, and the timeout that its user had given did not count."""
    server = ApiServer(now=wall_clock, rbac=True)
    install(server, flux_crds())
    api = InProcessKube(server)
    before = names(api)
    admin = Caller("admin", ("system:masters",))
    with served(server, tokens={"right": admin}) as url:
        (tmp_path / "kc").write_text(json.dumps(kubeconfig(url, "right")), encoding="utf-8")
        assert run_command(["demo", "--kubeconfig", str(tmp_path / "kc"), *CHART, "--timeout", "0"]) == 1
    assert "the operator could not read the cluster within 0 seconds" in capsys.readouterr().err
    assert names(api) == before


@pytest.mark.slow
def test_what_was_installed_goes_again_where_the_operator_gets_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ApiServer(now=wall_clock, rbac=True)
    install(server, flux_crds())
    api = InProcessKube(server)
    permit_all_but_tokens(api)
    before = names(api)
    with served(server, tokens={"right": ALICE}) as url:
        (tmp_path / "kc").write_text(json.dumps(kubeconfig(url, "right")), encoding="utf-8")
        assert run_command(["demo", "--kubeconfig", str(tmp_path / "kc"), *CHART]) == 1
    ended = capsys.readouterr()
    assert 'cannot create resource "serviceaccounts/token"' in ended.err
    assert "namespaces     vworkspace-demo-" in ended.out, "its objects were created"
    assert ended.out.endswith("taking everything away again\n")
    assert names(api) == before
