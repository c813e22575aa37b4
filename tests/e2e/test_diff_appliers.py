"""`diff` tells what the same hand's next apply would really do: what it removes, too (SEE-2)."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import LAST_APPLIED, Manifest, get_path
from purekube.controller.appliers import Applier
from purekube.ports import KubeApi, KubeRequest
from purekube.ports.kube import WRITES, Send
from purekube_http import KubeApiClient, load_config
from tests.e2e.test_box_run import SHOP
from tests.support.box_site import NS as TEAM
from tests.support.box_site import QUICK, BoxSite, example, in_process
from tests.support.e2e_world import FIRST, INSTANCE, NAME, NS, World, instance
from tests.support.kubectl import Kubectl, why_not
from tests.support.operation_requests import LABELS
from tests.support.run_by import run_by
from tests.support.server_thread import served, wall_clock
from tests.support.servers import IN_PROCESS
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.diff import DIFFERS, FAILED, SAME, status_of, text
from vworkspace_app.overview.differences import Difference, difference
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLI_MANAGER, CLUSTER_ID, FIELD_MANAGER, MANAGED_BY

WEBAPP = example("webapp")
CLIENT_SIDE = "kubectl-client-side-apply"
WAYS = [CLIENT_SIDE, "kubectl", "ci"]
NOW = datetime(2026, 1, 1, 13, tzinfo=UTC)
DEBUG = {"source": "inline", "inline": {"replicaCount": 1, "debug": True}}
SWITCHED = {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}}


def file(values: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """The instance as somebody keeps it in a file."""
    labels = {name: LABELS[name] for name in (MANAGED_BY, CLUSTER_ID)}
    whole = instance(FIRST, metadata={"name": NAME, "namespace": NS, "labels": labels})
    spec = {name: value for name, value in whole["spec"].items() if name != "values"}
    return {**whole, "spec": {**spec, "values": values, **more} if values is not None else {**spec, **more}}


def apply(world: World, manifest: Manifest, manager: str) -> None:
    """Somebody applies a file, as `kubectl apply` does without and with --server-side."""
    if manager == CLIENT_SIDE:
        kept = {**manifest["metadata"], "annotations": {LAST_APPLIED: json.dumps(manifest)}}
        whole = {**manifest, "metadata": kept}
        world.hands.do(lambda api: api.create(whole, kind=APPLICATION_INSTANCE, field_manager=manager))
    else:
        world.hands.do(lambda api: api.apply(manifest, kind=APPLICATION_INSTANCE, field_manager=manager))


def compared(world: World, manifest: Manifest, **more: Any) -> Difference:
    """What `diff` finds."""
    found = partial(difference, kind=APPLICATION_INSTANCE, manifest=manifest, now=datetime.now(UTC), **more)
    return world.hands.do(found)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("kubectl")
    with served(ApiServer(now=wall_clock)) as url:
        (home / "config").write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
        tool = Kubectl(home)
        tool.run("apply", "-f", "-", given=yaml.safe_dump_all(crd_manifests()))
        tool.run("create", "namespace", NS)
        yield tool


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the instance that a test with kubectl leaves."""
    yield
    if "kubectl" in request.fixturenames:
        request.getfixturevalue("kubectl").run("delete", "appinst", NAME, "-n", NS)


