"""Operators with one seeded defect each: `python -m tests.support.seeded_defects NAME run …` (CONF-2).

A defect changes a few lines of the correct operator as it starts: a decision is replaced, or what is sent. No wheel
holds this module.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

import anyio
import attrs

from purekube.apimachinery import conditions as condition_times
from purekube.apimachinery import meta, secret_material
from purekube.apimachinery.errors import Conflict, JobClosed, KindMissing
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.resources import (
    EVENT,
    HELM_RELEASE,
    JOB,
    OCI_REPOSITORY,
    SECRET,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT,
)
from purekube.controller.backoff import Backoff
from purekube.controller.decision import Decision, Finalizer, MergePatch
from purekube.controller.queue.workqueue import RateLimiter
from purekube.ports import KubeRequest, KubeVerb, PatchType, WatchEventType
from purekube_http.http import HttpTransport
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands import run as run_module  # noqa: F401 - loads what is to be changed
from vworkspace_app.commands.shared import process
from vworkspace_app.manager import production  # noqa: F401 - the same
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.instances import (
    blocking_reasons,
    conditions,
    deletion,
    naming,
    observed_release,
    reconcile,
    release_state,
)
from vworkspace_core.instances.blocking_reasons import BlockingReason
from vworkspace_core.jobs import awaiting_status, plan, result, scope
from vworkspace_core.operations import identity, lifecycle, preconditions
from vworkspace_odoo import HttpControlPlane, failures

Seed = Callable[[], None]


@attrs.frozen
class Defect:
    """A seeded defect: the clause that it breaks, further ones that it breaks too, and how it is seeded."""

    clause: str
    seed: Seed
    also: tuple[str, ...] = ()


DEFECTS: dict[str, Defect] = {}


def defect(clause: str, *also: str) -> Callable[[Seed], Seed]:
    def add(seed: Seed) -> Seed:
        DEFECTS[seed.__name__] = Defect(clause, seed, also)
        return seed

    return add


def replace(former: Any, new: Any) -> None:
    """Put `new` where `former` is, in every module that has it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(("purekube", "vworkspace")):
            for name, value in list(vars(module).items()):
                if value is former:
                    setattr(module, name, new)
                elif isinstance(value, tuple) and any(part is former for part in value):
                    setattr(module, name, tuple(new if part is former else part for part in value))


def never(former: Any) -> None:
    """Have a decision say nothing."""
    replace(former, lambda *_, **__: None)


def send(change: Callable[[KubeRequest], KubeRequest]) -> None:
    """Change every request before it is sent."""
    former = HttpTransport.send

    async def changed(self: HttpTransport, request: KubeRequest) -> Any:
        return await former(self, change(request))

    setattr(HttpTransport, "send", changed)  # noqa: B010


def answered(test: Callable[[KubeRequest], bool]) -> None:
    """Answer some requests without sending them, as if they had succeeded."""
    former = HttpTransport.send
    versions = count(1)

    async def changed(self: HttpTransport, request: KubeRequest) -> Any:
        if not test(request):
            return await former(self, request)
        body: Any = request.body or {}
        made = {"uid": f"u-{next(versions)}", "resourceVersion": str(next(versions)), **body.get("metadata", {})}
        return {**body, "metadata": made}

    setattr(HttpTransport, "send", changed)  # noqa: B010


