"""The credential machine between a real API server and a real control plane, in memory.

Every effect waits until the test performs it, with the fault that the test chooses; the process can end at any
moment and start again from the Secret. No event loop, no time but the test's.
"""

from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

import attrs

from kubelab.clock import ManualClock
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.controller.backoff import LogNote, Tick
from purekube.ports import PatchType
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.machine import RotationStage, next_deadline, start, step
from vworkspace_core.credentials.performer import CredentialPerformer
from vworkspace_core.credentials.secret import StoredCredential, new_secret, secret_ref, stored_credential
from vworkspace_fake.controlplane import ApiRefusal, ControlPlaneServer, InProcessControlPlane, ScriptedFault

CLUSTER_ID = "cluster-prod-1"
OWN = "vworkspace-system"
REF = secret_ref(OWN)
MARK = "t0ken"
EXTRA = {"approval-secret": "a2VwdA=="}


@attrs.frozen
class Options:
    """What a world begins with: a credential in the Secret, or a one-time token; how long credentials live."""

    has_credential: bool = True
    registration: bool = False
    lifetime: timedelta | None = None


class World:
    """Everything around one credential. `state` and `pending` are what a crash loses."""

    def __init__(self, options: Options) -> None:
        self.clock = ManualClock()
        self.api = ApiServer(now=self.clock.now)
        self.kube = InProcessKube(self.api)
        numbers = count()
        self.server = ControlPlaneServer(
            now=self.clock.now,
            mint=lambda: f"{MARK}-{next(numbers)}",
            rotation_grace=timedelta(days=1),
            token_lifetime=options.lifetime,
        )
        self.control = InProcessControlPlane(self.server, "")
        self.performer = CredentialPerformer(self.kube, self.control, OWN, "https://odoo.example.com", CLUSTER_ID)
        self.registration = self.server.tokens.offer_registration(CLUSTER_ID) if options.registration else ""
        self.asked: set[str] = set()
        self.done: set[str] = set()
        self.failed: dict[str, str] = {}
        self.notes: list[LogNote] = []
        self.used: list[str] = []
        self.rotations = 0
        self.deployment_is_bad = False
        self.shown = ""
        run_sync(self.kube.create(NAMESPACE.manifest(OWN), kind=NAMESPACE, field_manager="setup"))
        if options.has_credential:
            self.server.tokens.add(CLUSTER_ID, f"{MARK}-first")
            secret = new_secret(OWN, "https://odoo.example.com", CLUSTER_ID, StoredCredential(f"{MARK}-first"))
            secret["data"] |= EXTRA
            run_sync(self.kube.create(secret, kind=SECRET, field_manager="kubectl"))
        self.begin()

    # --- the process ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new process: it knows what the Secret says, and who asked is asking again."""
        self.pending: list[r.WriteSecret | r.TokenRequest] = []
        kept = self.kept()
        self.state, effects = start(kept, self.clock.now())
        self._take((*((r.UseToken(kept.token),) if kept.token else ()), *effects))
        if self.registration:
            self.feed(r.BootstrapToken(self.registration, CLUSTER_ID))
        for request in sorted(self.asked - self.done):
            self.feed(r.RotationRequested(request))

    def feed(self, event: r.CredentialEvent) -> None:
        """One step of the machine."""
        self.state, effects = step(self.state, event, self.clock.now())
        self.shown += repr((event, self.state, effects))
        self._take(effects)
        due = next_deadline(self.state)
        if isinstance(event, Tick):
            assert due is None or due > self.clock.now(), "a Tick leaves nothing due behind it"

    def _take(self, effects: tuple[r.CredentialEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case r.UseToken(token):
                    self._use(token)
                case r.RequestsServed(requests):
                    assert all(self.kept().has_served(request) for request in requests), "what is done is on record"
                    self.done |= set(requests)
                case r.RequestsFailed(requests, message):
                    self.asked -= set(requests)
                    self.failed |= dict.fromkeys(requests, message)
                case LogNote():
                    self.notes.append(effect)
                case _:
                    self.pending.append(effect)

    def _use(self, token: str) -> None:
        kept = self.kept()
        assert token in (kept.token, kept.previous) or token in self.replaced, "used only when the Secret holds it"
        self.control.use_token(token)
        self.used.append(token)

    replaced: frozenset[str] = frozenset()
    """Tokens that the Secret held before somebody replaced them by hand."""

    def perform(self, at: int, *, fault: str = "") -> None:
        """Perform the pending effect `at`. `fault` is empty, "before" or "after" the effect."""
        effect = self.pending.pop(at)
        answer = None if fault == "before" else self._performed(effect)
        if fault or answer is None:
            lost = (
                r.WriteFailed("unanswered") if isinstance(effect, r.WriteSecret) else r.RequestUnanswered("unanswered")
            )
            self.feed(r.EffectAnswered(effect.number, lost))
        else:
            self.feed(answer)

    def _performed(self, effect: r.WriteSecret | r.TokenRequest) -> r.EffectAnswered:
        answer = run_sync(self.performer.perform(effect))
        self.rotations += isinstance(answer.answer, r.Issued)
        return answer

    # --- what comes in ----------------------------------------------------------------------------------------

    def ask(self, request: str) -> None:
        """Somebody asks for a rotation, and asks again after a crash until it is done."""
        self.asked.add(request)
        self.feed(r.RotationRequested(request))

    def poll(self) -> None:
        """Any request with the token in use."""
        token = self.state.in_use
        if token:
            self.feed(r.TokenAccepted(token) if self.accepts(token) else r.TokenRejected(token))

    def see(self) -> None:
        """The watch tells what the Secret says."""
        self.replaced = frozenset()
        self.feed(r.SecretRead(self.kept()))

    def advance(self, seconds: float) -> None:
        """Let time pass, and tell the machine when something is due."""
        self.clock.advance(seconds)
        due = next_deadline(self.state)
        if due is not None and due <= self.clock.now():
            self.feed(Tick())

    def bad_deployment(self, is_bad: bool) -> None:
        """The other side answers 401 to everything, or stops doing so."""
        self.deployment_is_bad = is_bad
        self.server.faults.outage(ScriptedFault(status=401) if is_bad else None)

    def edit(self) -> None:
        """Somebody puts another good token into the Secret, by hand."""
        kept = self.kept()
        self.replaced |= {kept.token, kept.previous}
        token = self.server.mint()
        self.server.tokens.add(CLUSTER_ID, token)
        fresh = new_secret(OWN, "https://odoo.example.com", CLUSTER_ID, StoredCredential(token))
        data = {name: fresh["data"][name] for name in ("token",)}
        if self.secret() is None:
            run_sync(self.kube.create(fresh, kind=SECRET, field_manager="kubectl"))
        else:
            run_sync(self.kube.patch(REF, {"data": data}, patch_type=PatchType.MERGE, field_manager="kubectl"))

    # --- what there is ----------------------------------------------------------------------------------------

    def secret(self) -> Manifest | None:
        """The Secret as it stands."""
        try:
            return run_sync(self.kube.get(REF))
        except NotFound:
            return None

    def kept(self) -> StoredCredential:
        """What the Secret says of tokens."""
        found = self.secret()
        return StoredCredential() if found is None else stored_credential(found)

    def data(self) -> Mapping[str, Any]:
        """The Secret's data, still encoded."""
        found = self.secret()
        data: Mapping[str, Any] = {} if found is None else found.get("data", {})
        return data

    def accepts(self, token: str) -> bool:
        """Whether the control plane takes the token at this moment."""
        if self.deployment_is_bad:
            return False
        try:
            return self.server.tokens.cluster_of(token) == CLUSTER_ID
        except ApiRefusal:
            return False

    def knows(self, token: str) -> bool:
        """Whether the control plane would take it when it is well; does not count as use."""
        found = self.server.tokens.find(token)
        return found is not None and (found.ends is None or self.clock.now() < found.ends)

    # --- the end ----------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """No more faults, and time passes until nothing moves."""
        self.bad_deployment(False)
        for _ in range(200):
            self.see()
            while self.pending:
                self.perform(0)
            self.poll()
            if self.state.stage is RotationStage.IDLE and not self.pending and next_deadline(self.state) is None:
                return
            self.advance(60)
        raise AssertionError(f"never at rest: {self.state}")
