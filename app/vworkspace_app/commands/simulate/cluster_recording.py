"""The command `simulate record`, and the reading of users' actions from a recording for a simulation (SIM-1, SIM-3)."""

import sys
from pathlib import Path

from purekube.apimachinery.resources import NAMESPACE
from purekube_http import KubeApiClient
from purekube_run.process import logs
from purekube_run.process.command_line import FAILURE, USAGE, CommandError
from purekube_run.process.machine import SystemClock
from purekube_run.simulation.input_file import BadFile, plain
from purekube_run.simulation.script import Act
from vworkspace_app import VERSION
from vworkspace_app.commands.shared.session import at_cluster
from vworkspace_app.simulation.acts import acts_in
from vworkspace_app.simulation.recording import ClusterRecorder, counts_text, is_recording, read_recording
from vworkspace_app.simulation.run import read_script


def record(kubeconfig: Path | None, seconds: float, out: Path, cluster_id: str = "") -> int:
    """Record a cluster's objects and Events into the file `out` for `seconds`; return the exit status.

    `cluster_id` is the operator's cluster id; if it is empty, that of the only Cluster object is taken. An existing
    file is overwritten only after the cluster has answered. Raises CommandError if the file cannot be written, and for
    errors of the cluster.
    """
    try:
        file = out.open("ab")
    except (OSError, ValueError) as error:
        raise CommandError(
            f"--out {plain(str(out))}: cannot be written: {getattr(error, 'strerror', None) or error}", status=USAGE
        ) from error

    async def work(api: KubeApiClient) -> ClusterRecorder:
        await api.list(NAMESPACE, limit=1)
        file.truncate(0)
        recorder = ClusterRecorder(api, SystemClock(), file.write)
        await recorder.record(seconds, cluster_id)
        return recorder

    logs.configure(level="warning", operator_version=VERSION)
    with file:
        print(f"recording for {seconds:g} s; Ctrl-C ends it, and keeps what was written", file=sys.stderr)
        recorder = at_cluster(kubeconfig, work)
    print(f"{out}: {counts_text(recorder.counts)}")
    for trouble in recorder.missing:
        print(f"not recorded: {plain(trouble)}", file=sys.stderr)
    print(f"vworkspace-operator simulate replay {out}")
    return FAILURE if recorder.missing else 0


def acts_of(path: Path, seconds: float) -> tuple[Act, ...]:
    """Return the users' actions in the first `seconds` of the file `path`.

    The file is a recording of a cluster, or a saved simulation run. Later actions are left out, and a note on
    standard error says so. Raises CommandError if there are no actions in that time, or if the file cannot be read.
    """
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


def workload_in(path: Path) -> tuple[tuple[Act, ...], float]:
    """Return the users' actions in the file `path`, and how many seconds the recording or run in this file lasted.

    The file is a recording of a cluster, or a saved simulation run. Raises BadFile if it cannot be read.
    """
    if is_recording(path):
        recording = read_recording(path)
        return tuple(acts_in(recording)), recording.seconds
    script = read_script(path)
    return script.acts, script.seconds
