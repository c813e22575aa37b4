"""`uninstall` ends and keeps its word; deleting the operator alone uninstalls nothing, nor does coming back (U3).

Everything that `manifests` prints is in the cluster, and the operator is the command with the printed rights.
"""

import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import pytest

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    HELM_RELEASE,
    NAMESPACE,
    SERVICE_ACCOUNT,
)
from purekube.ports import KubeApi
from tests.e2e.test_least_privilege import kubeconfig_of, write_credentials
from tests.support.cluster_choice import real_cluster
from tests.support.cluster_environment import environment_world
from tests.support.commands import Ended, Running, run
from tests.support.e2e_world import INSTANCE, NAME, NS, OWN_NS, World, conditions
from tests.support.namespace_ends import is_ended
from tests.support.rights import printed
from tests.support.run_by import run_by
from tests.support.servers import Face, serving_around, simulate
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import UNINSTALL

pytestmark = [pytest.mark.slow, pytest.mark.lone]
without_real_flux = pytest.mark.skipif(
    real_cluster() is not None, reason="asks nothing of Flux: played on the embedded API server and on a bare one"
)

_PLURALS: Final = {"NetworkPolicy": "networkpolicies"}
_CLUSTER_WIDE: Final = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")
DEFINITION: Final = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, APPLICATION_INSTANCE.crd_name)


@attrs.define
class Installed:
    """A cluster where the operator is installed, and its one replica, which a played Deployment controller runs."""

    world: World
    control_url: str
    folder: Path
    processes: ExitStack
    replica: Running = attrs.field(init=False)

    def start(self) -> None:
        """The Deployment's pod, with the credential where somebody has put it."""
        write_credentials(self.world, self.control_url)
        place = self.folder / "replica"
        assert self.world.reached is not None
        kubeconfig = kubeconfig_of(self.world.reached.operator, self._made(place))
        self.replica = self.processes.enter_context(
            Running(place, "run", f"--namespace={OWN_NS}", "--leader-elect", "--kubeconfig", kubeconfig)
        )

    @staticmethod
    def _made(place: Path) -> Path:
        place.mkdir(parents=True, exist_ok=True)
        return place

    async def controllers(self) -> None:
        """Pods go with their Deployment, and the operator's namespace ends: what a bare API server does not do."""
        deployment, namespace = ObjectRef(DEPLOYMENT, OWN_NS, "vworkspace-operator"), ObjectRef(NAMESPACE, None, OWN_NS)
        while True:
            if self.replica.is_running and self.world.find(deployment) is None:
                await anyio.to_thread.run_sync(self.replica.stop)
            if get_path(self.world.find(namespace), "metadata", "deletionTimestamp"):
                is_ended(self.world, OWN_NS)
            await anyio.sleep(0.2)

    def leave(self) -> None:
        """What was installed, out of a server that the next story has too."""
        with self.replica:
            pass
        self.world.hands.do(partial(lack, PRINTED))
        while not is_ended(self.world, OWN_NS):
            time.sleep(0.05)

    async def uninstall(self, *words: str) -> Ended:
        """The command, by an administrator."""
        reached = self.world.reached
        assert reached is not None
        place = self._made(self.folder / "administrator")
        kubeconfig = kubeconfig_of(reached.admin, place)
        command = partial(run, "uninstall", "--kubeconfig", kubeconfig, "--timeout", "60", *words)
        return await anyio.to_thread.run_sync(command)

    def crds(self) -> list[str]:
        """Those of our own kinds that are there."""
        names = [crd_manifest["metadata"]["name"] for crd_manifest in crd_manifests()]
        refs = [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name) for name in names]
        return [ref.name for ref in refs if self.world.find(ref) is not None]

    def releases(self) -> list[Manifest]:
        """Flux's, in the gated namespace."""
        return list(self.world.hands.do(lambda api: api.list(HELM_RELEASE, namespace=NS)).items)


