"""A cluster in turmoil: what people, Flux, the network and the operator's own process may do to an instance.

`Turmoil` is the in-memory cluster of `simulation` with the verbs of the state machine. The operator in it runs as in
production: a pass follows a change of what it watches, the time it asked for, or a backoff, and nothing else.
"""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import attrs

from kubelab.flux import (
    Action,
    FluxBehaviour,
    OutcomeKind,
    PullStage,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from kubelab.flux import FluxOutcome as Ending
from kubelab.flux.behaviour import HelmTarget, PullRequest
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, ref_of
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
    SECRET,
)
from purekube.controller.decision import REFUSED_SECONDS, Decision, Requeue, RequeuePace
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import KubeRequest, PatchType, Propagation, Send
from tests.support.instance_worlds import instance_manifest
from tests.support.simulation import HELM, INSTANCE, NS, OCI, REPOSITORY, Simulation
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.reconcile import reconcile

TWIN = attrs.evolve(INSTANCE, name="twin")
CHART = ObjectRef(HELM_CHART, NS, f"{NS}-nextcloud")
GATE = ObjectRef(NAMESPACE, None, NS)
DOWNSTREAM = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY, CONFIG_MAP)
WATCHED = (*DOWNSTREAM, HELM_CHART)
SECRETS = ("values-a", "values-b", "regcred")
EDITOR = "kubectl-edit"
LEAK = "hunter2"
"""What no status and no event may ever show."""


class Crashed(Exception):
    """The operator's process ended here."""


@attrs.define
class Interrupted:
    """A layer that fails at one call, before or after its effect, or from there on."""

    calls: int
    happens: bool
    error: Callable[[], Exception]
    lasting: bool = False
    hit: bool = False

    async def send(self, request: KubeRequest, proceed: Send) -> Manifest:
        self.calls -= 1
        if self.calls >= 0 or (self.hit and not self.lasting):
            return await proceed(request)
        first, self.hit = not self.hit, True
        if first and self.happens:
            await proceed(request)
        raise self.error()


def cut_off() -> Exception:
    """The network's way of failing: nobody knows whether the write happened."""
    return Unavailable("the connection was reset", may_have_happened=True)


def died() -> Exception:
    """The process's way."""
    return Crashed("killed")


@attrs.frozen
class Attempt:
    """One failed try of Flux, and the request it was made for."""

    serial: int
    release: tuple[str, int]
    pull: PullRequest | None
    asked: str
    at: datetime


MARKER = re.compile(r"<<(\d+)>>")


@attrs.define(eq=False)
class LiveRule:
    """A rule of Flux's script that marks every failure with the request it belongs to. Counts its own uses."""

    world: "Turmoil"
    action: Action
    kind: OutcomeKind
    left: int | None
    version: str | None = None

    def matches(self, action: Action, target: HelmTarget) -> bool:
        """As `ReleaseRule.matches`."""
        return action is self.action and self.version in (None, target.version) and self.left != 0

    @property
    def outcome(self) -> Ending:
        """The end of one action, told with its marker and with a secret."""
        if self.left is not None:
            self.left -= 1
        told = f"<<{self.world.mark()}>> cannot start: password={LEAK} {'x' * 1500}"
        return Ending(self.kind, told)


@attrs.define(eq=False)
class LiveSourceRule:
    """The same for requests to registries and repositories."""

    world: "Turmoil"
    fault: SourceFault
    left: int | None
    version: str | None = None
    request: PullRequest | None = None

    def matches(self, request: PullRequest) -> bool:
        """As `SourceRule.matches`. An index is asked for without a version."""
        self.request = request
        return self.left != 0 and self.version in (None, request.version)

    @property
    def outcome(self) -> SourceOutcome:
        """The end of one request."""
        if self.left is not None:
            self.left -= 1
        return SourceOutcome(self.fault, f"<<{self.world.mark(self.request)}>> no: Authorization: Bearer {LEAK}.{LEAK}")


