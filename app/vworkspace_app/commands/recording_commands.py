"""`simulate record`, `manifests` and `collect`: a cluster's day as a file, and runs on many machines (SIM-1, SIM-3)."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from purekube.apimachinery.errors import AlreadyExists, NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, JOB, NAMESPACE, POD
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import all_of
from purekube_run.process.command_line import FAILURE, USAGE, CommandError
from purekube_run.process.machine import SystemClock
from purekube_run.process.yaml_documents import Format, dump
from purekube_run.simulation.input_file import BadFile, plain
from purekube_run.simulation.script import Act
from vworkspace_app.commands.session import at_cluster
from vworkspace_app.commands.simulate import summary_lines
from vworkspace_app.simulation.cluster_recorder import ClusterRecorder
from vworkspace_app.simulation.indexed_job import (
    FILE,
    LABEL,
    Collected,
    IndexedRuns,
    broken_run_manifest,
    collected,
    is_job_name,
    job_manifests,
    pods_selector,
)
from vworkspace_app.simulation.recorded_workload import workload_in
from vworkspace_app.simulation.run import script_in
from vworkspace_app.simulation.verdict import merged
from vworkspace_core.api.labels import FIELD_MANAGER

_MOST_NAMED: Final = 5


def record(kubeconfig: Path | None, seconds: float, out: Path, cluster_id: str = "") -> int:
    """Record a cluster into a file; return the exit status. Raises CommandError.

    An earlier file of that name stays until the cluster has answered.
    """
    try:
        file = out.open("ab")
    except (OSError, ValueError) as error:
        raise CommandError(f"--out {plain(str(out))}: cannot be written: {error}", status=USAGE) from error

    async def work(api: KubeApiClient) -> ClusterRecorder:
        await api.list(NAMESPACE, limit=1)
        file.truncate(0)
        recorder = ClusterRecorder(api, SystemClock(), file.write)
        await recorder.record(seconds, cluster_id)
        return recorder

    with file:
        print(f"recording for {seconds:g} s; Ctrl-C ends it, and keeps what was written", file=sys.stderr)
        recorder = at_cluster(kubeconfig, work)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(recorder.counts.items())) or "nothing"
    print(f"{out}: {counts}")
    for trouble in recorder.missing:
        print(f"not recorded: {plain(trouble)}", file=sys.stderr)
    print(f"vworkspace-operator simulate replay {out}")
    return FAILURE if recorder.missing else 0


def acts_of(path: Path, seconds: float) -> tuple[Act, ...]:
    """Return the acts in a recording or a saved run, as far as they fit into a run. Raises CommandError."""
    try:
        acts, length = workload_in(path)
    except BadFile as error:
        raise CommandError(str(error), status=USAGE) from error
    fitting = tuple(act for act in acts if act.at <= seconds)
    if not fitting:
        raise CommandError(f"{plain(str(path))}: nobody does anything in its first {seconds:g} s", status=USAGE)
    if len(fitting) < len(acts):
        left = len(acts) - len(fitting)
        print(f"note: {left} acts after {seconds:g} s are left out; --for {length:g}s takes all", file=sys.stderr)
    return fitting


# --- many machines ---------------------------------------------------------------------------------------------------


def manifests(runs: IndexedRuns) -> str:
    """Return the objects of an Indexed Job as YAML. Raises CommandError."""
    if not is_job_name(runs.name):
        raise CommandError(f"--name {plain(runs.name)}: at most 42 of a-z, 0-9 and -, such as simulate", status=USAGE)
    return dump(list(job_manifests(runs)), Format.YAML)


def config_maps_in(where: str) -> Callable[[int, str], str]:
    """Return a function that saves broken runs in ConfigMaps of `NAMESPACE/JOB`. Raises CommandError."""
    namespace, _, job = where.partition("/")
    if not is_job_name(job) or not is_job_name(namespace):
        raise CommandError(f"--config-maps {plain(where)}: NAMESPACE/JOB, such as default/simulate", status=USAGE)
    return partial(save_in_config_map, None, where)


def save_in_config_map(kubeconfig: Path | None, where: str, seed: int, text: str) -> str:
    """Save a broken run in a ConfigMap of `NAMESPACE/JOB`; return its name. Raises CommandError."""
    namespace, _, job = where.partition("/")
    manifest = broken_run_manifest(namespace, job, seed, text)

    async def work(api: KubeApi) -> None:
        try:
            await api.create(manifest, kind=CONFIG_MAP, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return  # by an earlier try of this pod, which is a function of the same seed

    at_cluster(kubeconfig, work)
    return f"ConfigMap {namespace}/{metadata(manifest)['name']}"


@attrs.frozen
class CollectRequest:
    """The arguments of `simulate collect`."""

    name: str
    namespace: str
    folder: Path
    kubeconfig: Path | None = None


def collect(request: CollectRequest) -> int:
    """Add up what a Job's pods have left; return the exit status. Raises CommandError."""

    async def work(api: KubeApi) -> tuple[Collected, list[Manifest]]:
        try:
            job = await api.get(ObjectRef(JOB, request.namespace, request.name))
        except NotFound as error:
            raise CommandError(f"there is no Job {request.namespace}/{request.name}", status=USAGE) from error
        pods = await all_of(api, POD, namespace=request.namespace, selector=pods_selector(request.name))
        saved = await all_of(api, CONFIG_MAP, namespace=request.namespace, selector=f"{LABEL}={request.name}")
        return collected(job, list(pods)), list(saved)

    results, saved = at_cluster(request.kubeconfig, work)
    for line in _report(results):
        print(line)
    for path in _write_runs(saved, request.folder):
        print(f"         vworkspace-operator simulate replay {path} --open")
    total = merged(results.tallies.values())
    return FAILURE if total.broken_runs or saved or results.missing else 0


def _report(results: Collected) -> Iterator[str]:
    total = merged(results.tallies.values())
    yield from summary_lines(f"seed {total.first}", total)
    for run in total.broken:
        yield f'broken   {run.clause} "{run.law}": seed {run.seed}, {run.saved}'
    if total.broken_runs > len(total.broken):
        yield f"         and {total.broken_runs - len(total.broken):,} runs more"
    if results.missing:
        named = [f"{index} ({plain(why)})" for index, why in sorted(results.missing.items())[:_MOST_NAMED]]
        more = f" and {len(results.missing) - _MOST_NAMED} more" if len(results.missing) > _MOST_NAMED else ""
        yield f"missing  {len(results.missing):,} indices without a verdict: {'; '.join(named)}{more}"


def _write_runs(saved: list[Manifest], folder: Path) -> Iterator[Path]:
    """Write each saved run into a file of `folder`, and yield its path. Raises CommandError."""
    for run in saved:
        text, name = get_path(run, "data", FILE), str(metadata(run)["name"])
        if not isinstance(text, str):
            continue
        path = folder / f"{name}.json"
        try:
            script_in(path, text.encode())
            path.write_text(text, encoding="utf-8")
        except BadFile as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{plain(str(path))}: cannot be written: {error.strerror}") from error
        yield path