INSTALLED: list[Installed] = []
PRINTED: Final[list[dict[str, Any]]] = []


def kind_of(manifest: Manifest) -> Kind:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    kind = str(manifest["kind"])
    return Kind(group, version, kind, _PLURALS.get(kind, f"{kind.lower()}s"), namespaced=kind not in _CLUSTER_WIDE)


async def have(manifests: list[dict[str, Any]], api: KubeApi) -> None:
    for manifest in manifests:
        await api.apply(manifest, kind=kind_of(manifest), field_manager="kubectl", force=True)


async def lack(manifests: list[dict[str, Any]], api: KubeApi) -> None:
    """`kubectl delete -f`, in the order in which they stand."""
    for manifest in manifests:
        with suppress(NotFound):
            await api.delete(ref_of(manifest, kind_of(manifest)))


@asynccontextmanager
async def everything_installed(world: World, _settings: OperatorSettings) -> AsyncIterator[None]:
    assert world.reached is not None
    if not world.reached.is_ours and not world.is_real:
        pytest.skip("takes definitions and roles away, which others use in a cluster that is shared")
    async with serving_around(world) as url, anyio.create_task_group() as group, _folder() as folder:
        simulate(group, world)
        PRINTED[:] = [*printed(), *printed("--namespace", NS)]
        world.hands.do(partial(have, PRINTED))
        with ExitStack() as processes:
            installed = Installed(world, url, Path(folder), processes)
            installed.start()
            INSTALLED[:] = [installed]
            group.start_soon(installed.controllers)
            try:
                await world.until(lambda: world.control.waiting, "the long poll")
                yield
            except BaseException:
                print(installed.replica.err[-6000:])
                raise
            finally:
                installed.leave()
        group.cancel_scope.cancel()


@asynccontextmanager
async def _folder() -> AsyncIterator[str]:
    async with anyio.TemporaryDirectory(prefix="vworkspace-uninstall-") as path:
        yield path


FACE: Final = Face("installed", False, everything_installed, partial(environment_world, alone=True))


