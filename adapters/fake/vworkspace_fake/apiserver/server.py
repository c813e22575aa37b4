"""The API server in memory: every verb as a plain method that answers at once or raises `ApiFailure`.

Synchronous and deterministic: time comes from `now`, uids and name suffixes from `seed`, nothing else from
outside. What to store is decided by the pipeline (pure functions); the server finds the live object, asks
the pipeline, stores what it says, and tells the watches. Two faces stand on it: `inprocess` and `http`.

    server = ApiServer(now=clock.now)
    widgets = server.registry.at("example.test", "v1", "widgets")
    server.create(Target(widgets, "default"), {...})
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar, assert_never

from vworkspace_core.manifest import Kind
from vworkspace_core.ports import PatchType
from vworkspace_fake.apiserver.audit import AuditEntry, AuditLog
from vworkspace_fake.apiserver.authorization import Authorize, attributes_of, denied, review_attributes
from vworkspace_fake.apiserver.calls import ADMIN, PLAIN_WRITE, Caller, Target, Verb, WriteOptions
from vworkspace_fake.apiserver.controllers import Controllers
from vworkspace_fake.apiserver.custom_definitions import CustomDefinitions
from vworkspace_fake.apiserver.deleting import PLAIN_DELETE, DeleteOptions
from vworkspace_fake.apiserver.failure import ApiFailure, bad_request, method_not_allowed, not_found, not_served
from vworkspace_fake.apiserver.identity import Identities
from vworkspace_fake.apiserver.listing import EVERYTHING, ListOptions, page_of, plan_list
from vworkspace_fake.apiserver.namespaces import SYSTEM_NAMESPACES, Namespaces
from vworkspace_fake.apiserver.options import manager_of
from vworkspace_fake.apiserver.provided import provided_resources
from vworkspace_fake.apiserver.rbac import Rbac
from vworkspace_fake.apiserver.records import decode, encode
from vworkspace_fake.apiserver.registry import Registry
from vworkspace_fake.apiserver.removal import Remover
from vworkspace_fake.apiserver.replies import Listed, Reply
from vworkspace_fake.apiserver.resources import Resource
from vworkspace_fake.apiserver.reviews import REVIEWS, answer_review
from vworkspace_fake.apiserver.scale import scale_of
from vworkspace_fake.apiserver.selection import selection_of
from vworkspace_fake.apiserver.store import Store
from vworkspace_fake.apiserver.streams import Streams
from vworkspace_fake.apiserver.watching import WatchStream
from vworkspace_fake.apiserver.writing import Writer

__all__ = ["ApiServer"]

_ITSELF: Final = Caller("system:apiserver", agent="kube-apiserver/v1.36.2")
"""As whom the server writes what is its own: the system namespaces, the removal of a definition's objects."""

T = TypeVar("T", Reply, Listed, WatchStream)


