"""`diff` tells what applying a manifest would change, downstream too, and changes nothing (SEE-2)."""

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, Manifest, ref_of
from purekube.apimachinery.resources import JOB, NAMESPACE
from purekube.ports import KubeApi, PatchType
from purekube_run.process.command_line import CommandError
from tests.support.commands import run
from tests.support.e2e_world import (
    CLUSTER,
    FIRST,
    INSTANCE,
    LATER,
    NAME,
    NS,
    RELEASE,
    World,
    install,
    instance,
    source_of,
    usual_crds,
)
from tests.support.kube_client import InProcessHands
from tests.support.operation_requests import ENGINES_QUICK, LABELS, Operating
from tests.support.run_by import run_by
from tests.support.server_thread import wall_clock
from tests.support.servers import ENVIRONMENT, IN_PROCESS, Face
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.diff import DIFFERS, FAILED, SAME, applied, diff, diff_line, status_of, text
from vworkspace_app.overview.differences import Difference, difference
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.kinds import CLUSTER as CLUSTER_KIND
from vworkspace_core.api.labels import CLUSTER_ID, FIELD_MANAGER, MANAGED_BY, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.api.release_override import spec_hash
from vworkspace_core.clusters.decision import cluster_manifest

in_both_worlds = pytest.mark.parametrize("face", [IN_PROCESS, ENVIRONMENT], ids=lambda face: face.name)


def compared(world: World, manifest: Manifest, kind: Kind = APPLICATION_INSTANCE) -> Difference:
    """What `diff` finds."""
    return world.hands.do(partial(difference, kind=kind, manifest=manifest, now=datetime.now(UTC)))


def labelled(version: str, **changes: Any) -> dict[str, Any]:
    """The instance as somebody keeps it in a file."""
    labels = {name: LABELS[name] for name in (MANAGED_BY, CLUSTER_ID)}
    return instance(version, metadata={"name": NAME, "namespace": NS, "labels": labels}, **changes)


