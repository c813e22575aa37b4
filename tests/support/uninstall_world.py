"""A cluster in memory where `uninstall`, the operator, Flux and the garbage collector take turns, request by request.

Each of the first two is a coroutine that stops before every request that it makes, and can be dropped there for good,
as a process that is killed. Nothing is random, nothing waits: the test decides who makes the next request.
"""

from collections.abc import Coroutine, Generator, Iterator
from contextlib import suppress
from datetime import timedelta
from types import coroutine
from typing import Any

import attrs

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, LEASE, NAMESPACE
from purekube.apimachinery.timestamps import format_time, microtime
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from purekube.ports import KubeRequest, Send
from tests.support.instance_worlds import instance_manifest
from tests.support.simulation import NS, Simulation
from vworkspace_app.install import InstallOptions, tenant
from vworkspace_app.uninstall import Inventory, Stuck, Waiting, steps_of, take_inventory
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OWN_KINDS
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.instances.observe import observe_live

OWN_NS = "vworkspace-system"
APPLICATIONS = ("one", "two", "three")
LAPTOP = "laptop_1f2e"
ACCOUNT = "vworkspace-release"
_RBAC = "rbac.authorization.k8s.io"
_RELEASE_RIGHTS = (
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind(_RBAC, "v1", "Role", "roles"),
    Kind(_RBAC, "v1", "RoleBinding", "rolebindings"),
)


@coroutine
def turn() -> Generator[None, None, None]:
    """Stop until it is this actor's turn again."""
    yield


async def stepwise(request: KubeRequest, proceed: Send) -> Manifest:
    """Stop the caller before the request, until it is its turn again."""
    await turn()
    return await proceed(request)


@attrs.define(eq=False)
class Actor:
    """Work that stops before each of its requests. `error` is why it ended, where that was not its own end."""

    work: Coroutine[Any, Any, None]
    is_over: bool = False
    error: Exception | None = None

    def __attrs_post_init__(self) -> None:
        """Go up to the first request, so that an actor may be dropped at any time."""
        self.step()

    def step(self) -> None:
        """Make the request that it stands before, and go on to the next; nothing where it is over."""
        if self.is_over:
            return
        try:
            self.work.send(None)
        except StopIteration:
            self.is_over = True
        except (OperatorError, Stuck) as error:
            self.is_over, self.error = True, error

    def finish(self) -> None:
        """Make all requests that are left, with nobody else between."""
        for _ in range(20_000):
            self.step()
            if self.is_over:
                return
        raise AssertionError("it does not come to an end")

    def kill(self) -> None:
        """End it where it stands: the next request is not made."""
        self.work.close()
        self.is_over = True


def _names_of_inputs(release: Manifest) -> Iterator[str]:
    """The names of the chart's source and of the objects with values that a HelmRelease reads."""
    for path in (("chartRef",), ("chart", "spec", "sourceRef")):
        yield str(get_path(release, "spec", *path, "name"))
    yield from (str(values["name"]) for values in get_path(release, "spec", "valuesFrom") or ())


