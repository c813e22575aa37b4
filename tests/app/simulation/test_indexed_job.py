"""`simulate manifests` and `collect`: runs on many machines as an Indexed Job (SIM-1).

Pods are played by a runner: it does for each index what kube-controller-manager and kubelet do, and really carries out
the container's arguments in a process of its own.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from kubelab.access.authorization import service_account
from kubelab.http.serving import kubeconfig
from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, JOB, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT
from purekube_http import KubeApiClient, load_config
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.script_file import script_text
from tests.support.cluster_choice import real_server
from tests.support.effort import unused_name
from tests.support.server_thread import served, wall_clock
from vworkspace_app.commands.simulate.many_machines import (
    collect,
    config_maps_in,
    manifests,
    save_in_config_map,
)
from vworkspace_app.simulation.indexed_job import (
    VERDICT,
    Collected,
    IndexedRuns,
    broken_run_manifest,
    collected,
    job_manifests,
)
from vworkspace_app.simulation.run import draw, read_script
from vworkspace_app.simulation.verdict import MOST_BYTES, BrokenRun, SimulationTally, merged, read_verdict, verdict_text

SIZE = ("--for=60s", "--instances=1", "--replicas=1", "--faults=none")
KINDS = {kind.kind: kind for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, JOB)}


def runs(**changes: Any) -> IndexedRuns:
    fields = {"name": "sim", "namespace": "default", "image": "operator:1", "runs": 4, "parallelism": 1, "seed": 7}
    return IndexedRuns(**{**fields, "arguments": SIZE, **changes})


def tally(first: int, *, broken: int = 0) -> SimulationTally:
    found = SimulationTally(first, runs=2, acts=3, jobs=1, writes=9, seconds=120.0, points={"apply HelmRelease"})
    found.checks.update({"RES-7": 5})
    found.happened.update({"watch-cut": 1})
    for seed in range(first, first + broken):
        found.add_broken(BrokenRun(seed, "PULL-4", "one effect per job", f"ConfigMap default/sim-{seed}"))
    return found


# --- the manifests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "parallelism"), [(1, 1), (4, 1), (1_000_000, 200), (7, 3), (11, 2)])
def test_the_indices_cover_every_seed_once(count: int, parallelism: int) -> None:
    """SIM-1: whole ranges, none shared, at least as many runs as were asked for."""
    job = runs(runs=count, parallelism=parallelism)
    covered = job.completions * job.runs_of_an_index
    assert count <= covered < count + job.completions
    *_, manifest = job_manifests(job)
    assert manifest["spec"]["completions"] == job.completions
    assert manifest["spec"]["parallelism"] <= parallelism


def test_a_pod_may_create_config_maps_and_nothing_else() -> None:
    """SIM-1: exactly the right for a broken run."""
    account, role, binding, job = job_manifests(runs())
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    assert {each["metadata"]["namespace"] for each in (account, role, binding, job)} == {"default"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "sim", "namespace": "default"}]
    assert get_path(job, "spec", "template", "spec", "serviceAccountName") == "sim"


@pytest.mark.parametrize("name", ["", "A", "a b", "x" * 60, "a/b", "-a", "a\n"])
def test_a_name_that_no_job_can_have_is_refused(name: str) -> None:
    """SIM-1."""
    with pytest.raises(CommandError, match="--name") as caught:
        manifests(runs(name=name))
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("where", ["", "sim", "/sim", "default/", "a/b/c", "x\n/y"])
def test_a_place_for_config_maps_is_a_namespace_and_a_job(where: str) -> None:
    """SIM-1."""
    with pytest.raises(CommandError, match="--config-maps") as caught:
        config_maps_in(where)
    assert "\n" not in caught.value.message


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_verdict_fits_the_termination_message_whatever_broke() -> None:
    """SIM-1: kubelet keeps 4,096 bytes; the number of broken runs is never lost."""
    large = tally(1, broken=500)
    large.points |= {f"apply {'K' * 60}{number}" for number in range(100)}
    text = verdict_text(large)
    assert len(text.encode()) <= MOST_BYTES
    assert read_verdict(text).broken_runs == 500
    assert read_verdict(verdict_text(tally(3, broken=1))) == tally(3, broken=1)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "Killed", '{"format": "vworkspace.io/verdict/v1", "runs": "x"}', "[" * 9999]
)
def test_what_is_no_verdict_is_refused(text: str) -> None:
    """SIM-1."""
    with pytest.raises(ValueError, match="it is no vworkspace"):
        read_verdict(text)


def pod(index: int, message: str | None, created: str = "2026-01-01T00:00:00Z") -> Manifest:
    state = (
        {"running": {}}
        if message is None
        else {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}}
    )
    meta = {"name": f"sim-{index}-{created[-3]}", "creationTimestamp": created}
    marks = {"annotations": {"batch.kubernetes.io/job-completion-index": str(index)}}
    return {"metadata": {**meta, **marks}, "status": {"containerStatuses": [{"name": "simulate", "state": state}]}}


def test_verdicts_are_added_up_and_missing_ones_named() -> None:
    """SIM-1: a pod that was tried again counts once."""
    job = {"spec": {"completions": 4}}
    again = pod(0, verdict_text(tally(1)), "2026-01-01T00:00:09Z")
    found = collected(
        job, [again, pod(0, verdict_text(tally(1))), pod(1, verdict_text(tally(3, broken=1))), pod(2, None)]
    )
    total = merged(found.tallies.values())
    assert (total.first, total.runs, total.checks["RES-7"], total.broken_runs) == (1, 4, 10, 1)
    assert set(found.missing) == {2, 3}
    assert found.missing[2].endswith("it has not ended")
    assert isinstance(found, Collected)


# --- on an API server ------------------------------------------------------------------------------------------------


class Runner:
    """What plays the pods of an Indexed Job: one process for each index, with the rights of the Job's account."""

    def __init__(self, admin: Path, pods: Path, folder: Path) -> None:
        self.admin, self.pods, self.folder = admin, pods, folder

    def run(self, namespace: str, name: str) -> None:
        """Carry out every index of a Job, and leave its pods."""
        job = anyio.run(self._job, namespace, name)
        for index in range(job["spec"]["completions"]):
            message, status = self._carry_out(job["spec"]["template"]["spec"]["containers"][0], index)
            anyio.run(self._leave, job, index, message, status)

    async def _job(self, namespace: str, name: str) -> Manifest:
        async with KubeApiClient(load_config(self.admin)) as api:
            return await api.get(ObjectRef(JOB, namespace, name))

    def _carry_out(self, container: Manifest, index: int) -> tuple[str, int]:
        """Run the container's arguments as kubelet would; return the termination message and the exit status."""
        log = self.folder / f"termination-{index}"
        log.touch()
        swaps = {"$(JOB_COMPLETION_INDEX)": str(index), VERDICT: str(log)}
        arguments = list(container["args"])
        for old, new in swaps.items():
            arguments = [argument.replace(old, new) for argument in arguments]
        assert container["terminationMessagePath"] == VERDICT
        command = [sys.executable, "-m", "vworkspace_app", *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.pods)}
        ended = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 1), ended.stderr
        return log.read_text()[:MOST_BYTES], ended.returncode

    async def _leave(self, job: Manifest, index: int, message: str, status: int) -> None:
        async with KubeApiClient(load_config(self.admin)) as api:
            name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
            template = job["spec"]["template"]
            spec = {**template["spec"], "serviceAccountName": "default"}
            made = {**POD.manifest(f"{name}-{index}-abcde", namespace), "spec": spec}
            made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": name}
            made["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(index)}
            live = await api.create(made, kind=POD, field_manager="runner")
            ended = {"exitCode": status, "reason": "Completed", "message": message}
            container = {"name": "simulate", "image": "operator:1", "imageID": "", "ready": False, "restartCount": 0}
            statuses = [{**container, "state": {"terminated": ended}}]
            body = {**live, "status": {**live.get("status", {}), "containerStatuses": statuses}}
            await api.apply_status(
                {key: body[key] for key in ("apiVersion", "kind", "status")}
                | {"metadata": {"name": made["metadata"]["name"], "namespace": namespace}},
                kind=POD,
                field_manager="runner",
            )


async def apply_all(config: Path, text: str) -> None:
    async with KubeApiClient(load_config(config)) as api:
        for manifest in yaml.safe_load_all(text):
            await api.apply(manifest, kind=KINDS[manifest["kind"]], field_manager="kubectl", force=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """An administrator and the Job's account on an embedded API server with RBAC."""
    server = ApiServer(now=wall_clock, rbac=True)
    tokens = {"admin": ADMIN, "pods": service_account("default", "sim")}
    with served(server, tokens=tokens) as url:
        for token in tokens:
            (tmp_path / token).write_text(yaml.safe_dump(kubeconfig(url, token)))
        yield tmp_path / "admin", tmp_path / "pods"


@pytest.mark.slow
def test_a_job_runs_and_is_collected(
    cluster: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIM-1: the printed manifests are applied, the pods' arguments carried out, and the verdicts added up."""
    admin, pods = cluster
    job = runs(runs=2, parallelism=1)
    anyio.run(apply_all, admin, manifests(job))
    place = ("sim", "default", tmp_path, admin)
    assert collect(*place) == 1, "no index has a verdict yet"
    assert "2 indices without a verdict: 0 (no pod has ended); 1 (no pod has ended)" in capsys.readouterr().out
    Runner(admin, pods, tmp_path).run("default", "sim")
    assert collect(*place) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 7   2 runs")
    assert "RES-7" in printed


def test_a_broken_run_is_saved_with_the_rights_of_a_pod_and_fetched(
    cluster: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIM-1: in a ConfigMap; the pod can do nothing else, and a second try of the same seed changes nothing."""
    admin, pods = cluster
    anyio.run(apply_all, admin, manifests(runs(runs=1)))
    text = script_text(draw(9, seconds=60.0, instances=1, replicas=1, faults=()), {"clause": "PULL-4"})
    for _ in range(2):
        assert save_in_config_map(pods, "default/sim", 9, text) == "ConfigMap default/sim-9"
    anyio.run(refused, pods)
    assert collect("sim", "default", tmp_path, admin) == 1
    assert "simulate replay" in capsys.readouterr().out
    assert read_script(tmp_path / "sim-9.json").seed == 9


async def refused(pods: Path) -> None:
    async with KubeApiClient(load_config(pods)) as api:
        for kind in (SECRET, POD, CONFIG_MAP):
            with pytest.raises(Forbidden):
                await api.list(kind, namespace="default")
        with pytest.raises(Forbidden):
            await api.create(CONFIG_MAP.manifest("x", "kube-system"), kind=CONFIG_MAP, field_manager="pod")


def test_a_config_map_with_something_else_in_it_is_refused_by_name(cluster: tuple[Path, Path], tmp_path: Path) -> None:
    """SIM-1, RUN-11: nothing is written of what another client put there."""
    admin, _ = cluster
    anyio.run(apply_all, admin, manifests(runs(runs=1)))

    async def plant() -> None:
        async with KubeApiClient(load_config(admin)) as api:
            made = broken_run_manifest("default", "sim", 1, '{"format": "evil"}')
            await api.create(made, kind=CONFIG_MAP, field_manager="stranger")

    anyio.run(plant)
    with pytest.raises(CommandError, match=r"sim-1\.json: \$\.format"):
        collect("sim", "default", tmp_path, admin)
    assert not (tmp_path / "sim-1.json").exists()


def test_a_job_that_does_not_exist_is_named(cluster: tuple[Path, Path], tmp_path: Path) -> None:
    """SIM-1."""
    with pytest.raises(CommandError, match="there is no Job default/none") as caught:
        collect("none", "default", tmp_path, cluster[0])
    assert caught.value.status == 2


@pytest.mark.slow
def test_a_real_api_server_takes_the_job_and_its_pods(tmp_path: Path) -> None:
    """SIM-1: kube-apiserver of `KUBEBUILDER_ASSETS`."""
    admin = tmp_path / "admin"
    admin.write_text(yaml.safe_dump(real_server().kubeconfig()))
    name = unused_name("sim")[:40]
    anyio.run(apply_all, admin, manifests(runs(name=name, runs=1)))
    Runner(admin, admin, tmp_path).run("default", name)
    assert collect(name, "default", tmp_path, admin) == 0
    anyio.run(_remove, admin, name)


async def _remove(admin: Path, name: str) -> None:
    async with KubeApiClient(load_config(admin)) as api:
        for ref in (ObjectRef(kind, "default", name) for kind in KINDS.values()):
            try:
                await api.delete(ref)
            except OperatorError:
                continue
        await api.delete(ObjectRef(POD, "default", f"{name}-0-abcde"))