@without_real_flux
@run_by(FACE.run)
async def test_a_dry_run_tells_each_step_and_changes_nothing(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    ended = await installed.uninstall("--dry-run")
    assert (ended.status, ended.err) == (0, "")
    assert f"would uninstall, by Flux, and delete 1 ApplicationInstance ({NS}/{NAME})" in ended.out
    assert world.running() != []
    assert len(installed.crds()) == 3


@without_real_flux
@run_by(FACE.run)
async def test_the_tool_that_would_create_everything_again_is_named_first(world: World) -> None:
    labels = {"kustomize.toolkit.fluxcd.io/name": "operator", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
    account = ObjectRef(SERVICE_ACCOUNT, OWN_NS, "vworkspace-operator")
    (installed,) = INSTALLED
    assert "first: " not in (await installed.uninstall("--dry-run")).out
    world.edit(account, {"metadata": {"labels": labels}})
    said = (await installed.uninstall("--dry-run")).out
    first = "first: suspend or remove the Kustomization flux-system/operator, which would create these again\n1. "
    assert said.startswith(first)


@without_real_flux
@run_by(FACE.run)
async def test_where_nobody_can_be_asked_nothing_is_done_without_a_yes(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    ended = await installed.uninstall()
    assert ended.status == 2
    (told,) = ended.problems
    assert told.startswith("error: This would remove the operator and uninstall 1 application, ")
    assert "nothing was changed" in told
    assert "--yes" in told
    assert world.running() != []


@run_by(FACE.run)
async def test_applications_are_uninstalled_then_everything_of_the_operator_goes(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    ended = await installed.uninstall("--yes")
    assert (ended.status, ended.err) == (0, "")
    assert (world.running(), installed.releases(), installed.crds()) == ([], [], [])
    assert world.find(ObjectRef(NAMESPACE, None, OWN_NS)) is None
    left = [ref_of(one, kind_of(one)) for one in PRINTED]
    assert [str(ref) for ref in left if world.find(ref) is not None] == []
    again = await installed.uninstall("--yes")
    assert (again.status, again.out) == (0, "nothing of the operator is installed here\n")


@run_by(FACE.run)
async def test_kept_applications_run_on_with_flux_and_a_new_operator_takes_nothing_down(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    ended = await installed.uninstall("--keep-applications", "--yes")
    assert (ended.status, ended.err) == (0, "")
    assert installed.crds() == []
    (release,) = installed.releases()
    assert get_path(release, "metadata", "ownerReferences") in (None, [])
    assert get_path(release, "metadata", "deletionTimestamp") is None
    await come_back(installed)
    assert len(installed.releases()) == 1
    assert world.running() != []


async def come_back(installed: Installed) -> None:
    """Somebody installs it again, and it has settled."""
    world = installed.world
    world.hands.do(partial(have, [*crd_manifests(), *PRINTED]))
    installed.start()
    await anyio.to_thread.run_sync(
        lambda: installed.replica.until(lambda: "caches are settled" in installed.replica.err, "settled")
    )


@run_by(FACE.run)
async def test_deleting_what_manifests_printed_uninstalls_nothing_and_coming_back_resumes(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    before = world.find(INSTANCE)
    world.hands.do(partial(lack, PRINTED))
    await world.until(lambda: world.find(ObjectRef(NAMESPACE, None, OWN_NS)) is None, "the namespace gone")
    await come_back(installed)
    now = world.find(INSTANCE)
    assert get_path(now, "metadata", "uid") == get_path(before, "metadata", "uid")
    assert get_path(now, "metadata", "deletionTimestamp") is None
    assert world.running() != []


@pytest.mark.parametrize(
    ("word", "runs_on"), [(UNINSTALL, False), pytest.param(ABANDON, True, marks=without_real_flux)]
)
@run_by(FACE.run)
async def test_deleting_the_definitions_is_no_wish_to_uninstall_until_somebody_says_so(
    world: World, *, word: str, runs_on: bool
) -> None:
    (installed,) = INSTALLED
    await world.ready()
    world.delete_object(DEFINITION)
    await world.until(lambda: says(world) == "True/AwaitingConfirmation", "the question")
    assert world.running() != []
    assert all(get_path(release, "metadata", "deletionTimestamp") is None for release in installed.releases())
    told = " ".join(str(condition) for condition in get_path(world.find(INSTANCE), "status", "conditions"))
    assert f"kubectl annotate {APPLICATION_INSTANCE.crd_name} {NAME} -n {NS} {word}=true" in told
    world.edit(INSTANCE, {"metadata": {"annotations": {word: "true"}}})
    await world.until(lambda: world.find(DEFINITION) is None, "the definition gone")
    assert bool(world.running()) is runs_on


def says(world: World) -> str:
    return conditions(world.find(INSTANCE)).get("Deleting", "")


@without_real_flux
@run_by(FACE.run)
async def test_without_an_operator_nothing_is_begun_that_nobody_would_end(world: World) -> None:
    (installed,) = INSTALLED
    await world.ready()
    with installed.replica:
        pass  # killed
    lease = ObjectRef(Kind("coordination.k8s.io", "v1", "Lease", "leases"), OWN_NS, "vworkspace-operator")
    world.edit(lease, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    previewed = await installed.uninstall("--dry-run")
    assert (previewed.status, previewed.err) == (0, "")
    assert previewed.out.startswith("would refuse to begin: no operator runs in")
    ended = await installed.uninstall("--yes")
    assert ended.status == 1
    (told,) = ended.problems
    assert "no operator runs in" in told
    assert "--keep-applications" in told
    assert get_path(world.find(INSTANCE), "metadata", "deletionTimestamp") is None
    world.delete_object(lease)
    unknown = await installed.uninstall("--dry-run")
    assert unknown.out.startswith("first: see that the operator runs, which uninstalls the applications; ")