class Uninstalling(Simulation):
    """A cluster with three applications that run, installed as `manifests --namespace` says."""

    def __init__(self, *, collects: bool, leads: bool) -> None:
        super().__init__(collects=collects)
        self.leads = leads
        self.settings = attrs.evolve(self.settings, default_service_account=ACCOUNT)
        self._put(NAMESPACE, {"metadata": {"name": OWN_NS}})
        for manifest in tenant(NS, InstallOptions()):
            if kind := next((kind for kind in _RELEASE_RIGHTS if kind.kind == manifest["kind"]), None):
                self._put(kind, manifest)
        for name in APPLICATIONS:
            self.ask_for(name)
            self.settle(self.instance(name))
        self.renew()

    def _put(self, kind: Kind, manifest: Manifest) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        run_sync(self.admin.apply(body, kind=kind, field_manager="admin", force=True))

    # --- what is there -----------------------------------------------------------------------------------------------

    @staticmethod
    def instance(name: str) -> ObjectRef:
        """The instance of an application; its release has the same name."""
        return ObjectRef(APPLICATION_INSTANCE, NS, name)

    def look(self, ref: ObjectRef) -> Manifest | None:
        """The object; None where it or its kind is not there."""
        try:
            return run_sync(self.admin.get(ref))
        except NotFound:
            return None

    def release(self, name: str) -> Manifest | None:
        """The HelmRelease of an application."""
        return self.look(ObjectRef(HELM_RELEASE, NS, name))

    def instances(self) -> dict[str, Manifest]:
        """By uid."""
        try:
            found = run_sync(self.admin.list(APPLICATION_INSTANCE, namespace=NS)).items
        except NotFound:
            return {}
        return {str(metadata(manifest)["uid"]): manifest for manifest in found}

    def doomed(self) -> Iterator[tuple[Kind, Manifest]]:
        """Releases, and what they install from, that a garbage collector takes next: all that owned them has gone.

        A source that no release names is none of them: a pass that stopped before its apply may create one late.
        """
        there = self.instances()
        releases = run_sync(self.admin.list(HELM_RELEASE, namespace=NS)).items
        named = {name for release in releases for name in _names_of_inputs(release)}
        for kind in DOWNSTREAM_KINDS:
            for manifest in run_sync(self.admin.list(kind, namespace=NS)).items:
                owners = [owner["uid"] for owner in metadata(manifest).get("ownerReferences") or ()]
                is_needed = kind == HELM_RELEASE or metadata(manifest)["name"] in named
                if is_needed and owners and not any(uid in there for uid in owners):
                    yield kind, manifest

    def has_definitions(self) -> bool:
        """Whether our kinds are served, and not about to go."""
        found = [self.look(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name)) for kind in OWN_KINDS]
        return all(one is not None and "deletionTimestamp" not in metadata(one) for one in found)

    def missing_rights(self) -> list[ObjectRef]:
        """What Flux would need and has not, while a HelmRelease names the account."""
        releases = run_sync(self.admin.list(HELM_RELEASE, namespace=NS)).items
        if not any(get_path(release, "spec", "serviceAccountName") == ACCOUNT for release in releases):
            return []
        refs = [ObjectRef(kind, NS, ACCOUNT) for kind in _RELEASE_RIGHTS]
        return [ref for ref in refs if self.look(ref) is None]

    # --- people ------------------------------------------------------------------------------------------------------

    def ask_for(self, name: str, version: str = "6.6.0") -> None:
        """Apply an instance; without effect where its kind is not served, or the old one is still going."""
        chart = {"sourceType": "oci", "url": "oci://registry.example/charts", "name": "nextcloud", "version": version}
        manifest = instance_manifest(chart=chart, release={"name": name, "namespace": NS})
        manifest["metadata"]["name"] = name
        if not get_path(self.look(self.instance(name)), "metadata", "deletionTimestamp"):
            with suppress(OperatorError):
                self.submit(manifest)

    def install_again(self) -> None:
        """Apply the definitions, as `manifests --crds-only | kubectl apply` does."""
        for crd in crd_manifests():
            ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, crd["metadata"]["name"])
            if self.look(ref) is None:
                self.create_definition(crd)

    def touch_releases(self) -> None:
        """Flux writes to each of them."""
        for name in APPLICATIONS:
            ref, change = ObjectRef(HELM_RELEASE, NS, name), {"touched": format_time(self.now)}
            self.now += timedelta(seconds=1)
            self.edit(ref, {"metadata": {"annotations": change}}, manager="flux")

    def take_owners_off(self, name: str) -> None:
        """Somebody edits the HelmRelease."""
        with suppress(NotFound):
            self.edit(ObjectRef(HELM_RELEASE, NS, name), {"metadata": {"ownerReferences": None}})

    # --- the operator ------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """A replica on somebody's machine shows that it leads."""
        if self.leads:
            spec = {"holderIdentity": LAPTOP, "leaseDurationSeconds": 15, "renewTime": microtime(self.now)}
            lease = {**LEASE.manifest("vworkspace-operator", OWN_NS), "spec": spec}
            run_sync(self.admin.apply(lease, kind=LEASE, field_manager=FIELD_MANAGER, force=True))

    def passing(self, copy: Manifest) -> Actor:
        """A pass of the operator over a copy of an instance, however old."""
        return Actor(self._pass(copy))

    async def _pass(self, copy: Manifest) -> None:
        api = self.api.through(stepwise)
        source = read_application_instance(copy)
        observed = await observe_live(api, source)
        rules = PassRules(
            APPLICATION_INSTANCE, read_application_instance, self._decide, FIELD_MANAGER, FINALIZER, idempotent=True
        )
        await run_pass(rules, source, observed, api, self.events)

    def works(self, *names: str, rounds: int = 8) -> None:
        """The operator goes over these again and again, and Flux works, a second at a time."""
        for _ in range(rounds):
            for name in names or APPLICATIONS:
                if (copy := self.look(self.instance(name))) is not None:
                    self.passing(copy).finish()
            self.pass_time(1)

    # --- the command -------------------------------------------------------------------------------------------------

    def uninstalling(self, *, keep_applications: bool) -> Actor:
        """The command."""
        return Actor(self._uninstall(keep_applications))

    async def _uninstall(self, keep_applications: bool) -> None:
        api = self.admin.through(stepwise)
        inventory = await take_inventory(api, OWN_NS)
        waiting = Waiting(600, lambda: self.now, self._sleep)
        for step in steps_of(api, inventory, waiting, keep_applications=keep_applications):
            await step.act()

    def titles(self, *, keep_applications: bool) -> list[str]:
        """What the command would do now, in its words."""
        waiting = Waiting(600, lambda: self.now, self._sleep)
        steps = steps_of(self.admin, self.inventory(), waiting, keep_applications=keep_applications)
        return [step.title for step in steps]

    async def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.renew()
        await turn()

    def inventory(self) -> Inventory:
        """What the command sees now."""
        return run_sync(take_inventory(self.admin, OWN_NS))