APPLIES: dict[str, tuple[str, ...]] = {
    CLIENT_SIDE: (),
    "kubectl": ("--server-side",),
    "ci": ("--server-side", "--field-manager=ci"),
}
NEXT: dict[str, dict[str, Any] | None] = {
    "a field removed": {"source": "inline", "inline": {"replicaCount": 1}},
    "another source": SWITCHED,
    "a map emptied": {"source": "inline", "inline": {}},
    "all removed": None,
}


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("manager", WAYS)
@pytest.mark.parametrize("change", NEXT)
def test_diff_and_kubectl_agree_on_what_an_apply_does_SEE_2(
    kubectl: Kubectl, change: str, manager: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("apply", *APPLIES[manager], "-f", "-")
    kubectl.run(*words, given=yaml.safe_dump(file(DEBUG)))
    kubectl.run("annotate", "appinst", NAME, "-n", NS, "who=somebody")
    wanted, config = file(NEXT[change]), kubectl.home / "config"

    async def foretold() -> Difference:
        async with KubeApiClient(load_config(config)) as api:
            return await difference(api, APPLICATION_INSTANCE, wanted, NOW)

    found = anyio.run(foretold)
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(wanted), encoding="utf-8")
    assert run_command(["diff", str(tmp_path / "file.yaml"), "--kubeconfig", str(config)]) == DIFFERS
    told = capsys.readouterr()
    assert "debug: true" in told.out
    assert "note: " not in told.err
    kubectl.run(*words, given=yaml.safe_dump(wanted))
    live = kubectl.json("get", "appinst", NAME, "-n", NS)
    assert get_path(found.changes[0].after, "spec") == live["spec"]
    assert found.applier.manager == manager


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_an_assumed_manager_is_said_and_a_named_one_is_taken_SEE_2(
    kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.run("create", "-f", "-", given=yaml.safe_dump(file(DEBUG)))
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(file(NEXT["a field removed"])), encoding="utf-8")
    words = ["diff", str(tmp_path / "file.yaml"), "--kubeconfig", str(kubectl.home / "config")]
    assert run_command(words) == SAME
    told = capsys.readouterr()
    assert (told.out, told.err.count("note: ")) == ("", 1)
    assert "nobody but the operator is known to have applied it" in told.err
    assert run_command([*words, "--field-manager", "kubectl-client-side-apply"]) == SAME
    assert "note: " not in capsys.readouterr().err


@pytest.mark.parametrize("manager", WAYS)
@run_by(IN_PROCESS.run)
async def test_a_field_that_the_file_omits_is_shown_as_removed_SEE_2(world: World, *, manager: str) -> None:
    """A stranger removed `debug: true` from a file: `diff` said that nothing would change, and it went."""
    apply(world, file(DEBUG), manager)
    before = world.get(INSTANCE)
    same = compared(world, file(DEBUG))
    assert (same.changes[0].before, same.changes[0].after) == (before, same.changes[0].before)
    found = compared(world, file({"source": "inline", "inline": {"replicaCount": 1}}))
    assert "-      debug: true" in text(found, colour=False)
    assert (status_of(found), found.applier.manager, found.note) == (DIFFERS, manager, "")
    assert world.get(INSTANCE) == before


@pytest.mark.parametrize("manager", WAYS)
@run_by(IN_PROCESS.run)
async def test_another_source_of_values_is_not_refused_SEE_2(world: World, *, manager: str) -> None:
    apply(world, file(DEBUG), manager)
    found = compared(world, file(SWITCHED))
    assert [change.refused for change in found.changes if change.refused] == []
    assert get_path(found.changes[0].after, "spec", "values") == SWITCHED
    assert status_of(found) == DIFFERS


@run_by(IN_PROCESS.run)
async def test_what_others_set_stays_and_edits_are_put_back_by_a_client_side_apply_SEE_2(world: World) -> None:
    apply(world, file(DEBUG), CLIENT_SIDE)
    edited = {"spec": {"suspend": True, "values": {"inline": {"replicaCount": 3}}}}
    world.edit(INSTANCE, edited)
    found = compared(world, file(DEBUG))
    after = get_path(found.changes[0].after, "spec")
    assert (get_path(after, "suspend"), get_path(after, "values")) == (True, DEBUG)


@run_by(IN_PROCESS.run)
async def test_what_the_server_would_refuse_in_a_client_side_apply_is_said_SEE_2(world: World) -> None:
    apply(world, file(DEBUG), CLIENT_SIDE)
    before = world.get(INSTANCE)
    unknown = file(DEBUG)
    unknown["spec"]["chrt"] = {}
    for broken in (file({**SWITCHED, "inline": {"a": 1}}), unknown):
        found = compared(world, broken)
        assert found.changes[0].refused
        assert status_of(found) == FAILED
    assert world.get(INSTANCE) == before


@run_by(IN_PROCESS.run)
async def test_where_nobody_is_known_to_have_applied_it_diff_says_whom_it_assumes_SEE_2(world: World) -> None:
    fresh = compared(world, file(DEBUG))
    assert (fresh.applier.manager, fresh.note) == ("kubectl", "")
    world.create_object(file(DEBUG), APPLICATION_INSTANCE)
    suspended = {**APPLICATION_INSTANCE.manifest(NAME, NS), "spec": {"suspend": True}}
    for own in (CLI_MANAGER, FIELD_MANAGER):
        act = partial(KubeApi.apply, manifest=suspended, kind=APPLICATION_INSTANCE, field_manager=own, force=True)
        world.hands.do(act)
    found = compared(world, file({"source": "inline", "inline": {"replicaCount": 1}}))
    assert found.applier == Applier("kubectl")
    assert "compared as kubectl apply --server-side (manager kubectl)" in found.note
    assert "--field-manager" in found.note
    assert get_path(found.changes[0].after, "spec", "suspend") is True
    named = compared(world, file(DEBUG), manager="somebody")
    assert (named.applier, named.note) == (Applier("somebody"), "")