@pytest.mark.slow
@in_both_worlds
def test_another_version_changes_source_and_release_and_nothing_is_written_SEE_2(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        assert text(compared(world, labelled(FIRST)), colour=False) == ""
        assert status_of(compared(world, labelled(FIRST))) == SAME
        before = world.get(INSTANCE)["metadata"]["resourceVersion"]
        found = compared(world, labelled(LATER))
        assert status_of(found) == DIFFERS
        told = text(found, colour=False)
        assert f"-    version: {FIRST}" in told
        assert f"+    version: {LATER}" in told
        changed = {change.ref for change in found.changes if change.before != change.after}
        assert {INSTANCE, source_of(LATER), RELEASE} <= changed
        former = source_of(FIRST)
        assert "2 applies" in diff_line(found)
        assert f"1 delete afterwards (OCIRepository {former.name})" in diff_line(found)
        assert "0 deletes" not in diff_line(found)
        assert f"--- {former} now" in told
        assert diff_line(found).endswith("the control plane holds this object: its next job sets it again")
        assert world.get(INSTANCE)["metadata"]["resourceVersion"] == before
        assert world.find(source_of(LATER)) is None

    face.run(story)


@run_by(IN_PROCESS.run)
async def test_an_object_that_the_operator_would_leave_alone_says_so_SEE_2_RES_5(world: World) -> None:
    """A stranger compared an object for another cluster: `diff` promised two applies, and the operator did nothing."""
    world.create_object(cluster_manifest(cluster_id=CLUSTER, endpoint="https://odoo.example"), CLUSTER_KIND)
    fresh = labelled(FIRST)
    fresh["metadata"]["name"] = "elsewhere"
    fresh["metadata"]["labels"] = {**fresh["metadata"]["labels"], CLUSTER_ID: "another"}
    line = diff_line(compared(world, fresh))
    assert line.startswith("no apply, no delete"), line
    assert "Blocked: WrongCluster" in line, line

    fresh["metadata"]["labels"] = {}
    line = diff_line(compared(world, fresh))
    assert "leaves this object alone" in line, line
    assert f"{MANAGED_BY}=control-plane" in line, line


@run_by(IN_PROCESS.run)
async def test_a_version_that_the_policy_of_a_cluster_forbids_changes_nothing_downstream_SEE_2_RES_3(
    world: World,
) -> None:
    made = cluster_manifest(cluster_id=CLUSTER, endpoint="https://odoo.example")
    made["spec"]["policy"] = {"forbiddenVersions": [LATER]}
    world.create_object(made, CLUSTER_KIND)

    allowed, denied = compared(world, labelled(FIRST)), compared(world, labelled(LATER))

    assert "2 applies" in diff_line(allowed)
    assert diff_line(denied).startswith("no apply, no delete"), diff_line(denied)
    assert "Blocked: PolicyDenied" in diff_line(denied)
    # A pipeline that takes 1 for a change to make would have let it pass, as --offline does not.
    assert (status_of(allowed), status_of(denied)) == (DIFFERS, FAILED)


def test_an_object_of_the_id_before_the_last_registration_is_of_another_cluster_SEE_2_RES_5() -> None:
    """With the Cluster object of a former id there, `diff` promised applies for every object of that id."""
    hands = InProcessHands(InProcessKube(ApiServer(now=wall_clock)))
    install(hands, usual_crds(engines=False))
    act = partial(KubeApi.patch, patch_type=PatchType.MERGE, field_manager="operator", subresource="status")
    for name, beat in ((CLUSTER, "2026-06-01T10:00:00Z"), ("now", "2026-07-01T10:00:00Z")):
        made = cluster_manifest(cluster_id=name, endpoint="https://odoo.example")
        hands.do(partial(KubeApi.create, manifest=made, kind=CLUSTER_KIND, field_manager="setup"))
        status = {"status": {"lastHeartbeat": beat}}
        hands.do(partial(act, ref=ref_of(made, CLUSTER_KIND), patch=status))
    hands.do(partial(KubeApi.create, manifest=NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup"))
    found = hands.do(partial(difference, kind=APPLICATION_INSTANCE, manifest=labelled(FIRST), now=datetime.now(UTC)))
    assert "Blocked: WrongCluster" in diff_line(found)


@pytest.mark.parametrize(("reason", "flag"), [("NoAgent", " --no-agent"), ("RoundTripOK", "")])
def test_the_advice_asks_for_no_rights_of_an_agent_that_there_is_not_SEE_2(reason: str, flag: str) -> None:
    """`diff` said `manifests --namespace plain` where `status` said `--no-agent`: rights that were of no use."""
    hands = InProcessHands(InProcessKube(ApiServer(now=wall_clock)))
    install(hands, crd_manifests())
    there: list[tuple[dict[str, Any], Kind]] = [
        ({**NAMESPACE.manifest(NS)}, NAMESPACE),
        (cluster_manifest(cluster_id=CLUSTER, endpoint="https://odoo.example"), CLUSTER_KIND),
        (labelled(FIRST), APPLICATION_INSTANCE),
    ]
    for manifest, kind in there:
        hands.do(partial(KubeApi.create, manifest=manifest, kind=kind, field_manager="setup"))
    told = {"type": "Disconnected", "status": "False", "reason": reason, "lastTransitionTime": "2026-06-01T10:00:00Z"}
    (cluster,) = hands.do(lambda api: api.list(CLUSTER_KIND)).items
    status = {"status": {"conditions": [told]}}
    act = partial(KubeApi.patch, patch_type=PatchType.MERGE, field_manager="operator", subresource="status")
    hands.do(lambda api: act(api, ref_of(cluster, CLUSTER_KIND), status))
    for manifest, kind in ((labelled(FIRST), APPLICATION_INSTANCE), (operation(), OPERATION)):
        found = hands.do(partial(difference, kind=kind, manifest=manifest, now=datetime.now(UTC)))
        assert f"manifests --namespace {NS}{flag} |" in str(found.decision.status), kind


def test_an_upgrade_that_the_operator_leaves_alone_changes_no_version_SEE_2() -> None:
    """`diff` promised the version of an Operation that nobody gave to the operator."""
    hands = InProcessHands(InProcessKube(ApiServer(now=wall_clock)))
    install(hands, usual_crds(engines=False))
    wanted, upgrade = labelled(FIRST), operation()
    upgrade["spec"]["parameters"] = {"targetVersion": LATER}
    upgrade["metadata"]["labels"].pop(MANAGED_BY)
    namespace = {"name": NS, "labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}
    there: list[tuple[dict[str, Any], Kind]] = [
        ({**NAMESPACE.manifest(NS), "metadata": namespace}, NAMESPACE),
        (cluster_manifest(cluster_id=CLUSTER, endpoint="https://odoo.example"), CLUSTER_KIND),
        (wanted, APPLICATION_INSTANCE),
        (upgrade, OPERATION),
    ]
    for manifest, kind in there:
        hands.do(partial(KubeApi.create, manifest=manifest, kind=kind, field_manager="setup"))
    stored = read_application_instance(hands.do(lambda api: api.get(INSTANCE)))
    running = {"phase": "Running", "startedAt": "2026-06-01T10:00:00Z", "outputs": {"specHash": spec_hash(stored.spec)}}
    act = partial(KubeApi.patch, patch_type=PatchType.MERGE, field_manager="operator", subresource="status")
    hands.do(lambda api: act(api, ref_of(upgrade, OPERATION), {"status": running}))
    found = hands.do(partial(difference, kind=APPLICATION_INSTANCE, manifest=wanted, now=datetime.now(UTC)))
    assert LATER not in text(found, colour=False)


def operation() -> dict[str, Any]:
    """An Operation as somebody keeps it in a file."""
    labels = {name: LABELS[name] for name in (MANAGED_BY, CLUSTER_ID)}
    spec = {"type": "Upgrade", "engine": "helm", "targetRef": {"name": NAME}}
    return {**OPERATION.manifest("up", NS), "metadata": {"name": "up", "namespace": NS, "labels": labels}, "spec": spec}


@pytest.mark.slow
@in_both_worlds
def test_what_another_manager_holds_is_refused_by_name_SEE_2(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        held = {**RELEASE.kind.manifest(RELEASE.name, NS), "spec": {"interval": "7m0s"}}
        world.hands.do(lambda api: api.apply(held, kind=RELEASE.kind, field_manager="somebody", force=True))
        found = compared(world, labelled(LATER))
        assert status_of(found) == FAILED
        assert 'conflict with "somebody"' in text(found, colour=False)

    face.run(story)


@run_by(IN_PROCESS.run)
async def test_what_the_api_server_would_not_take_changes_nothing_downstream_SEE_2(world: World) -> None:
    broken = labelled(FIRST)
    broken["spec"]["chart"] = {"version": 5}
    found = compared(world, broken)
    assert status_of(found) == FAILED
    assert len(found.changes) == 1
    assert "would not take it" in diff_line(found)


@pytest.mark.slow
@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_an_operation_shows_what_its_engine_would_be_given_SEE_2(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    found = compared(world, ops.manifest("runCommand.job", "tell"), OPERATION)
    assert status_of(found) == DIFFERS
    assert JOB in {change.ref.kind for change in found.changes}
    assert world.find(found.changes[0].ref) is None


def test_a_job_is_compared_by_what_it_carries_and_other_kinds_are_not_ours_SEE_2() -> None:
    payload = labelled(FIRST)
    job = {"id": "j-1", "kind": "apply", "payload": payload}
    assert list(applied([job])) == [(APPLICATION_INSTANCE, payload, FIELD_MANAGER)]
    assert list(applied([payload])) == [(APPLICATION_INSTANCE, payload, "")]
    with pytest.raises(
        CommandError, match="ConfigMap x is neither an ApplicationInstance nor an Operation, nor of a kind of --box"
    ):
        list(applied([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}]))


@pytest.mark.slow
def test_from_files_it_needs_no_cluster_SEE_2(tmp_path: Path) -> None:
    observed = tmp_path / "observed"
    observed.mkdir()
    example = Path("examples/application-oci.yaml").read_text(encoding="utf-8")
    (observed / "instance.yaml").write_text(example, encoding="utf-8")
    new = tmp_path / "new.yaml"
    new.write_text(example.replace("version: ", "version: 1"), encoding="utf-8")
    ended = run("diff", new, "--offline", observed)
    assert ended.status == DIFFERS, ended.err
    assert "HelmRelease" in ended.out
    assert "diff: ApplicationInstance" in ended.err


@pytest.mark.parametrize("place", ["instance.yaml", "instance.yml", "instance.json", "org/instance.yaml"])
def test_every_file_of_what_is_observed_is_read_SEE_2(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `kubectl get -o json` wrote was left out, and all of it said to be new."""
    example = Path("examples/application-oci.yaml").read_text(encoding="utf-8")
    (tmp_path / "new.yaml").write_text(example, encoding="utf-8")
    there = tmp_path / "observed" / place
    there.parent.mkdir(parents=True)
    text = json.dumps(list(yaml.safe_load_all(example))[-1]) if place.endswith("json") else example
    there.write_text(text, encoding="utf-8")
    diff(str(tmp_path / "new.yaml"), offline=tmp_path / "observed")
    assert "+kind: ApplicationInstance" not in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_no_empty_one_SEE_2(tmp_path: Path) -> None:
    assert run_command(["diff", "examples/application-oci.yaml", "--offline", str(tmp_path / "observd")]) == FAILED
