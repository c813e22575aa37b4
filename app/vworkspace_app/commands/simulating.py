"""The command `simulate`: the whole world under virtual time, and the replay of a saved run."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from purekube_run.process.errors import USAGE, CommandError
from vworkspace_app.settings.setting_types import seconds_of

simulate = App(name="simulate")


@simulate.default
def simulate_runs(
    *,
    runs: Annotated[int, Parameter(help="Runs, each with the next seed.")] = 20,
    time: Annotated[str, Parameter(name="--for", help="Virtual time of a run until its faults stop: 10m, 1h.")] = "1h",
    instances: Annotated[int, Parameter(help="ApplicationInstances that are made in a run.")] = 10,
    replicas: Annotated[int, Parameter(help="Processes of the operator, of which one leads.")] = 2,
    faults: Annotated[str, Parameter(help="all, none, or names with commas between them.")] = "all",
    seed: Annotated[int, Parameter(help="The seed of the first run. A run depends on its seed alone.")] = 1,
    jobs: Annotated[int, Parameter(help="Runs at the same time, each in a process of its own.")] = 1,
    output: Annotated[Path, Parameter(help="The folder for files of runs that break a law.")] = Path(),
) -> int:
    """Try the operator with people, jobs and faults in a world under virtual time, and check its laws throughout.

    Exit status 0: every law held; 1: one was broken, and a file has the shrunk run for `replay`. Examples:

        vworkspace-operator simulate
        vworkspace-operator simulate --runs 1000 --for 10m --instances 5 --jobs 2
        vworkspace-operator simulate --faults crash-after-write,watch-late --seed 42
        vworkspace-operator simulate --runs 1 --for 1h --instances 50 --faults none
    """
    from vworkspace_app.commands.simulate import SimulateRequest, faults_named
    from vworkspace_app.commands.simulate import simulate as run

    counts = {"--runs": runs, "--instances": instances, "--replicas": replicas, "--jobs": jobs}
    if wrong := [name for name, count in counts.items() if count < 1]:
        raise CommandError(f"{', '.join(wrong)}: at least 1", status=USAGE)
    seconds = seconds_of(time)
    if not 60 <= seconds <= 86_400:
        raise CommandError(f"--for {time}: a duration from 1m to 24h, such as 10m or 1h", status=USAGE)
    return run(SimulateRequest(runs, seconds, instances, replicas, faults_named(faults), seed, jobs, output))


@simulate.command
def replay(file: Annotated[Path, Parameter(help="A file that `simulate` saved.")], /) -> int:
    """Run a saved run again and print everything that happened in it.

    Exit status 0: no law is broken; 1: one is. Example:

        vworkspace-operator simulate replay broken-PULL-4-20261519.json
    """
    from vworkspace_app.commands.simulate import replay as run

    return run(file)
