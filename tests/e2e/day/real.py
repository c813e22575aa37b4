"""The same day on a cluster of real controllers: real commands, real kubectl, the operator as a process.

The cluster has no kubelet: kwok says that the Deployment's pods are ready, and one process here does their work. Where
the story lets time pass, this waits for the state that comes meanwhile.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Final

import anyio
import attrs
from anyio.from_thread import start_blocking_portal

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import DEPLOYMENT, EVENT, NAMESPACE, POD
from purekube.ports import KubeApi, PatchType
from purekube_http import KubeApiClient, load_config
from purekube_run.controller.lookups import all_of, find
from tests.e2e.day.story import Shell, play
from tests.support.commands import Running, run
from tests.support.kube_client import RemoteHands
from tests.support.patience import PATIENCE
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE

TEAM: Final = "org-myteam"
_DEPLOYED: Final = ObjectRef(DEPLOYMENT, "vworkspace-system", "vworkspace-operator")
_INSTANCE: Final = ObjectRef(APPLICATION_INSTANCE, TEAM, "podinfo")
_CLUSTER: Final = ObjectRef(CLUSTER, None, "cluster-prod-1")
_GLANCE: Final = "3s"
"""The time after which the story looks at work in progress."""
_READY, _STALLED, _HEALTHY = (("Ready", "True"), ("Stalled", "True"), ("ControllersHealthy", "True"))
_LOOK: Final = 0.3
_UNCHANGED: Final = 2.0
"""Seconds without a new Event, after which those of one pass are all written."""


@attrs.define
class Replica:
    """The process of the Deployment's pods, as long as there is the Deployment."""

    cluster: Cluster
    hands: RemoteHands
    folder: Path
    _process: Running | None = None

    def work(self) -> None:
        """Start or end the process."""
        self._follow(self.hands.do(partial(find, ref=_DEPLOYED)))

    def end(self) -> None:
        """End the process."""
        self._follow(None)

    def has_settled(self) -> bool:
        """Report whether the process has read the cluster."""
        return self._process is not None and "caches are settled" in self._process.err

    def _follow(self, deployment: Manifest | None) -> None:
        if deployment is not None and self._process is None:
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            flags = [flag for flag in container["args"] if not flag.startswith("--listen")]
            self._process = Running(self.folder, *flags, "--kubeconfig", self.cluster.operator_kubeconfig)
        elif deployment is None and self._process is not None:
            with self._process as process:
                process.send(signal.SIGTERM)
                process.end()
            self._process = None


@attrs.define
class Kubelet:
    """The end of the hook's pods, which kwok leaves running: in `phase`."""

    hands: RemoteHands
    phase: str = "Failed"

    def work(self) -> None:
        """End each pod that runs."""
        self.hands.do(self._end_pods)

    async def _end_pods(self, api: KubeApi) -> None:
        for pod in await all_of(api, POD, selector="cluster.vworkspace.io/pod=hangs", namespace=TEAM):
            if get_path(pod, "status", "phase") == "Running":
                over: Mapping[str, Any] = {"status": {"phase": self.phase, "containerStatuses": None}}
                ref = ref_of(pod, POD)
                await api.patch(ref, over, patch_type=PatchType.MERGE, field_manager="kubelet", subresource="status")


