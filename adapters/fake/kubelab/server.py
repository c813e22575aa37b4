"""The API server in memory: every verb as a plain method that returns at once or raises `ApiFailure`.

Synchronous and deterministic: its only inputs are `now` for the time and `seed` for uids and name suffixes. The
pipeline (pure functions) decides what to store; the server finds the live object, runs the pipeline, stores the result
and notifies the watches. Two handlers use it: `inprocess` and `http`.

    server = ApiServer(now=clock.now)
    config_maps = server.registry.at("", "v1", "configmaps")
    server.create(RequestTarget(config_maps, "default"), {...})
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import attrs

from kubelab.access.account_tokens import AccountTokens
from kubelab.access.audit_log import AuditLog
from kubelab.access.authorization import REVIEWS, Authorize, Rbac
from kubelab.access.escalation import check_grant
from kubelab.access.request_filter import RequestFilter
from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.pods import ACCOUNTS, PodAdmission
from kubelab.admission.policies import MUTATING, VALIDATING, BoundPolicy, PolicyKinds, bound_policies, check_policies
from kubelab.admission.webhooks import CONFIGURATIONS, Webhook, webhooks_for
from kubelab.builtin.resources import builtin_resources
from kubelab.entropy import Identities
from kubelab.lifecycle.garbage_collector import Collector
from kubelab.lifecycle.namespaces import NAMESPACES, SYSTEM_NAMESPACES, Namespaces
from kubelab.lifecycle.registry import DEFINITIONS, CustomDefinitions, ResourceRegistry
from kubelab.model.calls import (
    ADMIN,
    PLAIN_DELETE,
    PLAIN_WRITE,
    Caller,
    DeleteOptions,
    ObjectPage,
    Reply,
    RequestTarget,
    RequestVerb,
    WriteOptions,
)
from kubelab.model.conversion import AskWebhook, Conversions
from kubelab.model.failure import ApiFailure
from kubelab.model.resources import ServedResource
from kubelab.storage.listing import EVERYTHING, ListOptions
from kubelab.storage.selectors import name_selected
from kubelab.storage.store import Store, StoreSnapshot
from kubelab.storage.streams import WatchStreams, read_object, read_page, selection_of
from kubelab.storage.watch_stream import WatchStream
from kubelab.writes.metadata import check_common
from kubelab.writes.pod_actions import PodActions
from kubelab.writes.remover import Remover
from kubelab.writes.writer import AdmissionPlugin, ObjectWriter, Prepared, WriteCall, admitted
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import RBAC_GROUP
from purekube.ports import PatchType

_ITSELF: Final = Caller("system:apiserver", ("system:masters",), "kube-apiserver/v1.36.3")
"""The caller of the server's own writes: the system namespaces, the deletion of a CRD's objects."""

T = TypeVar("T", Reply, ObjectPage)


class ApiServer:
    """A Kubernetes API server in memory, with its objects. All methods raise only `ApiFailure`.

    With `collects`, garbage collection and deletion of namespaces run within every write. Otherwise they run only in
    `run_gc`; if `run_gc` is never called, the server resembles a kube-apiserver without a controller manager. With
    `rbac`, the roles and bindings in the store decide what callers may do; without it they may do everything. With
    `service_accounts` a new pod needs a ServiceAccount, `default` if it names none, and gets a token of it. `window`
    is the number of changes in the history, `audit_limit` the number of requests in the audit log.

    Only the HTTP handler calls admission webhooks; calls of the methods here bypass them. The methods call
    conversion webhooks through the function `ask`; the HTTP handler calls them over the network instead.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        seed: int = 0,
        window: int = 10_000,
        collects: bool = False,
        rbac: bool = False,
        service_accounts: bool = False,
        audit_limit: int = 100_000,
        ask: AskWebhook | None = None,
    ) -> None:
        self.now = now
        self.collects = collects
        self.service_accounts = service_accounts
        self.audit = AuditLog(audit_limit)
        self.store = Store(window=window)
        self.registry = ResourceRegistry(builtin_resources())
        self.streams = WatchStreams(self.store)
        self.conversions = Conversions(ask, check_common)
        self.rbac = Rbac(self.store)
        identities = Identities(seed)
        self.account_tokens = AccountTokens(self.store, now, identities.uid)
        self.request_filter = RequestFilter(self.store, self.audit, now, self.rbac, self.account_tokens, enforces=rbac)
        self._namespaces = Namespaces(self.store)
        pods = PodAdmission(self.store, identities.name, accounts=service_accounts)
        self._writer = ObjectWriter(self.store, self._namespaces, identities, now, pods)
        self._remover = Remover(self.store, now)
        self._pod_actions = PodActions(self.store, self._remover, now)
        self._definitions = CustomDefinitions(self.store, self.registry, self.streams, self.conversions, now)
        self._collector = Collector(self.store, self.registry, self)
        self._collecting = False
        self.plugins: list[AdmissionPlugin] = []
        """The admission plugins, in the order in which they review writes."""
        self._create_system_namespaces()

    @property
    def authorize(self) -> Authorize | None:
        """The function that decides whether a caller may make a request; None if callers may do everything."""
        return self.request_filter.authorize

    @authorize.setter
    def authorize(self, authorize: Authorize | None) -> None:
        self.request_filter.authorize = authorize

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, target: RequestTarget, caller: Caller = ADMIN, resource_version: str = "") -> Reply:
        """Return one object. Through `/scale` this is its Scale, through any other subresource the full object.

        `resource_version` is the oldest state that the client accepts; empty means that it accepts any.
        """
        act = lambda: read_object(self.store, target, resource_version)  # noqa: E731
        return self.request_filter.answer(RequestVerb.GET, target, caller, act)

    def list(self, target: RequestTarget, options: ListOptions = EVERYTHING, caller: Caller = ADMIN) -> ObjectPage:
        """Return one page of the list of the objects in `target` that `options` select (W-01 to W-06)."""
        only = name_selected(options.field_selector)
        return self.request_filter.answer(
            RequestVerb.LIST, target, caller, lambda: read_page(self.store, target, options), only=only
        )

    def watch(self, target: RequestTarget, options: ListOptions = EVERYTHING, caller: Caller = ADMIN) -> WatchStream:
        """Open a watch of the objects in `target` that `options` select. Return its stream of events (W-10 to W-18).

        The caller polls the stream with `drain`, or sets `on_ready`, which is called when there are events.
        """

        def act() -> WatchStream:
            return self.streams.open(target.resource, selection_of(target, options), options)

        only = name_selected(options.field_selector)
        return self.request_filter.answer(RequestVerb.WATCH, target, caller, act, only=only)

    def resource(self, kind: Kind) -> ServedResource:
        """Return the served resource of a kind. Raises ApiFailure 404 in plain text if it is not served (W-38)."""
        return self.registry.at(kind.group, kind.version, kind.plural)

    # --- writing -------------------------------------------------------------------------------------------------

    def create(
        self, target: RequestTarget, body: Any, options: WriteOptions = PLAIN_WRITE, caller: Caller = ADMIN
    ) -> Reply:
        """Create the object `body` (POST), and return the answer with the stored object."""
        return self.perform(WriteCall(RequestVerb.CREATE, target, body, options, caller))

    def update(
        self, target: RequestTarget, body: Any, options: WriteOptions = PLAIN_WRITE, caller: Caller = ADMIN
    ) -> Reply:
        """Replace the object or subresource `target` by `body` (PUT), and return the answer with the stored object."""
        return self.perform(WriteCall(RequestVerb.UPDATE, target, body, options, caller))

    def patch(
        self,
        target: RequestTarget,
        patch: Any,
        patch_type: PatchType,
        options: WriteOptions = PLAIN_WRITE,
        caller: Caller = ADMIN,
    ) -> Reply:
        """Change the object `target` by `patch`, and return the answer with the patched object.

        `patch_type` says whether this is a JSON patch, a merge patch or a strategic merge patch.
        """
        return self.perform(WriteCall(RequestVerb.PATCH, target, patch, options, caller, patch_type))

    def apply(self, target: RequestTarget, body: Any, options: WriteOptions, caller: Caller = ADMIN) -> Reply:
        """Apply the object `body` server-side, and return the answer with the stored object.

        A caller without the permission `create` may apply only to existing objects (S-18).
        """
        return self.perform(WriteCall(RequestVerb.PATCH, target, body, options, caller))

    def perform(self, call: WriteCall) -> Reply:
        """Perform the write `call`, and return its answer.

        A create of an access review only returns the review with its result, and stores nothing.
        """
        if call.target.resource.storage in REVIEWS:
            resource = call.target.resource
            return self.request_filter.answer(
                call.verb,
                call.target,
                call.caller,
                lambda: self.request_filter.review(resource, call.body, call.caller),
                call.options,
            )
        return self._write(call.verb, call.target, call.options, call.caller, lambda: self._commit(self._decide(call)))

    def prepare(self, call: WriteCall) -> Prepared:
        """Determine what the write `call` has to store, and return this as a prepared write.

        Nothing is stored before `commit`, so that admission webhooks can be called first. Raises ApiFailure if the
        write is refused.
        """
        try:
            self.request_filter.admit(call.verb, call.target, call.caller)
            return self._decide(call)
        except ApiFailure as failure:
            self.refuse(call, failure)
            raise

    def refuse(self, call: WriteCall, failure: ApiFailure) -> None:
        """Write an entry in the audit log for the write `call`, which was refused with `failure`."""
        self.request_filter.refused(call.verb, call.target, call.caller, call.options, failure)

    def mutated(self, prepared: Prepared, patch: Any, version: str = "") -> Prepared:
        """Return the prepared write after applying a webhook's JSON patch to its object.

        The patch is for the object in `version`; empty means the version of the request.
        """
        return self._writer.mutated(prepared, patch, version)

    def commit(self, prepared: Prepared) -> Reply | None:
        """Store a prepared write, and return the answer with the stored object.

        Return None if the live object has changed since the write was prepared. Nothing is stored then, and the write
        must be prepared again.
        """
        if not self._writer.is_current(prepared):
            return None
        call = prepared.call
        return self._write(call.verb, call.target, call.options, call.caller, lambda: self._commit(prepared))

    def act(self, target: RequestTarget, body: Any, options: WriteOptions, caller: Caller = ADMIN) -> Reply:
        """Create a subresource that only POST has: bind or evict a pod, or issue a token of a ServiceAccount.

        `body` is the Binding, Eviction or TokenRequest. Return the answer: a Status, or the request with the token.
        """

        def act() -> Reply:
            if target.subresource == "token":
                return self.account_tokens.issue(target, body)
            return self._pod_actions.perform(target, body, options)

        return self._write(RequestVerb.CREATE, target, options, caller, act)

    def delete(self, target: RequestTarget, options: DeleteOptions = PLAIN_DELETE, caller: Caller = ADMIN) -> Reply:
        """Delete one object. Return a Status if the object is gone, or the object if finalizers keep it (W-31)."""
        how = WriteOptions(dry_run=options.dry_run)
        return self._write(RequestVerb.DELETE, target, how, caller, lambda: self._remover.delete(target, options))

    def delete_collection(
        self,
        target: RequestTarget,
        selector: ListOptions = EVERYTHING,
        options: DeleteOptions = PLAIN_DELETE,
        caller: Caller = ADMIN,
    ) -> ObjectPage:
        """Delete every object of a collection that `selector` matches (by default all), and return the objects.

        The objects are returned in their state before the deletion. Each object is deleted as by `delete`: an object
        with finalizers stays, marked with a deletionTimestamp.
        """
        how = WriteOptions(dry_run=options.dry_run)

        def act() -> ObjectPage:
            return self._remover.delete_collection(target, selection_of(target, selector), options)

        return self._write(RequestVerb.DELETE_COLLECTION, target, how, caller, act)

    @property
    def has_webhooks(self) -> bool:
        """True if any admission webhook is configured."""
        return any(self.store.count(where) for where in CONFIGURATIONS)

    def webhooks(self, request: AdmissionAttributes) -> tuple[Webhook, ...]:
        """Return the admission webhooks that match a write, in the order in which they are called."""
        configurations = [
            (index == 0, record.shared())
            for index, where in enumerate(CONFIGURATIONS)
            for record in self.store.scan(where)
        ]
        return webhooks_for(request, configurations, self._namespace_labels(request))

    def _namespace_labels(self, request: AdmissionAttributes) -> Mapping[str, str]:
        namespace = request.target.namespace or (request.name if request.target.resource.storage == NAMESPACES else "")
        record = self.store.get(NAMESPACES, ("", namespace))
        return {} if record is None else record.labels

    # --- controllers ---------------------------------------------------------------------------------------------

    def run_gc(self) -> int:
        """Delete garbage and the objects in terminating namespaces.

        Return how many objects and namespaces were examined.
        """
        looked = 0
        while not self.idle:
            looked += self._collector.run() + self._namespaces.run(self.registry, self)
        return looked

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Replace all objects by those of a snapshot, as a restore of etcd does.

        Open watches end. The resourceVersion falls back to that of the snapshot, so later numbers are issued again. A
        watch from a later version is accepted, but gets no event until that version is reached again (W-15).
        """
        # A client that kept its watch would miss what the snapshot changed; the end makes it list again.
        self.streams.end()
        self.store.restore(snapshot)
        self._definitions.settle(DEFINITIONS, self._delete_all)

    @property
    def idle(self) -> bool:
        """True if `run_gc` has no work to do."""
        return self._collector.idle and self._namespaces.idle

    def _write(
        self, verb: RequestVerb, target: RequestTarget, options: WriteOptions, caller: Caller, act: Callable[[], T]
    ) -> T:
        """Perform a write and then the work that it triggers: updating the served resources, and garbage collection."""
        answer = self.request_filter.answer(verb, target, caller, act, options)
        if not options.dry_run:
            self._definitions.settle(target.resource.storage, self._delete_all)
            if self.service_accounts and target.resource.storage == NAMESPACES:
                self._create_accounts()
            self._collect()
        return answer

    def _collect(self) -> None:
        # The collector writes through the server, so its own writes come here again.
        if not self.collects or self._collecting:
            return
        self._collecting = True
        try:
            self.run_gc()
        finally:
            self._collecting = False

    def _commit(self, prepared: Prepared) -> Reply:
        """Store a prepared write. Raises ApiFailure if a ValidatingAdmissionPolicy denies the write."""
        if bound := self._bound(VALIDATING):
            request = prepared.request()
            check_policies(request, bound, self._namespace_labels(request))
        return self._writer.commit(prepared)

    def _bound(self, kinds: PolicyKinds) -> tuple[BoundPolicy, ...]:
        if not self.store.count(kinds[1]):
            return ()
        policies, bindings = ([record.shared() for record in self.store.scan(where)] for where in kinds)
        return tuple(bound_policies(policies, bindings))

    def _decide(self, call: WriteCall) -> Prepared:
        # apiserver: handlers/patch.go, PatchResource wraps the validation of a create in an authorization with the verb
        # create (S-18).
        if call.applies and self.store.get(call.target.resource.storage, call.target.key) is None:
            self.request_filter.admit(RequestVerb.CREATE, call.target, call.caller)
        # kubernetes: mutating policies run before mutating webhooks, validating policies after them
        # (kubeapiserver/options/plugins.go).
        policies = self._bound(MUTATING)
        if not self.plugins and not policies:
            return self._granted(self._writer.prepare(call))
        prepared = self._mutated_by(policies, self._writer.prepare(attrs.evolve(call, defers=True)))
        prepared = admitted(prepared, self.plugins, self._writer)
        if not call.defers:
            prepared.check()
        return self._granted(prepared)

    def _granted(self, prepared: Prepared) -> Prepared:
        """Return the write, unless its role or binding grants what the caller does not have: then raise ApiFailure."""
        call, authorize = prepared.call, self.authorize
        if authorize is not None and call.target.resource.group == RBAC_GROUP:
            old = None if prepared.before is None else call.target.resource.live(prepared.before)
            check_grant(self.rbac, authorize, call.caller, prepared.outcome.object, old)
        return prepared

    def _mutated_by(self, policies: Iterable[BoundPolicy], prepared: Prepared) -> Prepared:
        """Return the write with its object patched by MutatingAdmissionPolicies, which come before webhooks."""
        for policy in policies:
            request = prepared.request()
            if (seen := policy.seen(request, self._namespace_labels(request))) is not None:
                for expression in policy.expressions:
                    patch = policy.patch(expression, prepared.request().in_version(seen.matched))
                    prepared = self.mutated(prepared, patch, seen.matched)
        return prepared

    def _delete_all(self, resource: ServedResource) -> None:
        """Delete every object of a resource whose CRD is being deleted."""
        self.delete_collection(RequestTarget(resource), caller=_ITSELF)

    def _create_system_namespaces(self) -> None:
        for name in SYSTEM_NAMESPACES:
            self._create_own("namespaces", "Namespace", name)
        if self.service_accounts:
            self._create_accounts()

    def _create_accounts(self) -> None:
        """Create the account `default` in each namespace that lacks it, as kube-controller-manager does."""
        for record in tuple(self.store.scan(NAMESPACES)):
            namespace = record.key[1]
            if not record.deleting and self.store.get(ACCOUNTS, (namespace, "default")) is None:
                self._create_own("serviceaccounts", "ServiceAccount", "default", namespace)

    def _create_own(self, plural: str, kind: str, name: str, namespace: str | None = None) -> None:
        target = RequestTarget(self.registry.at("", "v1", plural), namespace)
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        call = WriteCall(RequestVerb.CREATE, target, body, PLAIN_WRITE, _ITSELF)
        self._writer.commit(self._writer.prepare(call))