@run_by(IN_PROCESS.run)
async def test_of_several_hands_the_latest_is_taken_and_all_are_named_SEE_2(world: World) -> None:
    apply(world, file(DEBUG), "ci")
    await anyio.sleep(2)
    apply(world, file(DEBUG, suspend=True), "people")
    found = compared(world, file({"source": "inline", "inline": {"replicaCount": 1}}, suspend=True))
    assert found.applier == Applier("people")
    assert "applied by people and ci" in found.note
    assert get_path(found.changes[0].after, "spec", "values") == DEBUG, "the other hand holds it still"


@run_by(IN_PROCESS.run)
async def test_a_job_is_compared_as_the_operator_applies_it_SEE_2(world: World) -> None:
    await world.ready()
    less = instance(FIRST)
    less["spec"] = {**less["spec"], "values": {"source": "inline", "inline": {}}}
    found = compared(world, less, manager=FIELD_MANAGER)
    assert text(found, colour=False).splitlines()[:2] == [f"--- {INSTANCE} now", f"+++ {INSTANCE} then"]
    assert "-      replicaCount: 1" in text(found, colour=False)
    own = found.changes[0]
    for name in ("annotations", "labels", "finalizers"):
        before, after = (get_path(side, "metadata", name) for side in (own.before, own.after))
        assert before == after, name
    assert not found.is_held
    assert status_of(compared(world, instance(FIRST), manager=FIELD_MANAGER)) == SAME


def test_from_files_too_the_annotation_tells_what_goes_SEE_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kubectl get -o yaml` leaves managedFields out, and prints the annotation."""
    observed, wanted = tmp_path / "observed.yaml", tmp_path / "file.yaml"
    whole = file(DEBUG)
    whole["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(file(DEBUG))}
    wanted.write_text(yaml.safe_dump(file(NEXT["a field removed"])), encoding="utf-8")
    words = ["diff", str(wanted), "--offline", str(observed)]
    for present, notes, removes in ((whole, 0, True), (file(DEBUG), 1, False)):
        observed.write_text(yaml.safe_dump(present), encoding="utf-8")
        assert run_command(words) == DIFFERS
        told = capsys.readouterr()
        assert (told.err.count("note: ApplicationInstance"), "-      debug: true" in told.out) == (notes, removes)


@pytest.mark.parametrize("manager", WAYS)
@pytest.mark.parametrize("is_reader", [False, True])
@run_by(in_process, QUICK)
async def test_an_object_of_a_box_shows_the_default_that_takes_the_place_of_an_omission_SEE_2(
    site: BoxSite, *, manager: str, is_reader: bool
) -> None:
    """`replicas: 3` was removed from the file of an object of a box: `diff --box` saw nothing."""
    await site.install(WEBAPP.crd)
    await site.namespace()
    api = site.admin.through(_may_not_write) if is_reader else site.admin.through(_dry_runs_alone)
    whole: dict[str, Any] = {**WEBAPP.kind.manifest("shop", TEAM), "spec": {**SHOP, "replicas": 3}}
    if manager == CLIENT_SIDE:
        kept = {**whole["metadata"], "annotations": {LAST_APPLIED: json.dumps(whole)}}
        await site.admin.create({**whole, "metadata": kept}, kind=WEBAPP.kind, field_manager=manager)
    else:
        await site.admin.apply(whole, kind=WEBAPP.kind, field_manager=manager)
    less = {key: value for key, value in SHOP.items() if key != "replicas"}
    found = await difference(api, WEBAPP.kind, {**whole, "spec": less}, NOW, WEBAPP)
    told = text(found, colour=False)
    assert "-  replicas: 3" in told
    assert ("+  replicas: 2" in told) is not is_reader
    assert LAST_APPLIED not in told
    assert found.applier.manager == manager


async def _may_not_write(request: KubeRequest, send: Send) -> Any:
    """The API server as a reader meets it."""
    if request.verb in WRITES:
        raise Forbidden("no right")
    return await send(request)


async def _dry_runs_alone(request: KubeRequest, send: Send) -> Any:
    """A server to which no write is sent but dry runs."""
    assert not request.writes, request
    return await send(request)
