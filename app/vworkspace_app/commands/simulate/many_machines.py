"""The commands `simulate manifests` and `simulate collect`, for simulation runs on many machines (SIM-1).

The runs are the pods of a Kubernetes Job with completionMode Indexed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from purekube.apimachinery.errors import AlreadyExists, NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, JOB, POD
from purekube.ports import KubeApi
from purekube_run.controller.lookups import all_of
from purekube_run.process.command_line import FAILURE, USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump
from purekube_run.simulation.input_file import BadFile, plain
from vworkspace_app.commands.shared.session import at_cluster
from vworkspace_app.commands.simulate.seeds import summary_lines
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
from vworkspace_app.simulation.run import script_in
from vworkspace_app.simulation.verdict import merged
from vworkspace_core.api.labels import FIELD_MANAGER

_MOST_NAMED: Final = 5


def manifests(runs: IndexedRuns) -> str:
    """Return the manifests of an Indexed Job that runs simulations, and of the rights that the Job needs, as YAML.

    Raises CommandError if the name of the Job is invalid.
    """
    if not is_job_name(runs.name):
        raise CommandError(f"--name {plain(runs.name)}: at most 42 of a-z, 0-9 and -, such as simulate", status=USAGE)
    return dump(list(job_manifests(runs)), Format.YAML)


def config_maps_in(where: str) -> Callable[[int, str], str]:
    """Return a function that saves a simulation run of a Job in a ConfigMap; `where` is NAMESPACE/JOB.

    The function gets the run's seed and the run as JSON text, and returns the ConfigMap's name. Raises CommandError if
    `where` is invalid.
    """
    namespace, _, job = where.partition("/")
    if not is_job_name(job) or not is_job_name(namespace):
        raise CommandError(f"--config-maps {plain(where)}: NAMESPACE/JOB, such as default/simulate", status=USAGE)
    return partial(save_in_config_map, None, where)


def save_in_config_map(kubeconfig: Path | None, where: str, seed: int, text: str) -> str:
    """Save a run that violated a law (required property) in a ConfigMap; return the ConfigMap's name.

    `text` is the saved run as JSON, and `seed` its seed. `where` is the namespace of the ConfigMap and the Job that
    runs, as NAMESPACE/JOB. Raises CommandError if the cluster refuses the write.
    """
    namespace, _, job = where.partition("/")
    manifest = broken_run_manifest(namespace, job, seed, text)

    async def work(api: KubeApi) -> None:
        try:
            await api.create(manifest, kind=CONFIG_MAP, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return  # by an earlier try of this pod, which is a function of the same seed

    at_cluster(kubeconfig, work)
    return f"ConfigMap {namespace}/{metadata(manifest)['name']}"


def collect(name: str, namespace: str, folder: Path, kubeconfig: Path | None = None) -> int:
    """Print the combined verdict of all pods of the simulation Job `name`, and save the runs that violated a law.

    A law is a required property. The runs are saved in `folder`. Return the exit status: it is 0 only if all pods have
    reported and no run violated a law. Raises CommandError if the Job does not exist or the cluster cannot be read.
    """

    async def work(api: KubeApi) -> tuple[Collected, list[Manifest]]:
        try:
            job = await api.get(ObjectRef(JOB, namespace, name))
        except NotFound as error:
            raise CommandError(f"there is no Job {namespace}/{name}", status=USAGE) from error
        pods = await all_of(api, POD, namespace=namespace, selector=pods_selector(name))
        saved = await all_of(api, CONFIG_MAP, namespace=namespace, selector=f"{LABEL}={name}")
        return collected(job, list(pods)), list(saved)

    results, saved = at_cluster(kubeconfig, work)
    for line in _report(results):
        print(line)
    for path in _write_runs(saved, folder):
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
    """Write the run in each ConfigMap of `saved` into a file in `folder`, and yield the paths. Raises CommandError."""
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
