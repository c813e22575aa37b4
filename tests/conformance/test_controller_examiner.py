"""The examiner of controllers examined, with a small controller that has one trait at a time (CONF-2)."""

import json
import shlex
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import yaml

import kubelab
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube_http import KubeApiClient, load_config
from purekube_run.examination.examination import Case, cluster_for, open_examination
from purekube_run.examination.examine_controller import ControllerRequest, examine_controller_with
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.verdicts import Check, Finding, Verdict
from tests.support import greetings_controller
from tests.support.cluster_choice import real_server
from tests.support.greetings_controller import CRD, greeting
from tests.support.patience import until

pytestmark = pytest.mark.slow

PROGRAM = shlex.join([sys.executable, "-I", str(greetings_controller.__file__)])
SAMPLE = greeting(who="World", text="hello", note={"kept": 1, "dropped": 2})


def request_of(*traits: str, only: Sequence[str] = (), edited: Any = None, **fields: Any) -> ControllerRequest:
    command = OperatorCommand(f"{PROGRAM} {{kubeconfig}} {' '.join(traits)}")
    request = ControllerRequest(command, SAMPLE, edited, crds=[CRD], only=tuple(only), patience=2.0)
    return attrs.evolve(request, **fields)


def examined(request: ControllerRequest) -> dict[str, Finding]:
    found = anyio.run(examine_controller_with, request, lambda finding: None)[0]
    return {finding.check: finding for finding in found}


def verdict(check: str, *traits: str, edited: Any = None) -> tuple[Verdict, str]:
    finding = examined(request_of(*traits, only=[check], edited=edited))[check]
    return finding.verdict, finding.message


def test_the_correct_controller_passes() -> None:
    edited = greeting(who="World", text="goodbye", note={"kept": 1})
    found = examined(request_of("finalizer", edited=edited))
    assert {name: each.message for name, each in found.items() if each.verdict is not Verdict.PASS} == {}


# --- correct controllers that were judged broken ---------------------------------------------------------------------


def test_an_edit_that_only_removes_a_nested_field_is_an_edit() -> None:
    edited = greeting(who="World", text="hello", note={"kept": 1})
    assert verdict("edit", edited=edited) == (Verdict.PASS, "")


def test_a_controller_that_fills_in_its_spec_follows_the_generations() -> None:
    assert verdict("generation_follows", "defaults", edited=greeting(who="Moon")) == (Verdict.PASS, "")


def test_two_new_children_of_one_edit_are_no_duplicates() -> None:
    assert verdict("stale", edited=greeting(who="World Moon Mars", text="hello")) == (Verdict.PASS, "")


# --- broken controllers that passed ----------------------------------------------------------------------------------


def test_a_controller_that_gives_up_after_a_refusal_fails() -> None:
    assert verdict("retries", "gives-up")[0] is Verdict.FAIL


def test_a_time_of_transition_that_never_moves_fails() -> None:
    result = verdict("transition_time", "stopped-clock", edited=greeting(who="nobody"))
    assert result[0] is Verdict.FAIL
    assert "Ready" in result[1]


def test_children_made_again_from_a_stale_cache_fail() -> None:
    assert verdict("stale", "trusts-its-cache", edited=greeting(who="World Moon", text="hello"))[0] is Verdict.FAIL


def test_a_write_after_a_restart_fails_though_the_controller_begins_late() -> None:
    assert verdict("restart", "begins-late", "writes-at-start")[0] is Verdict.FAIL


# --- checks that passed for want of trying ---------------------------------------------------------------------------


def test_children_with_random_names_cannot_meet_an_object_of_others() -> None:
    assert verdict("foreign_child", "random-names")[0] is Verdict.NOT_TRIED


def test_a_controller_that_does_not_look_at_a_deletion_proves_nothing_about_finalizers() -> None:
    assert verdict("finalizers", "finalizer", "never-lets-go")[0] is Verdict.NOT_TRIED


def test_a_status_that_is_not_written_again_proves_nothing_about_conditions_of_others() -> None:
    assert verdict("foreign_condition", "says-it-once", edited=greeting(who="Moon"))[0] is Verdict.NOT_TRIED


