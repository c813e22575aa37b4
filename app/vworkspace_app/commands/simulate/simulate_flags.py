"""The command `simulate` and its subcommands, with their flags. They simulate the operator under virtual time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from purekube.apimachinery.durations import seconds_of
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds, Kubeconfig
from vworkspace_app.install.options import read_settings


def simulate_runs(
    *,
    runs: Annotated[int, Parameter(help="Runs, each with the next seed.")] = 20,
    time: Annotated[str, Parameter(name="--for", help="Virtual time of a run until its faults stop: 10m, 1h.")] = "1h",
    instances: Annotated[int, Parameter(help="ApplicationInstances that are made in a run, or objects of yours.")] = 10,
    replicas: Annotated[int, Parameter(help="Processes of the operator, of which one leads.")] = 2,
    shards: Annotated[int, Parameter(help="Shards of the operator, each with so many replicas.")] = 1,
    faults: Annotated[str, Parameter(help="all, none, or names with commas between them.")] = "all",
    box: Annotated[
        list[str] | None, Parameter(help="File of a box of yours, which runs instead of the operator.")
    ] = None,
    controllers: Annotated[
        list[str] | None,
        Parameter(help="Controllers of yours, which run instead of the operator: MODULE[:NAME], or an installed name."),
    ] = None,
    applied: Annotated[
        bool,
        Parameter(help="Apply the box as an OperatorBox, whose definition people change (roll-outs).", negative=""),
    ] = False,
    crds: Crds = None,
    seed: Annotated[int, Parameter(help="The seed of the first run. A run depends on its seed alone.")] = 1,
    jobs: Annotated[int, Parameter(help="Runs at the same time, each in a process of its own.")] = 1,
    output: Annotated[Path, Parameter(help="The folder for files of runs that break a law.")] = Path(),
    workload: Annotated[
        Path | None,
        Parameter(help="A recording of `simulate record`, or a saved run: its acts are done instead of drawn ones."),
    ] = None,
    index: Annotated[int, Parameter(help="In an Indexed Job: begin so many times --runs seeds later.")] = 0,
    verdict: Annotated[Path | None, Parameter(help="A file for the verdict, for `simulate collect`.")] = None,
    config_maps: Annotated[
        str, Parameter(help="NAMESPACE/JOB: save runs that break a law in ConfigMaps instead of files.")
    ] = "",
) -> int:
    """Simulate the operator with users, jobs and faults in virtual time, and check its laws (required properties).

    Exit status 0: every law held; 1: one was broken, and a file has the shrunk run for `replay`; 2: the command itself
    failed. Examples:

        vworkspace-operator simulate
        vworkspace-operator simulate --runs 1000 --for 10m --instances 5 --jobs 2
        vworkspace-operator simulate --faults crash-after-write,watch-late --seed 42
        vworkspace-operator simulate --runs 1 --for 1h --instances 50 --faults none
        vworkspace-operator simulate --box webapp.yaml --for 20m --instances 3
        vworkspace-operator simulate --box webapp.yaml --applied --for 20m --instances 5
        vworkspace-operator simulate --controllers shops.reconcilers --runs 100 --for 20m
    """
    from vworkspace_app.commands.simulate.cluster_recording import acts_of
    from vworkspace_app.commands.simulate.many_machines import config_maps_in
    from vworkspace_app.commands.simulate.seeds import SimulateRequest, faults_named
    from vworkspace_app.commands.simulate.seeds import simulate as run
    from vworkspace_app.simulation.operator_faults import FAULTS
    from vworkspace_app.simulation.run import extension_simulation

    _check_counts(
        {"--runs": runs, "--instances": instances, "--replicas": replicas, "--shards": shards, "--jobs": jobs}
    )
    if not 0 <= index < 1_000_000:
        raise CommandError(f"--index {index}: from 0 to 999999", status=USAGE)
    acts = None if workload is None else acts_of(workload, seconds_of_run(time))
    extensions = tuple(box or ()), tuple(controllers or ()), tuple(map(str, crds or ()))
    known = extension_simulation(*extensions, applied).faults if box or controllers or applied else FAULTS
    named = faults_named(faults, tuple(known))
    save = config_maps_in(config_maps) if config_maps else None
    sizes = (runs, seconds_of_run(time), instances, replicas, named, seed + index * runs, jobs, output)
    return run(SimulateRequest(*sizes, *extensions, applied, shards, acts, verdict, save))


def _check_counts(counts: Mapping[str, int]) -> None:
    """Raise CommandError if an option, by its name, has a number below 1."""
    if wrong := [option for option, count in counts.items() if count < 1]:
        raise CommandError(f"{', '.join(wrong)}: at least 1", status=USAGE)


def seconds_of_run(time: str) -> float:
    """Return `time`, the value of the option `--for`, in seconds. Raises CommandError unless it is from 1m to 24h."""
    seconds = seconds_of(time, 0.0)
    if not 60 <= seconds <= 86_400:
        raise CommandError(f"--for {time}: a duration from 1m to 24h, such as 10m or 1h", status=USAGE)
    return seconds


def replay(
    file: Annotated[Path, Parameter(help="A file of `simulate`, which broke a law, or of `simulate record`.")],
    /,
    *,
    at: Annotated[str, Parameter(help="Show everything at a moment: 0:41:07.5, 61.4 (seconds) or 10m.")] = "",
    step: Annotated[
        bool, Parameter(help="Go from decision to decision; without a terminal, print all.", negative="")
    ] = False,
    diff: Annotated[tuple[str, str] | None, Parameter(help="Show what changed between two moments.")] = None,
    show: Annotated[
        bool, Parameter(name="--open", help="Serve a page with a slider for time, and open it.", negative="")
    ] = False,
    listen: Annotated[str, Parameter(help="HOST:PORT of the page; port 0 takes a free one.")] = "127.0.0.1:0",
    setting: Annotated[
        Mapping[str, str] | None,
        Parameter(read=read_settings, help="NAME=VALUE: a setting of run that the recorded operator had; repeatable."),
    ] = None,
    controllers: Annotated[
        list[str] | None,
        Parameter(help="A module that the run may import, if it is one of your controllers; repeatable."),
    ] = None,
) -> int:
    """Run a saved run again, or decide a recorded cluster again, and show any moment of it.

    All events are printed, and each decision with the row of the decision table that applied. Exit status 0: the run
    breaks no law, or this version decides as the recorded objects show. Exit status 1: a law is broken, or a decision
    differs. Exit status 2: the file cannot be used. Examples:

        vworkspace-operator simulate replay broken-PULL-4-20261519.json
        vworkspace-operator simulate replay broken-PULL-4-20261519.json --at 0:41:07
        vworkspace-operator simulate replay broken-PULL-4-20261519.json --diff 40m 0:41:07
        vworkspace-operator simulate replay broken-PULL-4-20261519.json --step
        vworkspace-operator simulate replay day.jsonl --setting interval=30m --open
    """
    from vworkspace_app.commands.simulate.replay import ReplayRequest, moment_of
    from vworkspace_app.commands.simulate.replay import replay as run
    from vworkspace_app.settings.loading import load

    if sum((bool(at), step, diff is not None, show)) > 1:
        raise CommandError("of --at, --step, --diff and --open only one can be chosen", status=USAGE)
    moments = None if diff is None else (moment_of(diff[0], "--diff"), moment_of(diff[1], "--diff"))
    moment = moment_of(at, "--at") if at else None
    settings = load(setting or {}, {}).settings
    allowed = tuple(controllers or ())
    return run(ReplayRequest(file, moment, moments, step, show, listen, settings, allowed))


def record(
    *,
    time: Annotated[str, Parameter(name="--for", help="How long to record: 10m, 1h; at most 24h.")] = "10m",
    kubeconfig: Kubeconfig = None,
    out: Annotated[Path, Parameter(help="The file to write.")] = Path("recording.jsonl"),
    cluster_id: Annotated[str, Parameter(help="The operator's cluster id; default: that of the only Cluster.")] = "",
) -> int:
    """Record a real cluster: what the operator's caches hold, and Events; no Secret, and every value masked.

    `simulate replay` shows the recording, and says where this version would have decided differently. Needed are the
    rights to get, list and watch what the operator watches. Examples:

        vworkspace-operator simulate record --for 10m --out day.jsonl
        vworkspace-operator simulate replay day.jsonl
        vworkspace-operator simulate --workload day.jsonl --for 10m --runs 100
    """
    from vworkspace_app.commands.simulate.cluster_recording import record as run

    seconds = seconds_of(time, 0.0)
    if not 0 < seconds <= 86_400:
        raise CommandError(f"--for {time}: a duration of at most 24h, such as 10m or 1h", status=USAGE)
    return run(kubeconfig, seconds, out, cluster_id)


def manifests(
    *,
    runs: Annotated[int, Parameter(help="Runs, each with the next seed.")],
    parallelism: Annotated[int, Parameter(help="Pods at the same time.")],
    image: Annotated[str, Parameter(help="The operator's image.")],
    name: Annotated[str, Parameter(help="The name of the Job.")] = "simulate",
    namespace: Annotated[str, Parameter(help="Its namespace, which must exist.")] = "default",
    seed: Annotated[int, Parameter(help="The seed of the first run.")] = 1,
    time: Annotated[str, Parameter(name="--for", help="Virtual time of a run until its faults stop.")] = "1h",
    instances: Annotated[int, Parameter(help="ApplicationInstances that are made in a run.")] = 10,
    replicas: Annotated[int, Parameter(help="Processes of the operator, of which one leads.")] = 2,
    faults: Annotated[str, Parameter(help="all, none, or names with commas between them.")] = "all",
) -> None:
    """Print an Indexed Job that simulates on many machines, each index a range of seeds.

    A pod leaves its verdict as the termination message, and each run that breaks a law in a ConfigMap; it may do
    nothing else. A law is a property that every controller must have. `simulate collect` adds the verdicts up. Example:

        vworkspace-operator simulate manifests --runs 1000000 --parallelism 200 --image IMAGE | kubectl apply -f -
    """
    from vworkspace_app.commands.simulate.many_machines import manifests as run
    from vworkspace_app.commands.simulate.seeds import faults_named
    from vworkspace_app.simulation.indexed_job import IndexedRuns

    seconds_of_run(time), faults_named(faults)
    _check_counts({"--runs": runs, "--parallelism": parallelism, "--instances": instances, "--replicas": replicas})
    size = (f"--for={time}", f"--instances={instances}", f"--replicas={replicas}", f"--faults={faults}")
    print(run(IndexedRuns(name, namespace, image, runs, parallelism, seed, size)), end="")


def collect(
    *,
    name: Annotated[str, Parameter(help="The name of the Job.")] = "simulate",
    namespace: Annotated[str, Parameter(help="Its namespace.")] = "default",
    kubeconfig: Kubeconfig = None,
    output: Annotated[Path, Parameter(help="The folder for files of runs that break a law.")] = Path(),
) -> int:
    """Add up the verdicts of an Indexed Job, and fetch the runs that broke a law.

    A law is a property that every controller must have. Exit status 0: every index has a verdict, and every law held;
    1: otherwise. Example:

        vworkspace-operator simulate collect --name simulate
    """
    from vworkspace_app.commands.simulate.many_machines import collect as run

    return run(name, namespace, output, kubeconfig)