@attrs.define
class RealShell(Shell):
    """A terminal of an administrator."""

    cluster: Cluster
    hands: RemoteHands
    replica: Replica
    kubelet: Kubelet

    async def wait(self, text: str) -> None:
        """Wait until nothing is under way, or until the operator waits for Flux, which acts afterwards."""
        if text == _GLANCE:
            _until(self._events, "the Event about the work under way, which is written after the status")
            return
        self._signal_flux(signal.SIGCONT)
        _until(self._is_quiet, f"nothing under way after {text}")
        _until(self._is_reported, "the Events of the last transition")

    def _signal_flux(self, number: signal.Signals) -> None:
        os.kill(self.cluster.process("helm-controller"), number)

    def _is_quiet(self) -> bool:
        if self._find(_DEPLOYED) is None:
            return True
        ends = {_READY} if self.kubelet.phase == "Succeeded" else {_READY, _STALLED}
        settled = _is_settled(self._find(_CLUSTER), {_HEALTHY}) and _is_settled(self._find(_INSTANCE), ends)
        return settled and self.replica.has_settled()

    def _is_reported(self) -> bool:
        """Report whether the operator, which writes Events after statuses, has written the last of them."""
        conditions = get_path(self._find(_INSTANCE), "status", "conditions") or ()
        newest, before = max((item["lastTransitionTime"] for item in conditions), default=""), self._events()
        time.sleep(_UNCHANGED)
        return before == self._events() and max(before, default="") >= newest

    def _events(self) -> Sequence[str]:
        """Return the time of every Event of the instance, in seconds."""
        events = self.hands.do(partial(all_of, kind=EVENT, namespace=TEAM))
        ours = [event for event in events if get_path(event, "regarding", "kind") == APPLICATION_INSTANCE.kind]
        times = [get_path(event, "series", "lastObservedTime") or event["eventTime"] for event in ours]
        return sorted(f"{at[:19]}Z" for at in times)

    def _find(self, ref: ObjectRef) -> Manifest | None:
        return self.hands.do(partial(find, ref=ref))

    async def mend(self) -> None:
        """Let the hook's pod succeed from now on."""
        self.kubelet.phase = "Succeeded"

    async def command(self, words: Sequence[str], width: int) -> tuple[int, str, str]:
        """Run it."""
        typed = [str(Path(word).resolve()) if word.endswith(".yaml") else word for word in words]
        ended = run(*typed, KUBECONFIG=str(self.cluster.kubeconfig), COLUMNS=str(width), home=Path.cwd())
        return ended.status, ended.out, ended.err

    async def kubectl(self, words: Sequence[str], text: str) -> list[str]:
        """Run it; Flux does nothing before the story has looked at the operator that waits for it."""
        if words[-1] == "examples/application-oci.yaml":
            self._signal_flux(signal.SIGSTOP)
        command = [*words[:-1], "-", "--kubeconfig", str(self.cluster.kubeconfig)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def _is_settled(manifest: Manifest | None, ends: Set[tuple[str, str]]) -> bool:
    """Report whether an object says that its present generation is done; also without an object."""
    status = get_path(manifest, "status") or {}
    conditions = {(item["type"], item["status"]) for item in status.get("conditions", ())}
    is_current = status.get("observedGeneration") == get_path(manifest, "metadata", "generation")
    return manifest is None or (is_current and bool(conditions & ends))


def _until(holds: Callable[[], Any], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, f"not within {PATIENCE:g} s: {what}"
        time.sleep(_LOOK)


def played_on(cluster: Cluster, width: int) -> str:
    """Return the whole day as it is shown on a screen of that width.

    It needs the cluster's definitions of our kinds for itself: no other operator works meanwhile.
    """
    with _connected(cluster) as hands, TemporaryDirectory(prefix="vworkspace-day-") as folder, ExitStack() as stack:
        assert cluster.registries is not None, "the cluster runs without flux"
        repository = Repository(cluster.registries.trusted, "day", cluster.registries.authority)
        repository.push("podinfo", "6.7.0", like="settings")
        repository.push("podinfo", "6.8.0", {"hook": "hangs"}, like="hooked")
        hands.do(_close_gates)
        run("uninstall", "--yes", "--keep-applications", KUBECONFIG=str(cluster.kubeconfig))  # rights that tests left
        stack.callback(lambda: _until(partial(_is_gone, hands), "the namespace is gone"))
        replica, kubelet = Replica(cluster, hands, Path(folder)), Kubelet(hands)
        stack.callback(replica.end)
        stack.enter_context(_working(replica.work, kubelet.work))
        shell = RealShell((width,), cluster, hands, replica, kubelet)
        shown = anyio.run(partial(play, shell, repository.oci))
    return shown[width]


@contextmanager
def _working(*works: Callable[[], None]) -> Iterator[None]:
    """Do the works again and again while the block runs."""
    over = Event()

    def work() -> None:
        while not over.wait(_LOOK):
            for each in works:
                each()

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _connected(cluster: Cluster) -> Iterator[RemoteHands]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(KubeApiClient(load_config(cluster.kubeconfig))) as api,
    ):
        yield RemoteHands(portal, api)


async def _close_gates(api: KubeApi) -> None:
    """Close the namespaces that other tests have left open: `check` counts them."""
    for namespace in await all_of(api, NAMESPACE, selector=f"{NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}"):
        closed: Mapping[str, Any] = {"metadata": {"labels": {NAMESPACE_GATE: None}}}
        await api.patch(ref_of(namespace, NAMESPACE), closed, patch_type=PatchType.MERGE, field_manager="kubectl-edit")


def _is_gone(hands: RemoteHands) -> bool:
    """Delete the day's namespace; report whether it is gone."""
    ref = ObjectRef(NAMESPACE, None, TEAM)
    try:
        namespace = hands.do(lambda api: api.get(ref))
    except NotFound:
        return True
    if "deletionTimestamp" not in namespace["metadata"]:
        hands.do(lambda api: api.delete(ref))
    return False
