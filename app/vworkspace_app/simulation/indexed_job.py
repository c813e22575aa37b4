"""Simulations on many machines: an Indexed Job, each index of which runs a range of seeds, and its results (SIM-1).

A pod writes its verdict as its termination message, and creates a ConfigMap for each run that broke a law (required
property). A pod may create ConfigMaps in its namespace, and has no other right.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, JOB, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from vworkspace_app.simulation.verdict import SimulationTally, read_verdict

LABEL: Final = "vworkspace.io/simulation"
"""The label of a ConfigMap with a saved run; its value is the Job's name."""
FILE: Final = "run.json"
"""The key under which a ConfigMap holds a saved run."""
VERDICT: Final = "/dev/termination-log"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_MOST_INDICES: Final = 10_000
"""The maximum number of indices.

The Job's status lists all of them, and Kubernetes deletes ended pods if there are more than 12,500.
"""
_BROKEN_LAW: Final = 1
"""The exit status of a pod in which a run broke a law. The pod is not retried: the run would break it again."""
_NAME: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,40}[a-z0-9])?")


@attrs.frozen
class IndexedRuns:
    """The options of an Indexed Job that runs simulations on many machines.

    `runs` is the number of simulations, `parallelism` that of pods at the same time, `seed` the first seed. All pods
    get `arguments`, the arguments of the command `simulate`.
    """

    name: str
    namespace: str
    image: str
    runs: int
    parallelism: int
    seed: int = 1
    arguments: tuple[str, ...] = ()

    @property
    def completions(self) -> int:
        """The number of the Job's indices: five for each parallel pod, so that a slow index does not delay the Job
        much.
        """
        return max(1, min(self.runs, 5 * self.parallelism, _MOST_INDICES))

    @property
    def runs_of_an_index(self) -> int:
        """The number of runs of each index, rounded up."""
        return -(-self.runs // self.completions)


def is_job_name(name: str) -> bool:
    """Report whether a Job's name is short and plain enough to be a part of the names of ConfigMaps."""
    return _NAME.fullmatch(name) is not None


def job_manifests(runs: IndexedRuns) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the Job, and of a ServiceAccount with the right to create ConfigMaps."""
    for kind, body in (
        (SERVICE_ACCOUNT, {}),
        (ROLE, {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]}),
        (ROLE_BINDING, _binding(runs)),
        (JOB, {"spec": _job_spec(runs)}),
    ):
        yield {**_manifest(kind, runs), **body}


def _manifest(kind: Any, runs: IndexedRuns) -> dict[str, Any]:
    manifest: dict[str, Any] = kind.manifest(runs.name, runs.namespace)
    manifest["metadata"]["labels"] = {LABEL: runs.name}
    return manifest


def _binding(runs: IndexedRuns) -> dict[str, Any]:
    account = {"kind": SERVICE_ACCOUNT.kind, "name": runs.name, "namespace": runs.namespace}
    return {"roleRef": {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": runs.name}, "subjects": [account]}


def _job_spec(runs: IndexedRuns) -> dict[str, Any]:
    ends = {"containerName": "simulate", "operator": "In", "values": [_BROKEN_LAW]}
    return {
        "completionMode": "Indexed",
        "completions": runs.completions,
        "parallelism": min(runs.parallelism, runs.completions),
        "backoffLimitPerIndex": 2,
        "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": ends}]},
        "template": {"metadata": {"labels": {LABEL: runs.name}}, "spec": _pod_spec(runs)},
    }


def _pod_spec(runs: IndexedRuns) -> dict[str, Any]:
    container = {
        "name": "simulate",
        "image": runs.image,
        "args": list(arguments_of(runs)),
        "terminationMessagePath": VERDICT,
        "resources": {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "serviceAccountName": runs.name,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }


def arguments_of(runs: IndexedRuns) -> Iterator[str]:
    """Yield the arguments of the container that runs the simulations in each pod of the Job.

    One argument contains a variable, which the kubelet replaces by the completion index of the pod.
    """
    yield from ("simulate", f"--runs={runs.runs_of_an_index}", f"--seed={runs.seed}")
    yield from ("--index=$(JOB_COMPLETION_INDEX)", f"--verdict={VERDICT}")
    yield f"--config-maps={runs.namespace}/{runs.name}"
    yield from runs.arguments


def broken_run_manifest(namespace: str, job: str, seed: int, text: str) -> dict[str, Any]:
    """Return the ConfigMap with a run that violated a law (required property).

    `text` is the saved run as JSON. The ConfigMap's name consists of the name of the Job `job` and the seed.
    """
    manifest = CONFIG_MAP.manifest(f"{job}-{'m' if seed < 0 else ''}{abs(seed)}", namespace)
    manifest["metadata"]["labels"] = {LABEL: job}
    return {**manifest, "data": {FILE: text}}


# --- collecting ------------------------------------------------------------------------------------------------------


@attrs.frozen
class Collected:
    """The results of the pods of an Indexed Job, by completion index.

    `missing` has the reason for each index without a result.
    """

    tallies: Mapping[int, SimulationTally]
    missing: Mapping[int, str]


def collected(job: Manifest, pods: Sequence[Manifest]) -> Collected:
    """Return the results of a Job's pods so far, by completion index.

    An index whose pod was retried counts once. An index without a result is listed with the reason.
    """
    tallies, reasons = dict[int, SimulationTally](), dict[int, str]()
    for pod in sorted(pods, key=lambda pod: str(metadata(pod).get("creationTimestamp", ""))):
        index = _index_of(pod)
        if index is None:
            continue
        try:
            tallies[index] = read_verdict(_message(pod))
        except ValueError as error:
            reasons[index] = f"{metadata(pod)['name']}: {error}"
    count = get_path(job, "spec", "completions")
    indices = range(count if isinstance(count, int) else 0)
    return Collected(tallies, {at: reasons.get(at, "no pod has ended") for at in indices if at not in tallies})


def pods_selector(job: str) -> str:
    """Return the label selector of a Job's pods."""
    return f"{_JOB_NAME}={job}"


def _index_of(pod: Manifest) -> int | None:
    text = str(get_path(pod, "metadata", "annotations", _INDEX) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _message(pod: Manifest) -> str:
    """Return the termination message of the pod's container.

    Raises ValueError if the container has not ended, or left no message.
    """
    statuses = get_path(pod, "status", "containerStatuses") or ()
    ended = next((get_path(status, "state", "terminated") for status in statuses), None)
    if ended is None:
        raise ValueError("it has not ended")
    if not get_path(ended, "message"):
        raise ValueError(
            f"it left no verdict and ended with {get_path(ended, 'exitCode')} ({get_path(ended, 'reason')})"
        )
    return str(get_path(ended, "message"))