@attrs.define
class _Agenda:
    """When the operator looks at one key again, and what it had seen when it last did."""

    seen: object = None
    due: datetime | None = None
    failures: int = 0


class Turmoil(Simulation):
    """The cluster, with everything that may happen to it as a method."""

    def __init__(self, *, with_flux: bool = True, collects: bool = True) -> None:
        super().__init__(with_flux=with_flux, collects=collects)
        self.attempts: list[Attempt] = []
        self.rules: list[LiveRule] = []
        self.source_rules: list[LiveSourceRule] = []
        self.moved_tags: dict[str, str] = {}
        self.drifted = False
        self.stuck_unknown = False
        self.forbidden: set[str] = set()
        self.operator = self.api.caller
        self.server.authorize = lambda caller, asked: (
            not (caller is self.operator and asked.verb == "patch" and asked.resource in self.forbidden)
        )
        self.override: ReleaseOverride | None = None
        self.withdrawn: set[str] = set()
        self.decide = self._with_operations
        self._agenda: dict[ObjectRef, _Agenda] = {}
        self.on_pass: Callable[[ObjectRef], ReconcileResult | None] = self.reconcile

    def override_of(self, source: ApplicationInstance) -> ReleaseOverride | None:
        """What the Operation asks of the release of its instance."""
        return self.override if source.metadata.name == INSTANCE.name else None

    def _with_operations(self, source: ApplicationInstance, observed: InstanceObserved, context: Context) -> Decision:
        if source.metadata.name == INSTANCE.name:
            observed = attrs.evolve(observed, withdrawn=frozenset(self.withdrawn))
        return reconcile(source, observed, context)

    # --- what is there --------------------------------------------------------------------------------------------

    def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind."""
        try:
            run_sync(self.admin.list(kind, namespace=NS, limit=1))
        except NotFound:
            return False
        return True

    def everything(self, *kinds: Kind) -> dict[ObjectRef, Manifest]:
        """Every object of these kinds in the namespace."""
        found: dict[ObjectRef, Manifest] = {}
        for kind in kinds:
            try:
                page = run_sync(self.admin.list(kind, namespace=NS))
            except NotFound:
                continue
            found |= {ref_of(manifest, kind): manifest for manifest in page.items}
        return found

    def look(self, ref: ObjectRef) -> Manifest | None:
        """The object, None where it or its kind does not exist."""
        try:
            return run_sync(self.admin.get(self.actual(ref)))
        except NotFound:
            return None

    def mark(self, pull: PullRequest | None = None) -> int:
        """A serial number for what Flux tries right now, remembered with the request it is made for."""
        release = self.look(HELM)
        request = (get_path(release, "metadata", "uid") or "", get_path(release, "metadata", "generation") or 0)
        self.attempts.append(Attempt(len(self.attempts), request, pull, self.asked(pull), self.now))
        return len(self.attempts) - 1

    def was_under_way(self, attempt: Attempt) -> bool:
        """Whether a fetch was not over when its source changed: Flux then files its failure under the new generation.

        Nothing on the source tells that from a failure of the new request; the next attempt, at once, does.
        """
        if attempt.pull is None:
            return False
        source = self.look(self._source_of(attempt.pull))
        times = [
            managed_field["time"]
            for managed_field in get_path(source, "metadata", "managedFields") or ()
            if not managed_field.get("subresource")
        ]
        changed = max((datetime.fromisoformat(one) for one in times), default=self.now)
        return changed <= attempt.at + timedelta(seconds=2)

    def is_present(self, attempt: Attempt) -> bool:
        """Whether an attempt was made for what is asked for now, from the source that the release reads now."""
        if attempt.pull is not None:
            read = self._read_by_release(self._source_of(attempt.pull).kind)
            if read and attempt.pull.source not in read:
                return False
        return attempt.asked == self.asked(attempt.pull)

    @staticmethod
    def _source_of(pull: PullRequest) -> ObjectRef:
        """The source that a request is made for: not always the one that the release reads, or the newest."""
        return attrs.evolve(OCI if pull.stage is PullStage.OCI else REPOSITORY, name=pull.source)

    def asked(self, pull: PullRequest | None) -> str:
        """Digest of what such a pull, or a release, would be made for; whether it is suspended is no part of that.

        Nor are credentials, once the chart or the index is there: Flux does the same with what it has fetched before.
        """
        release = get_path(self.look(HELM), "spec") or {}
        source = self.look(OCI if pull is None else self._source_of(pull))
        spec = {field: get_path(source, "spec", field) for field in ("url", "ref", "secretRef")}
        parts: tuple[Mapping[str, Any], ...]
        match pull and pull.stage:
            case PullStage.OCI | PullStage.INDEX:
                parts = (spec,)
            case PullStage.CHART:
                parts = ({**spec, "secretRef": None}, get_path(release, "chart") or {})
            case None:
                parts = (release, {**spec, "secretRef": None}) if "chartRef" in release else (release,)
        body = [{key: value for key, value in part.items() if key != "suspend"} for part in parts]
        return hashlib.sha256(canonical_json(body)).hexdigest()

    # --- what people do -------------------------------------------------------------------------------------------

    def try_edit(self, ref: ObjectRef, patch: Mapping[str, Any], *, manager: str = "kubectl-edit") -> bool:
        """A merge patch by somebody; False where there is nothing to patch or the server refuses it."""
        try:
            self.edit(ref, patch, manager=manager)
        except (NotFound, Invalid):
            return False
        return True

    def try_submit(self, manifest: Mapping[str, Any]) -> bool:
        """What the agent applies; False where somebody holds a field of it, or the object is going."""
        live = self.get(ref_of(manifest, INSTANCE.kind))
        if live is not None and get_path(live, "metadata", "deletionTimestamp"):
            return False
        try:
            self.submit(manifest)
        except (Conflict, Invalid):
            return False
        return True

    def try_remove(self, ref: ObjectRef, propagation: Propagation = Propagation.BACKGROUND) -> bool:
        """Somebody deletes an object; False where there is none."""
        try:
            run_sync(self.admin.delete(self.actual(ref), propagation=propagation))
        except NotFound:
            return False
        return True

    def put_secret(self, name: str, content: str) -> None:
        """Somebody creates or replaces a values Secret."""
        body = {**SECRET.manifest(name, NS), "data": {"values.yaml": base64.b64encode(content.encode()).decode()}}
        run_sync(self.admin.apply(body, kind=SECRET, field_manager="people", force=True))

    def withdraw(self) -> None:
        """The Operation that asks for another release failed, or was cancelled."""
        if self.override is not None:
            self.withdrawn.add(self.override.uid)
            self.override = None

    def let_go_of_status(self) -> None:
        """People who edited a status give up what they hold of it."""
        for ref in (INSTANCE, TWIN):
            held = get_path(self.look(ref), "metadata", "managedFields") or ()
            theirs = [
                at
                for at, managed_field in enumerate(held)
                if (managed_field["manager"], managed_field.get("subresource")) == (EDITOR, "status")
            ]
            for at in reversed(theirs):
                patch = [{"op": "remove", "path": f"/metadata/managedFields/{at}"}]
                run_sync(self.admin.patch(ref, patch, patch_type=PatchType.JSON, field_manager="kubectl-patch"))

    def hand_back(self) -> bool:
        """Do what a FieldConflict message says, to the letter; False where none says anything."""
        done = False
        for ref in (INSTANCE, TWIN):
            told = self.message(ref, "Blocked")
            if self.condition(ref, "Blocked") == ("True", "FieldConflict") and "To hand it back: " in told:
                for command in told.partition("To hand it back: ")[2].split(" && "):
                    done |= self.kubectl_patch(command)
        return done

    def take_over(self) -> None:
        """Do what NameTaken says of a release that Helm alone knows by now."""
        told = self.message(INSTANCE, "Blocked").partition("kubectl label secrets ")[2].split()
        if told and self.condition(INSTANCE, "Blocked") == ("True", "NameTaken"):
            for ref, secret in self.everything(SECRET).items():
                if get_path(secret, "metadata", "labels", "owner") == "helm":
                    labels = dict(part.split("=") for part in told[4:] if part != "--overwrite")
                    self.edit(ref, {"metadata": {"labels": labels}})

    def patch_status(self, ref: ObjectRef, status: Mapping[str, Any] | None) -> None:
        """Somebody writes these fields of a status, or removes it."""
        run_sync(
            self.admin.patch(
                ref, {"status": status}, patch_type=PatchType.MERGE, field_manager=EDITOR, subresource="status"
            )
        )

    def kubectl_patch(self, command: str) -> bool:
        """Run one `kubectl patch` as it stands in a message; False when its guard no longer holds."""
        words = shlex.split(command)
        assert words[:2] == ["kubectl", "patch"], command
        kind = next(kind for kind in WATCHED if words[2] == (kind.crd_name if kind.group else kind.plural))
        ref = ObjectRef(kind, words[words.index("-n") + 1], words[3])
        patch = json.loads(words[words.index("-p") + 1])
        try:
            run_sync(self.admin.patch(ref, patch, patch_type=PatchType.JSON, field_manager="kubectl-patch"))
        except (Invalid, NotFound):
            return False
        return True

    def message(self, ref: ObjectRef, kind: str) -> str:
        """A condition's message; empty where there is no such condition."""
        found = self.get(ref)
        told = [
            condition["message"]
            for condition in get_path(found, "status", "conditions") or ()
            if condition["type"] == kind
        ]
        return str(told[0]) if told else ""

    # --- what Flux does -------------------------------------------------------------------------------------------

    def script(self) -> None:
        """Make Flux behave as the rules of this world say by now."""
        self.flux.behaviour = FluxBehaviour(
            release_rules=cast(Sequence[ReleaseRule], tuple(self.rules)),
            source_rules=cast(Sequence[SourceRule], tuple(self.source_rules)),
            digest_salts=dict(self.moved_tags),
            drifted={f"{NS}/nextcloud": ("Deployment/org-myteam/nextcloud",)} if self.drifted else {},
            ready_stuck_unknown=self.stuck_unknown,
        )

    def behave(self) -> None:
        """Flux, registries and permissions are well again."""
        self.rules.clear()
        self.source_rules.clear()
        self.forbidden.clear()
        self.drifted = self.stuck_unknown = False
        self.script()

    # --- time, and the operator in it -----------------------------------------------------------------------------

    def interrupted(self, ref: ObjectRef, face: Interrupted) -> ReconcileResult | None:
        """One pass through a failing face. What a process death or a failed read leaves is no result."""
        whole, self.api = self.api, self.api.through(face.send)
        try:
            return self.reconcile(ref)
        except (Crashed, Unavailable):
            return None
        finally:
            self.api = whole

    def run(self, seconds: float) -> None:
        """Let operator and Flux work for a while, each when it has a reason to."""
        limit = self.now + timedelta(seconds=seconds)
        rounds = 0
        while True:
            self.flux.tick(self.now)
            if self._due_passes():
                rounds += 1
                assert rounds < 100, f"a hot loop at {self.now}: {self.message(INSTANCE, 'Reconciling')}"
                continue
            following = self._next()
            if following is None or following > limit:
                break
            if following > self.now:
                self.now, rounds = following, 0
        self.now = limit
        self.flux.tick(self.now)
        while self._due_passes():
            self.flux.tick(self.now)

    def _next(self) -> datetime | None:
        dues = [entry.due for entry in self._agenda.values() if entry.due is not None]
        return min((at for at in (self.flux.next_wake_up(), *dues) if at is not None), default=None)

    def _due_passes(self) -> bool:
        """Reconcile every key that has a reason; whether there was one."""
        worked = False
        for ref in (INSTANCE, TWIN):
            entry = self._agenda.setdefault(ref, _Agenda())
            if self.signature(ref) == entry.seen and (entry.due is None or entry.due > self.now):
                continue
            worked = True
            entry.due = None
            result = self.on_pass(ref)
            entry.seen = self.signature(ref)
            if result is not None:
                self._plan(entry, result.requeue)
        return worked

    def _plan(self, entry: _Agenda, requeue: Requeue) -> None:
        waits = [requeue.after]
        entry.failures = entry.failures + 1 if requeue.pace is RequeuePace.BACKOFF else 0
        match requeue.pace:
            case RequeuePace.IMMEDIATE:
                waits.append(0.0)
            case RequeuePace.BACKOFF:
                waits.append(min(2.0**entry.failures, 300.0))
            case RequeuePace.SLOW:
                waits.append(60.0)
            case RequeuePace.REFUSED:
                waits.append(REFUSED_SECONDS)
            case RequeuePace.NONE | RequeuePace.UNDECIDED:
                pass
        due = min((wait for wait in waits if wait is not None), default=None)
        entry.due = None if due is None else self.now + timedelta(seconds=due)

    def signature(self, ref: ObjectRef) -> object:
        """Everything whose watch events lead to this key, by resourceVersion."""
        source = self.look(ref)
        if source is None:
            return None
        uid = source["metadata"]["uid"]
        parts: list[object] = [source["metadata"]["resourceVersion"], self._version(GATE), repr(self.settings)]
        for one, manifest in self.everything(*WATCHED).items():
            named = one.name.startswith(("nextcloud", f"{NS}-nextcloud")) and one.kind != CONFIG_MAP
            owners = manifest["metadata"].get("ownerReferences") or ()
            if named or any(owner["uid"] == uid for owner in owners):
                parts.append((str(one), manifest["metadata"]["resourceVersion"]))
        parts.append(tuple(self.serves(kind) for kind in WATCHED))
        parts.append((repr(self.override), frozenset(self.withdrawn)))
        return tuple(parts)

    def _version(self, ref: ObjectRef) -> str:
        return str(get_path(self.look(ref), "metadata", "resourceVersion") or "")


