"""The job agent, which carries out jobs of the control plane, as the manager runs it.

It reports changes of objects in the caches. Cluster objects and the credentials determine which signatures and
encryption it requires of jobs, and Cluster objects may request a new credential.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.problems import Problem
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.ports import Clock, KubeApi
from purekube_run.controller.informers import Informers
from vworkspace_app.clusters.controller import of_cluster
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.credentials.registration import rotation_requests
from vworkspace_app.credentials.rotation import RotationHooks, RotationManager
from vworkspace_app.jobs.agent import Agent, OnStep
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.admission import admit
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.clusters.inventory import AgentReport
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.jobs.job_store import JobStore
from vworkspace_core.jobs.payload_security import PayloadOpener, in_force, required_by
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.operations.parameters import template_problems
from vworkspace_core.overview.page_paths import page_link

_TOGETHER: Final = 64
"""The number of objects after which a new leader's first pass over all objects yields to other tasks."""


@attrs.frozen
class AgentOptions:
    """The options of the job agent: the client of the control plane, and the store of open jobs (PULL-1, PULL-4).

    `rotation` renews the credential; None if it cannot be stored. `reread` reads the credential again and returns
    whether the token changed. `opener` returns, for given credentials, an object that verifies and decrypts the
    payloads of jobs, or None if the credentials have no key.
    """

    control: ControlPlane
    store: JobStore
    settings: AgentSettings = attrs.field(factory=AgentSettings)
    rotation: RotationManager | None = None
    reread: Callable[[], Awaitable[bool]] | None = None
    opener: Callable[[Credentials], PayloadOpener | None] = lambda _: None


class ManagedAgent:
    """The job agent, connected to the caches of `informers`, to Cluster objects and to the credentials.

    It reports changes of objects in the caches. Cluster objects and the credentials determine which signatures and
    encryption it requires of jobs. `on_change` is called when the connection's state changes, and when events begin or
    cease to be dropped. `on_result` gets the outcome of each job that has a result, and `on_step` the agent's states
    before and after each event.
    """

    def __init__(
        self,
        options: AgentOptions,
        api: KubeApi,
        clock: Clock,
        settings: OperatorSettings,
        informers: Informers,
        credentials: Live[Credentials],
        random: Callable[[], float],
        *,
        on_change: Callable[[], None],
        on_result: Callable[[str], None],
        on_step: OnStep | None = None,
    ) -> None:
        self._options = options
        self._settings = settings
        self._cluster_id = settings.decisions.cluster_id
        self._informers = informers
        self._credentials = credentials
        self._connection = _connection(credentials.current)
        self._leading = False
        self.agent = Agent(
            control=options.control,
            kube=api,
            store=options.store,
            clock=clock,
            scope=JobScope(self._cluster_id, self._admit, link=partial(page_link, settings.page_url)),
            random=random,
            settings=options.settings,
            reread=options.reread,
            rotate=None if options.rotation is None else options.rotation.rotate,
            objects=self._own_objects,
            find=lambda ref: informers.store(ref.kind).get(ref.namespace, ref.name),
            noticed=informers.observe_write,
            cluster=self._reporting,
            on_change=on_change,
            on_result=on_result,
            on_step=on_step,
        )
        informers[CLUSTER].subscribe(lambda _: self._secure())
        credentials.subscribe(lambda _: self._secure())
        credentials.subscribe(self._hurry)
        for kind in (APPLICATION_INSTANCE, OPERATION):
            informers[kind].subscribe(self._saw)

    def report(self) -> AgentReport:
        """Return the state of the agent for the Cluster object's status, such as that of the connection."""
        return self.agent.report()

    async def run(self) -> None:
        """Pull jobs until cancelled. Only the leader may call this, after the caches have synced."""
        self._secure()
        self._leading = True
        for number, manifest in enumerate(self._own_objects()):
            # A new leader learns from the objects what the previous one knew: a standby has reported nothing.
            self.agent.on_object_known(manifest, _ref(manifest))
            if number % _TOGETHER == 0:
                await anyio.lowlevel.checkpoint()  # other tasks must renew the Lease meanwhile
        async with anyio.create_task_group() as group:
            if self._options.rotation is not None:
                hooks = RotationHooks(lambda: self.agent.state.skew, self.agent.report_rotated)
                self._rotate_when_asked(self._options.rotation)
                group.start_soon(self._options.rotation.run, hooks, name="credential")
            group.start_soon(self.agent.run, name="agent")

    async def finish(self) -> None:
        """Accept no new jobs, and finish the running ones (RUN-4)."""
        await self.agent.finish()

    def _saw(self, change: CacheChange) -> None:
        if self._leading:
            self.agent.on_object_changed(None if change.type is ChangeType.DELETED else change.object, change.ref)

    def _own_objects(self) -> Iterator[Manifest]:
        """Yield every ApplicationInstance and Operation in the cache, each in its latest version."""
        for kind in (APPLICATION_INSTANCE, OPERATION):
            store = self._informers.store(kind)
            yield from filter(None, (store.get(namespace, name) for namespace, name in store.names()))

    def _reporting(self) -> Manifest | None:
        """Return the Cluster object that reports on this operator: the first by name, or None if there is none."""
        clusters = of_cluster(self._informers.store(CLUSTER).objects(), self._cluster_id)
        return min(clusters, key=lambda cluster: str(metadata(cluster).get("name")), default=None)

    def _rotate_when_asked(self, rotation: RotationManager) -> None:
        """Pass the rotation requests of Cluster objects to `rotation`, now and after each change (PULL-8)."""
        clusters = self._informers.store(CLUSTER).objects

        def wish() -> None:
            rotation.set_cluster_requests(rotation_requests(clusters(), self._cluster_id))

        self._informers[CLUSTER].subscribe(lambda _: wish())
        wish()

    def _hurry(self, credentials: Credentials) -> None:
        """Send waiting messages and poll again at once, if the URL, the token or a certificate has changed.

        A token that changed because the control plane rejected the former one does not count: trying sooner would not
        help.
        """
        before, self._connection = self._connection, _connection(credentials)
        rotation = self._options.rotation
        if self._connection != before and not (rotation is not None and rotation.is_falling_back):
            self.agent.retry_now()

    def _secure(self) -> None:
        """Set the requirements on the payloads of jobs by the present Cluster objects and keys (PULL-9)."""
        required = required_by(self._informers.store(CLUSTER).objects(), self._cluster_id)
        opener = self._options.opener(self._credentials.current)
        self.agent.set_security(in_force(required, opener, self._options.settings.signatures))

    def _admit(self, manifest: Manifest) -> tuple[Problem, ...]:
        """Return the problems that the admission webhooks would find in an object from a job's payload.

        They include problems with the template of an Operation (PULL-10).
        """
        problems = admit(manifest, settings=self._settings.decisions.admission)
        return problems or template_problems(manifest, self._settings.templates)


def _connection(credentials: Credentials) -> tuple[str, ...]:
    """Return the parts of the credentials that requests to the control plane use."""
    return (
        credentials.url,
        credentials.token,
        credentials.ca,
        credentials.certificate,
        credentials.private_key,
    )


def _ref(manifest: Manifest) -> ObjectRef:
    """Return the reference to an object of one of the operator's own kinds."""
    kind = next(kind for kind in OWN_KINDS if kind.kind == manifest["kind"])
    return ref_of(manifest, kind)