class ApiServer:
    """One API server with its objects. All methods raise `ApiFailure` and nothing else.

    `collects` runs garbage collection and namespace deletion within every write; without it they wait for
    `run_gc`, and a server on which nobody calls that is a bare kube-apiserver. With `rbac` the roles and
    bindings in the store decide what callers may do; without it they may do everything. `window` is how many
    changes the history holds, `audit_limit` how many requests the audit log.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        seed: int = 0,
        window: int = 10_000,
        collects: bool = False,
        rbac: bool = False,
        audit_limit: int = 100_000,
    ) -> None:
        self.now = now
        self.collects = collects
        self.audit = AuditLog(audit_limit)
        self.store = Store(window=window)
        self.registry = Registry(provided_resources())
        self.streams = Streams(self.store)
        self.rbac = Rbac(self.store)
        self.authorize: Authorize | None = self.rbac.allows if rbac else None
        namespaces = Namespaces(self.store)
        self._writer = Writer(self.store, namespaces, Identities(seed), now)
        self._remover = Remover(self.store, now)
        self._definitions = CustomDefinitions(self.store, self.registry, self.streams, now)
        self._controllers = Controllers(self.store, self.registry, namespaces, self)
        self._busy = False
        self._create_system_namespaces()

    def get(self, target: Target, caller: Caller = ADMIN) -> Reply:
        """Read one object, or its whole through a subresource."""
        return self._answer(Verb.GET, target, caller, lambda: self._read(target))

    def list(self, target: Target, options: ListOptions = EVERYTHING, caller: Caller = ADMIN) -> Listed:
        """Read one page (W-01 to W-06)."""
        return self._answer(Verb.LIST, target, caller, lambda: self._page(target, options))

    def watch(self, target: Target, options: ListOptions = EVERYTHING, caller: Caller = ADMIN) -> WatchStream:
        """Open a watch: poll it with `drain`, or wait for `on_ready` (W-10 to W-18)."""
        return self._answer(
            Verb.WATCH,
            target,
            caller,
            lambda: self.streams.open(target.resource, selection_of(target, options), options),
        )

    def create(self, target: Target, body: Any, options: WriteOptions = PLAIN_WRITE, caller: Caller = ADMIN) -> Reply:
        """POST."""
        if target.resource.storage in REVIEWS:
            return self._answer(Verb.CREATE, target, caller, lambda: self._review(target, body, caller), options)
        return self._write(
            Verb.CREATE, target, options, caller, lambda: self._writer.create(target, body, options, caller)
        )

    def update(self, target: Target, body: Any, options: WriteOptions = PLAIN_WRITE, caller: Caller = ADMIN) -> Reply:
        """PUT."""
        return self._write(
            Verb.UPDATE, target, options, caller, lambda: self._writer.update(target, body, options, caller)
        )

    def patch(
        self,
        target: Target,
        patch: Any,
        patch_type: PatchType,
        options: WriteOptions = PLAIN_WRITE,
        caller: Caller = ADMIN,
    ) -> Reply:
        """JSON, merge or strategic merge patch."""
        return self._write(
            Verb.PATCH, target, options, caller, lambda: self._writer.patch(target, patch, patch_type, options, caller)
        )

    def apply(self, target: Target, body: Any, options: WriteOptions, caller: Caller = ADMIN) -> Reply:
        """Server-side apply. A caller without `create` may apply only to what exists (S-18)."""

        def act() -> Reply:
            if self.store.get(target.resource.storage, target.key) is None:
                self._authorize(caller, Verb.CREATE, target)
            return self._writer.apply(target, body, options, caller)

        return self._write(Verb.PATCH, target, options, caller, act)

    def delete(self, target: Target, options: DeleteOptions = PLAIN_DELETE, caller: Caller = ADMIN) -> Reply:
        """DELETE of one object."""
        how = WriteOptions(dry_run=options.dry_run)
        return self._write(Verb.DELETE, target, how, caller, lambda: self._remover.delete(target, options))

    def delete_collection(
        self,
        target: Target,
        selector: ListOptions = EVERYTHING,
        options: DeleteOptions = PLAIN_DELETE,
        caller: Caller = ADMIN,
    ) -> Listed:
        """DELETE of everything that the selectors choose."""
        how = WriteOptions(dry_run=options.dry_run)
        return self._write(
            Verb.DELETE_COLLECTION,
            target,
            how,
            caller,
            lambda: self._remover.delete_collection(target, selection_of(target, selector), options),
        )

    def resource(self, kind: Kind) -> Resource:
        """The served resource of a kind. Raises the plain-text 404 when it is not served."""
        return self.registry.at(kind.group, kind.version, kind.plural)

    def run_gc(self) -> int:
        """Collect garbage and empty terminating namespaces until nothing is left; returns how much was looked at."""
        return self._controllers.run()

    @property
    def idle(self) -> bool:
        """Whether `run_gc` would do nothing."""
        return self._controllers.idle

    def _read(self, target: Target) -> Reply:
        record = self.store.get(target.resource.storage, target.key)
        if record is None:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        raw = target.resource.render(record.raw)
        if target.subresource == "scale":
            raw = encode(scale_of(target.resource.definition, decode(raw)))
        return Reply(200, raw)

    def _page(self, target: Target, options: ListOptions) -> Listed:
        resource = target.resource
        selection = selection_of(target, options)
        plan = plan_list(options, self.store.version, self.store.floor)
        if plan.version is None:
            records = self.store.scan(resource.storage, target.namespace, plan.after)
        else:
            records = iter(self.store.past(resource.storage, plan.version, target.namespace, plan.after))
        selected = [record for record in records if selection.matches(record)]
        version = self.store.version if plan.version is None else plan.version
        return Listed(
            resource, page_of(selected, plan, version, bool(options.label_selector or options.field_selector))
        )

    def _write(self, verb: Verb, target: Target, options: WriteOptions, caller: Caller, act: Callable[[], T]) -> T:
        """Write, then let follow what a write sets in motion: definitions are served, garbage is collected."""
        answer = self._answer(verb, target, caller, act, options)
        if not options.dry_run:
            self._definitions.settle(target.resource.storage, self._delete_all)
            if self.collects and not self._busy:
                self._busy = True
                try:
                    self.run_gc()
                finally:
                    self._busy = False
        return answer

    def _answer(
        self, verb: Verb, target: Target, caller: Caller, act: Callable[[], T], options: WriteOptions | None = None
    ) -> T:
        """Authorize, act, and write the audit log whatever comes of it."""
        before, status = self.store.version, 500
        try:
            self._authorize(caller, verb, target)
            _check_served(verb, target)
            answer = act()
            status = getattr(answer, "status", 200)
            return answer
        except ApiFailure as failure:
            status = failure.status
            raise
        finally:
            self.audit.add(
                AuditEntry(
                    method=_method(verb),
                    verb=verb,
                    path=target.path,
                    user=caller.user,
                    manager="" if options is None else manager_of(options, caller),
                    status=status,
                    version=self.store.version,
                    changed=self.store.version != before,
                    dry_run=options is not None and options.dry_run,
                )
            )

    def _authorize(self, caller: Caller, verb: Verb, target: Target) -> None:
        asked = attributes_of(verb, target)
        if self.authorize is not None and not self.authorize(caller, asked):
            raise denied(caller, asked)

    def _review(self, target: Target, body: Any, caller: Caller) -> Reply:
        """Answer a question about what the caller may do."""

        def allowed(asked: Mapping[str, Any]) -> bool:
            return self.authorize is None or self.authorize(caller, review_attributes(asked))

        def rules(namespace: str) -> list[Mapping[str, Any]]:
            judged = caller if self.authorize is not None else ADMIN
            return list(self.rbac.rules(judged, namespace))

        if not isinstance(body, Mapping):
            raise bad_request("a review is an object")
        return Reply(201, encode(answer_review(target.resource.kind, body, caller, allowed, rules)))

    def _delete_all(self, resource: Resource) -> None:
        """Delete every object of a resource whose definition is going."""
        self.delete_collection(Target(resource), caller=_ITSELF)

    def _create_system_namespaces(self) -> None:
        namespaces = self.registry.at("", "v1", "namespaces")
        for name in SYSTEM_NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._writer.create(Target(namespaces), body, WriteOptions(), _ITSELF)


def _check_served(verb: Verb, target: Target) -> None:
    """Refuse a verb, a scope or a subresource that the resource does not have."""
    resource = target.resource
    if verb not in resource.verbs:
        raise method_not_allowed()
    scoped = target.namespace is not None
    if scoped and not resource.namespaced:
        raise not_served()
    if resource.namespaced and not scoped and (target.name or verb is Verb.CREATE):
        raise not_served()
    if target.subresource and target.subresource not in resource.subresources:
        raise not_found(resource.group, resource.plural, target.name)


def _method(verb: Verb) -> str:
    match verb:
        case Verb.GET | Verb.LIST | Verb.WATCH:
            return "GET"
        case Verb.CREATE:
            return "POST"
        case Verb.UPDATE:
            return "PUT"
        case Verb.PATCH:
            return "PATCH"
        case Verb.DELETE | Verb.DELETE_COLLECTION:
            return "DELETE"
        case _:
            assert_never(verb)