def intent(
    name: str = "nextcloud-myteam",
    *,
    version: str = "6.6.0",
    source_type: str = "oci",
    host: str = "one",
    chart: str = "nextcloud",
    values: Mapping[str, Any] | None = None,
    integrations: Mapping[str, Any] | None = None,
    suspend: bool = False,
    credentials: bool = False,
) -> dict[str, Any]:
    """An instance as the control plane asks for it."""
    scheme = "oci" if source_type == "oci" else "https"
    source: dict[str, Any] = {
        "sourceType": source_type,
        "url": f"{scheme}://{host}.example/charts",
        "name": chart,
        "version": version,
    }
    if credentials:
        source["secretRef"] = {"name": "regcred"}
    manifest = instance_manifest(
        chart=source, values=dict(values) if values else None, integrations=integrations, suspend=suspend
    )
    manifest["metadata"]["name"] = name
    return manifest


def strangers(world: Turmoil, uids: set[str]) -> Iterator[ObjectRef]:
    """Objects of the names we want that none of these instances controls."""
    for ref, manifest in world.everything(*DOWNSTREAM).items():
        owners = manifest["metadata"].get("ownerReferences") or ()
        if ref.name != "values-c" and not any(owner.get("controller") and owner["uid"] in uids for owner in owners):
            yield ref


def is_refused(error: OperatorError | None) -> bool:
    """Whether a pass ended because our own status or finalizer was refused."""
    return isinstance(error, Conflict | Forbidden | Invalid)