@pytest.mark.parametrize("check", ["children_go", "early_deletion"])
def test_a_cluster_without_a_garbage_collector_proves_nothing_about_owned_children(check: str, tmp_path: Path) -> None:
    """So is the kube-apiserver that envtest starts alone."""
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(real_server().kubeconfig()), encoding="utf-8")
    path.chmod(0o600)

    async def install() -> None:
        async with KubeApiClient(load_config(path)) as api:
            await api.apply(CRD, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test")

    anyio.run(install)
    found = examined(request_of(only=[check], crds=(), kubeconfig=path))[check]
    assert found.verdict is Verdict.NOT_TRIED
    assert "waits for the garbage collector" in found.message


# --- what is left in a cluster of others -----------------------------------------------------------------------------


SYSTEM = {"default", "kube-system", "kube-public", "kube-node-lease"}
ROLES = "apis/rbac.authorization.k8s.io/v1/clusterroles"


def ask(server: kubelab.Server, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"{server.url}/{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def names_of(server: kubelab.Server) -> list[str]:
    """The names of namespaces and roles that were not there from the beginning."""
    found = [item["metadata"]["name"] for path in ("api/v1/namespaces", ROLES) for item in ask(server, path)["items"]]
    return sorted(name for name in found if name not in SYSTEM)


def leaves_nothing(*traits: str, **fields: Any) -> bool:
    """Whether an examination leaves no namespace and no role. Their end takes a moment."""
    with kubelab.serve(crds=[CRD]) as server:
        before = names_of(server)
        examined(request_of(*traits, **{"crds": (), "kubeconfig": server.kubeconfig, **fields}))
        until(lambda: names_of(server) == before, "nothing is left")
    return True


def test_a_controller_that_never_lets_go_leaves_no_namespace_that_cannot_end() -> None:
    assert leaves_nothing("finalizer", "never-lets-go", only=["progress"])


def test_a_further_object_that_is_refused_leaves_no_namespace() -> None:
    refused = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}}
    assert leaves_nothing(only=["progress"], further=[refused])


def test_a_further_object_without_a_namespace_is_created_once_and_removed() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "greeters"}}
    assert leaves_nothing(only=["progress"], further=[{**role, "rules": []}])


def test_a_further_object_of_others_is_left_as_it_is() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "greeters"}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    with kubelab.serve(crds=[CRD]) as server:
        ask(server, ROLES, {**role, "rules": rules})
        found = examined(
            request_of(only=["rest"], crds=(), kubeconfig=server.kubeconfig, further=[{**role, "rules": []}])
        )
        live = ask(server, f"{ROLES}/greeters")
    assert found["rest"].verdict is Verdict.PASS, found
    assert live["rules"] == rules


def test_a_controller_that_does_not_start_again_leaves_no_namespace_and_keeps_its_other_verdicts(
    tmp_path: Path,
) -> None:
    counter = f"starts-once={tmp_path / 'started'}"
    with kubelab.serve(crds=[CRD]) as server:
        chosen = ["rest", "restart", "deleted_while_down"]
        found = examined(request_of("finalizer", counter, only=chosen, crds=(), kubeconfig=server.kubeconfig))
        until(lambda: not any(name.startswith("examined-") for name in names_of(server)), "nothing is left")
    assert {name: each.verdict for name, each in found.items()} == {
        "rest": Verdict.PASS,
        "restart": Verdict.FAIL,
        "deleted_while_down": Verdict.NOT_TRIED,
    }
    assert "does not start again" in found["restart"].message


def test_checks_that_begin_at_once_start_one_process_of_an_operator_that_has_ended() -> None:
    async def idle(c: Case) -> None:
        c.evidence.append(c.namespace)

    async def processes() -> int:
        kind = Kind("example.com", "v1", "Greeting", "greetings")
        checks = [Check("rest", f"check {number}", idle) for number in range(3)]
        async with (
            cluster_for(None, [CRD], "") as (config, _),
            open_examination(config, request_of().command, kind, patience=2.0, keep=False) as examination,
        ):
            await examination.start()
            examination.operator.kill()
            await examination.run(checks, Case, lambda finding: None)
            return len(examination.processes)

    assert anyio.run(processes) == 2


def test_an_examination_that_is_interrupted_leaves_no_namespace() -> None:
    async def interrupted(request: ControllerRequest) -> bool:
        with anyio.move_on_after(3.0) as scope:
            await examine_controller_with(request, lambda finding: None)
        return scope.cancelled_caught

    with kubelab.serve(crds=[CRD]) as server:
        before = names_of(server)
        request = request_of("finalizer", crds=(), kubeconfig=server.kubeconfig, patience=60.0)
        assert anyio.run(interrupted, request)
        until(lambda: names_of(server) == before, "the namespaces are gone")