def body_of(verb: KubeVerb, kind: Kind, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a deep copy of the body of some requests."""
    import copy

    def changed(request: KubeRequest) -> KubeRequest:
        if (request.verb, request.kind) != (verb, kind) or request.subresource or request.body is None:
            return request
        content: Any = request.body
        body = copy.deepcopy(dict(content))
        change(body)
        return attrs.evolve(request, body=body)

    send(changed)


def evolved(test: Callable[[KubeRequest], bool], **params: str) -> None:
    send(lambda r: attrs.evolve(r, params={**r.params, **params}) if test(r) else r)


def _child(request: KubeRequest) -> bool:
    return request.verb is KubeVerb.APPLY and request.kind in (HELM_RELEASE, OCI_REPOSITORY)


# --- ownership and writes --------------------------------------------------------------------------------------------


@defect("REC-8")
def forces_ownership() -> None:
    evolved(_child, force="true")


@defect("REC-6", "REC-8", "REC-4")
def writes_under_two_names() -> None:
    evolved(lambda r: _child(r) and r.kind == OCI_REPOSITORY, fieldManager="another-manager")


@defect("REC-10")
def deletes_by_name_without_uid() -> None:
    body_of(KubeVerb.DELETE, HELM_RELEASE, lambda body: body.pop("preconditions", None))


@defect("OPS-11")
def deletes_jobs_without_uid() -> None:
    body_of(KubeVerb.DELETE, JOB, lambda body: body.pop("preconditions", None))


@defect("REC-6")
def writes_when_nothing_changed() -> None:
    former = reconcile.reconcile

    def changed(source: Any, observed: Any, context: Any) -> Decision:
        decision = former(source, observed, context)
        live = [ref for ref in observed.objects if ref.kind == HELM_RELEASE]
        # Each change of the release starts a pass: without a pause the operator would do nothing else.
        touch = {"metadata": {"annotations": {"example.com/seen": str(int(time.monotonic()))}}}
        return attrs.evolve(decision, patches=(*decision.patches, *(MergePatch(ref, touch) for ref in live)))

    replace(former, changed)


@defect("RES-5")
def forgets_the_finalizer() -> None:
    body_of(
        KubeVerb.PATCH,
        APPLICATION_INSTANCE,
        lambda body: body["metadata"].pop("finalizers", None) if body["metadata"].get("finalizers") else None,
    )


@defect("REC-10")
def releases_the_finalizer_too_early() -> None:
    replace(deletion._take_down, lambda *_, **__: Decision(finalizer=Finalizer.REMOVE))


@defect("RES-5")
def ignores_abandon() -> None:
    replace(meta.is_abandoned, lambda *_: False)


@defect("REC-1", "RES-5")
def leaves_sources_without_owner() -> None:
    body_of(KubeVerb.APPLY, OCI_REPOSITORY, lambda body: body["metadata"].pop("ownerReferences", None))


@defect("RES-5")
def acts_outside_the_gate() -> None:
    never(blocking_reasons._managed_namespace)


@defect("RES-5")
def serves_other_clusters() -> None:
    never(blocking_reasons._wrong_cluster)


# --- conditions and Events -------------------------------------------------------------------------------------------


@defect("REC-7")
def is_ready_for_an_older_generation() -> None:
    former = release_state._attempted

    def changed(observed: Any) -> Any:
        if observed.condition("Ready").get("status") == "True":
            return release_state._ready(observed, "ready")
        return former(observed)

    replace(former, changed)


@defect("RES-4")
def moves_every_transition_time() -> None:
    former = condition_times._timed
    replace(former, lambda old, want, generation, now: former(None, want, generation, now))


@defect("RES-4")
def moves_no_transition_time() -> None:
    former = condition_times._timed

    def timed(old: Any, want: Any, generation: int, now: str) -> Any:
        made = former(old, want, generation, now)
        return made if old is None else attrs.evolve(made, last_transition_time=old.last_transition_time)

    replace(former, timed)


@defect("RES-4")
def overwrites_conditions_of_others() -> None:
    def changed(request: KubeRequest) -> KubeRequest:
        if (request.verb, request.kind, request.subresource) != (KubeVerb.APPLY, APPLICATION_INSTANCE, "status"):
            return request
        body: Any = {"status": get_path(request.body, "status")}
        params = {"fieldManager": request.params["fieldManager"]}
        return attrs.evolve(request, verb=KubeVerb.PATCH, patch_type=PatchType.MERGE, body=body, params=params)

    send(changed)


@defect("REC-5")
def takes_a_failure_for_progress() -> None:
    never(release_state._failed)
    never(release_state._stalled)


@defect("REC-5")
def does_not_tell_of_a_missing_chart() -> None:
    never(release_state._unreachable)


@defect("REC-5")
def tells_nothing_of_a_suspension() -> None:
    former = conditions._row
    replace(former, lambda *given: (wanted for wanted in former(*given) if wanted.type != "Suspended"))


@defect("RUN-11")
def adds_to_messages_of_any_size() -> None:
    replace(secret_material.safe, lambda message, *_: f"Flux: {message}")  # Flux itself cuts at what a condition holds


@defect("REC-11")
def tells_nothing_of_placeholders() -> None:
    replace(conditions.placeholder, lambda *_: ())


@defect("REC-8")
def keeps_a_conflict_to_itself() -> None:
    former = blocking_reasons.meaning

    def changed(failure: Any, **options: Any) -> Any:
        if isinstance(failure.error, Conflict):
            failure = attrs.evolve(failure, error=KindMissing("later"))
            found = former(failure, **options)
            return attrs.evolve(found, reason="MissingDependencies")
        return former(failure, **options)

    replace(former, changed)


@defect("RUN-5", "REC-1")
def posts_no_events() -> None:
    answered(lambda r: r.verb in (KubeVerb.CREATE, KubeVerb.PATCH) and r.kind == EVENT)


@defect("REC-14")
def ignores_a_missing_right() -> None:
    former = blocking_reasons.meaning

    def changed(failure: Any, **options: Any) -> Any:
        if type(failure.error).__name__ == "Forbidden":
            failure = attrs.evolve(failure, error=Conflict("busy", ()))
            return attrs.evolve(former(failure, **options), message="busy")
        return former(failure, **options)

    replace(former, changed)


@defect("REC-13")
def hides_why_a_write_failed() -> None:
    former = blocking_reasons._retried
    replace(former, lambda failure, _, *more: former(failure, "something went wrong", *more))


@defect("REC-13")
def waits_for_an_invalid_write_to_succeed() -> None:
    former = blocking_reasons.meaning

    def changed(failure: Any, **options: Any) -> Any:
        decided = former(failure, **options)
        return attrs.evolve(decided, stalled=False) if isinstance(decided, BlockingReason) else decided

    replace(former, changed)


# --- sources and releases --------------------------------------------------------------------------------------------


@defect("REC-3")
def changes_the_source_in_place() -> None:
    former = naming.names_of

    def changed(release: Any, *more: Any) -> Any:
        return attrs.evolve(former(release, *more), source=f"{release.name}-chart")

    replace(former, changed)


@defect("REC-14")
def never_prunes() -> None:
    replace(reconcile._prunes, lambda *_, **__: Decision())


@defect("REC-14")
def ignores_a_retry() -> None:
    replace(observed_release.token_of, lambda *_: "")


@defect("REC-4")
def takes_over_releases_of_others() -> None:
    never(blocking_reasons.name_blocking_reason)


@defect("REC-4", "RUN-12")
def lets_flux_use_its_own_rights() -> None:
    never(naming.unimpersonated)
    never(naming.release_account)


@defect("REC-4", "REC-8")
def takes_back_a_suspension() -> None:
    evolved(_child, force="true")
    body_of(KubeVerb.APPLY, HELM_RELEASE, lambda body: body["spec"].setdefault("suspend", False))


@defect("RES-7")
def passes_passwords_on() -> None:
    never(blocking_reasons._invalid)


@defect("RES-7")
def reads_values_of_tenants() -> None:
    former = HttpTransport.send

    async def changed(self: HttpTransport, request: KubeRequest) -> Any:
        sources: Any = get_path(request.body, "spec", "valuesFrom") or ()
        for source in sources:
            if source["kind"] == "Secret":
                await former(self, KubeRequest(KubeVerb.LIST, SECRET, request.namespace))
        return await former(self, request)

    setattr(HttpTransport, "send", changed)  # noqa: B010


@defect("RES-3")
def ignores_policy() -> None:
    never(blocking_reasons._policy)


# --- the process -----------------------------------------------------------------------------------------------------


@defect("RUN-2", "REC-13")
def retries_at_once_for_ever() -> None:
    setattr(Backoff, "delay", lambda self, attempt, jitter: 0.01)  # noqa: B010


@defect("REC-13", "REC-14", "RUN-2", "RUN-3")
def gives_up_after_a_refusal() -> None:
    former = RateLimiter.delay

    def delay(self: Any, key: Any, requeue: Any) -> float | None:
        return None if requeue.pace.name in ("BACKOFF", "SLOW", "REFUSED") else former(self, key, requeue)

    setattr(RateLimiter, "delay", delay)  # noqa: B010


@defect("REC-1")
def loses_deletions() -> None:
    former = HttpTransport.watch

    async def changed(self: HttpTransport, request: KubeRequest) -> Any:
        async for event in former(self, request):
            if event.type is not WatchEventType.DELETED or request.kind != HELM_RELEASE:
                yield event

    setattr(HttpTransport, "watch", changed)  # noqa: B010


@defect("RUN-1")
def watches_only_once() -> None:
    former = HttpTransport.watch
    begun: set[Kind] = set()

    async def changed(self: HttpTransport, request: KubeRequest) -> Any:
        if request.kind in begun:
            await anyio.sleep_forever()
        async for event in former(self, request):
            begun.add(request.kind)
            yield event

    setattr(HttpTransport, "watch", changed)  # noqa: B010


@defect("RUN-4")
def ends_with_an_error() -> None:
    former = process.run_process

    def changed(*given: Any) -> None:
        former(*given)
        sys.exit(3)

    replace(former, changed)


# --- Operations ------------------------------------------------------------------------------------------------------


@defect("OPS-1")
def makes_a_second_job_after_a_death() -> None:
    former, process = identity.name_of, uuid.uuid4().hex[:8]
    replace(former, lambda operation: f"{former(operation)}-{process}")


@defect("OPS-2")
def ignores_parameter_schemas() -> None:
    never(preconditions._parameters)


@defect("OPS-3")
def ignores_capabilities() -> None:
    never(preconditions._capability)


@defect("OPS-4")
def ignores_approvals() -> None:
    never(preconditions._approval)


@defect("OPS-5")
def runs_conflicting_operations() -> None:
    never(preconditions._conflict)


@defect("OPS-6")
def owns_no_engine_object() -> None:
    body_of(KubeVerb.CREATE, JOB, lambda body: body["metadata"].pop("ownerReferences", None))


@defect("OPS-7")
def backs_up_its_own_kinds() -> None:
    body_of(KubeVerb.CREATE, VELERO_BACKUP, lambda body: body["spec"].pop("excludedResources", None))


@defect("OPS-8")
def runs_privileged_jobs() -> None:
    def change(body: dict[str, Any]) -> None:
        pod = body["spec"]["template"]["spec"]
        pod.pop("securityContext", None)
        pod["containers"][0].pop("securityContext", None)

    body_of(KubeVerb.CREATE, JOB, change)


@defect("OPS-10")
def owns_what_holds_data() -> None:
    def change(body: dict[str, Any]) -> None:
        uid = body["metadata"]["labels"][labels.OPERATION_UID]
        owner = {"apiVersion": OPERATION.api_version, "kind": OPERATION.kind, "name": "snap", "uid": uid}
        body["metadata"]["ownerReferences"] = [owner]

    body_of(KubeVerb.CREATE, VOLUME_SNAPSHOT, change)


@defect("OPS-10")
def takes_no_snapshot() -> None:
    answered(lambda r: r.verb is KubeVerb.CREATE and r.kind == VOLUME_SNAPSHOT)


@defect("OPS-11", "OPS-12")
def lets_cancelled_jobs_run() -> None:
    answered(lambda r: r.verb is KubeVerb.DELETE and r.kind == JOB)


@defect("OPS-12")
def knows_no_deadline() -> None:
    replace(lifecycle.is_over, lambda *_: False)


# --- the agent -------------------------------------------------------------------------------------------------------


def _control(name: str, new: Callable[..., Awaitable[Any]]) -> None:
    setattr(HttpControlPlane, name, new)


async def _nothing(*_: Any) -> None:
    return None


@defect("PULL-1")
def acknowledges_nothing() -> None:
    _control("ack", _nothing)


@defect("PULL-1")
def applies_closed_jobs() -> None:
    former = HttpControlPlane.ack

    async def ack(self: HttpControlPlane, job_id: str) -> None:
        try:
            await former(self, job_id)
        except JobClosed:
            return

    _control("ack", ack)


@defect("PULL-1")
def acknowledges_late() -> None:
    former = HttpControlPlane.ack
    late: set[asyncio.Task[None]] = set()

    async def ack(self: HttpControlPlane, job_id: str) -> None:
        async def later() -> None:
            await anyio.sleep(2.0)
            await former(self, job_id)

        late.add(asyncio.create_task(later()))

    _control("ack", ack)


@defect("PULL-2", "PULL-3")
def reports_before_ready() -> None:
    former = awaiting_status._result
    replace(former, lambda *given: former(*given) or result.SUCCEEDED)


@defect("PULL-3", "PULL-4")
def answers_a_replay_as_new() -> None:
    replace(plan._is_replay, lambda *_: False)


@defect("PULL-3", "PULL-12")
def applies_expired_jobs() -> None:
    former = plan.SlotHolder
    replace(former, lambda task, key, generation, expired, intent: former(task, key, generation, False, intent))


@defect("PULL-12")
def goes_by_its_own_clock() -> None:
    never(failures.server_time)


@defect("PULL-4")
def lets_an_older_job_win() -> None:
    replace(plan._highest_generation, lambda *_: 0)


@defect("PULL-4")
def loses_acknowledged_jobs() -> None:
    answered(lambda r: r.writes and r.kind == SECRET and "job" in r.name)


@defect("PULL-5", "PULL-7")
def storms_an_absent_control_plane() -> None:
    setattr(Backoff, "full_jitter", lambda self, attempt, jitter: 0.01)  # noqa: B010


@defect("PULL-6")
def drops_events() -> None:
    _control("events", _nothing)


@defect("PULL-7", "PULL-3", "PULL-10")
def never_answers_failed() -> None:
    former = HttpControlPlane.result

    async def answer(self: HttpControlPlane, job_id: str, body: Mapping[str, Any]) -> None:
        if body["outcome"] != "failed":
            await former(self, job_id, body)

    _control("result", answer)


@defect("PULL-8")
def logs_its_token() -> None:
    from pathlib import Path

    print("token:", Path(sys.argv[sys.argv.index("--token-file") + 1]).read_text(), flush=True)


@defect("PULL-10")
def leaves_its_scope() -> None:
    never(scope.namespace_refusal)
    never(scope.may_touch)


def main() -> None:
    """Seed the defect that the first word names, and run the operator with the others."""
    DEFECTS[sys.argv[1]].seed()
    sys.exit(run_command(sys.argv[2:]))


if __name__ == "__main__":
    main()
