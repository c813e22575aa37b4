"""Checks of the clauses PULL, about the agent: its requests, outcomes of jobs, redelivery, outages and scope.

A clause is a numbered requirement of the specification, such as PULL-1. The agent pulls jobs from a control plane.
"""

import re
from datetime import timedelta
from typing import Any

import anyio

from kubelab.flux import Action, FluxOutcome, OutcomeKind, ReleaseRule
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, EVENT, HELM_RELEASE
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.objects import is_owned_by, shown
from purekube_run.examination.patience import no_wait
from purekube_run.examination.verdicts import NotTried, holds
from vworkspace_app.examination.case import CHECKS, InstanceCase
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_fake.controlplane import AgentCall, JobEntry, ScriptedFault

check = CHECKS.check
NEEDS = ("control-plane",)
PLAYED = (*NEEDS, "played-flux")


def _instance(c: InstanceCase, name: str = "shop") -> ObjectRef:
    return ObjectRef(APPLICATION_INSTANCE, c.namespace, name)


def _outcome(job: JobEntry) -> str:
    return str((job.result or {}).get("outcome"))


@check("PULL-1", "the agent polls, and acknowledges a job before anything is applied", needs=NEEDS)
async def ack_first(c: InstanceCase) -> None:
    acks_at_writes: list[int] = []

    def note(call: RecordedRequest) -> bool:
        if c.a_write(APPLICATION_INSTANCE, name="shop")(call):
            acks_at_writes.append(job.acks)
        return False

    with c.proxy.fault("writes noted", note):
        job = c.offer()
        await c.until("an ack", no_wait(lambda: job.acked_at is not None))
        await c.required("an instance of the job (PULL-2)", lambda: c.get(_instance(c)))
    if not acks_at_writes:
        raise NotTried("its stimulus did not come about: a write of the instance")
    holds(acks_at_writes[0], "the job was applied before its ack")


@check("PULL-1", "a job whose ack is answered 409 is not applied", needs=NEEDS)
async def closed_job(c: InstanceCase) -> None:
    job = c.offer()
    job.result = {"outcome": "failed"}  # another replica has answered it: the control plane refuses the ack
    c.offer(name="later")
    await c.required("an instance of a later job (PULL-2)", lambda: c.get(_instance(c, "later")))
    await anyio.sleep(c.quiet / 2)
    if not job.offers:
        raise NotTried("its stimulus did not come about: a poll for the job")
    live = await c.get(_instance(c))
    holds(live is None, "a job whose ack was answered 409 was applied", shown(live))


@check("PULL-2", "a job becomes a release, and its result comes after Ready", needs=PLAYED)
async def main_job(c: InstanceCase) -> None:
    c.flux.behave(install_seconds=1.5)
    job = c.offer()
    await c.acked(job)
    await c.release()
    holds(job.result is None, f"the result came before the release was installed: {job.result}")
    result = await c.result(job)
    live = await c.get(_instance(c))
    holds(result["outcome"] == "succeeded", f"the outcome is {result}", shown(live))
    holds(await c.is_ready(_instance(c)), "succeeded before the instance is Ready", shown(live))
    uid = get_path(live or {}, "metadata", "uid")
    holds(get_path(result, "appliedRef", "uid") == uid, f"appliedRef is {result.get('appliedRef')}")


@check("PULL-3", "a job whose release fails is failed, with the reason", needs=PLAYED)
async def failed_job(c: InstanceCase) -> None:
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "no such table"), action=Action.UPGRADE)
    c.flux.behave(release_rules=(rule,))
    await c.result(c.offer())
    result = await c.result(c.offer(2, "1.1.0"))
    holds(result["outcome"] == "failed", f"the outcome is {result}")
    error = str(result.get("error"))
    holds(re.match(r"[A-Z]\w+: .*no such table", error), f"the error is {error!r}, without a reason or Flux's message")


@check("PULL-3", "a job that had its effect before is a noop", needs=NEEDS)
async def noop(c: InstanceCase) -> None:
    first = c.offer()
    await c.result(first)
    again = c.offer(job_id=f"{c.namespace}-again")
    holds((await c.result(again))["outcome"] == "noop", f"the outcome is {again.result}")


@check("PULL-3", "a job that has expired is not applied", needs=NEEDS)
async def expired(c: InstanceCase) -> None:
    job = c.offer(expires_in=timedelta(minutes=-10))
    result = await c.result(job)
    holds(result["outcome"] in ("noop", "failed"), f"the outcome is {result}")
    holds(await c.get(_instance(c)) is None, "an expired job was applied")


@check("PULL-3", "a deletion succeeds when the object is gone, and not before", needs=PLAYED)
async def delete_job(c: InstanceCase) -> None:
    await c.result(c.offer())
    await c.release()
    c.flux.pause()
    job = c.offer(2, kind="delete")
    await c.acked(job)
    await anyio.sleep(c.quiet / 2)
    holds(job.result is None, f"a result while the release is still installed: {job.result}")
    c.flux.begin()
    result = await c.result(job)
    holds(result["outcome"] == "succeeded", f"the outcome is {result}")
    holds(await c.get(_instance(c)) is None, "succeeded, and the instance is still there")


@check("PULL-4", "a job that is offered again has one effect", needs=NEEDS)
async def redelivery(c: InstanceCase) -> None:
    job = c.offer()
    await c.result(job)
    live = await c.get(_instance(c)) or {}
    number = c.audit.number
    job.acked_at = job.offered_at = job.closed_at = job.result = None  # as after a restore of the control plane
    c.control.wake()
    await c.result(job)
    now = await c.get(_instance(c)) or {}
    holds(now.get("metadata", {}).get("uid") == live["metadata"]["uid"], "the instance was made again")
    holds(get_path(now, "metadata", "generation") == 1, "the spec was changed", shown(now))
    wrote = [call for call in c.child_writes(number) if call.succeeded]
    holds(not wrote, "the redelivery wrote the release", *wrote)


@check("PULL-4", "an older job does not overwrite a newer one", needs=NEEDS)
async def older_job(c: InstanceCase) -> None:
    await c.result(c.offer(2, "1.2.0"))
    older = c.offer(1, "1.1.0")
    result = await c.result(older)
    holds(result["outcome"] != "succeeded", f"the outcome is {result}")
    version = get_path(await c.get(_instance(c)) or {}, "spec", "chart", "version")
    holds(version == "1.2.0", f"the version is {version}")


@check("PULL-4", "an acknowledged job survives the death of the operator at each step", needs=NEEDS, alone=True)
async def deaths(c: InstanceCase) -> None:
    for turn, kind in enumerate((APPLICATION_INSTANCE, HELM_RELEASE)):
        plural = kind.plural
        name = f"shop-{turn}"
        where = c.a_write(kind)
        with c.proxy.fault(f"killed at a write of {plural}", where, kill=True, after=bool(turn), times=1) as fault:
            job = c.offer(name=name)
            await c.met(fault, f"a write of {plural}")
        await c.examination.start()
        result = await c.result(job)
        holds(result["outcome"] == "succeeded", f"after a death at {plural} the outcome is {result}", *fault.hits)
        holds(job.results_refused == 0, f"{job.results_refused} further results were sent")
        uid = str(get_path(await c.get(_instance(c, name)) or {}, "metadata", "uid"))
        own = [live for live in await c.objects(HELM_RELEASE) if is_owned_by(live, uid)]
        holds(len(own) == 1, f"{len(own)} HelmReleases of {name}")


@check(
    "PULL-5",
    "while the control plane is away reconciling continues, and results come afterwards",
    needs=NEEDS,
    alone=True,
)
async def outage(c: InstanceCase) -> None:
    c.flux.behave(install_seconds=1.0)
    job = c.offer()
    await c.acked(job)
    c.control.faults.outage(ScriptedFault(None, 503))
    try:
        ref = await c.instance("beside")
        await c.until("an instance that is applied meanwhile", lambda: c.is_ready(ref))
        asked = len(c.control.requests)
        await anyio.sleep(c.quiet)
        more = len(c.control.requests) - asked
        holds(more <= 6 + 4 * c.quiet, f"{more} requests in {c.quiet:g} s while nothing answers: no backoff")
    finally:
        c.control.faults.outage(None)
    await c.until("the result after the outage", no_wait(lambda: job.result), 70.0)


@check("PULL-6", "a change that belongs to no job is an event with a stable key", needs=NEEDS)
async def events(c: InstanceCase) -> None:
    ref = await c.managed()

    async def reported() -> Any:
        events = c.control.events_of(c.cluster_id)
        return [each for each in events if get_path(each, "resourceRef", "namespace") == ref.namespace]

    events: Any = await c.until("an event of the instance", reported)
    for field in ("kind", "eventKey", "timestamp", "resourceRef", "conditions"):
        holds(field in events[0], f"an event has no {field}: {sorted(events[0])}")


@check("PULL-7", "a job of an unknown kind is answered, and the next one is done", needs=NEEDS)
async def unknown_kind(c: InstanceCase) -> None:
    odd = c.offer(kind="explode", name="odd", payload={})
    job = c.offer()
    holds((await c.result(odd))["outcome"] == "failed", f"the outcome is {odd.result}")
    holds((await c.result(job))["outcome"] == "succeeded", f"the outcome is {job.result}")


@check("PULL-7", "an answer that is no JSON does not stop the agent", needs=NEEDS, alone=True)
async def bad_json(c: InstanceCase) -> None:
    html = ScriptedFault(AgentCall.FETCH, 200, body=b"<html>busy</html>", content_type="text/html")
    asked = len(c.control.requests)
    c.control.faults.inject(html)
    await c.result(c.offer())  # it ends the poll that waits: the next one is answered by HTML
    fetched = no_wait(lambda: any(call is AgentCall.FETCH for _, call in list(c.control.requests)[asked:]))
    await c.required("a poll that is answered by HTML", fetched)
    result = await c.result(c.offer(name="after"))
    holds(result["outcome"] == "succeeded", f"the outcome is {result}")


@check("PULL-8", "the token is in no log, status or Event", needs=NEEDS)
async def token(c: InstanceCase) -> None:
    await c.result(c.offer())
    token = str(c.examination.played["token"])
    for process in c.examination.processes:
        holds(token not in process.log.read_text(errors="replace"), f"the token is in {process.log.name}")
    wrote = [call for call in c.audit.where(lambda call: call.writes) if call.path.plural != "secrets"]
    leaking = [call for call in wrote if token in str(call.body)]
    holds(not leaking, "the token was written into an object", *leaking)
    holds(token not in str(await c.objects(EVENT)), "the token is in an Event")


@check("PULL-10", "a job for a namespace that is not managed is NotPermitted", needs=NEEDS)
async def scope(c: InstanceCase) -> None:
    other = f"{c.namespace}-open"
    await c.make_namespace(other, {})
    manifest = c.manifest()
    del manifest["metadata"]["labels"]
    manifest["metadata"]["namespace"] = manifest["spec"]["release"]["namespace"] = other
    job = c.offer(payload=manifest, idempotency_key=f"ApplicationInstance/{other}/shop@1")
    result = await c.result(job)
    holds(result["outcome"] == "failed" and "NotPermitted" in str(result.get("error")), f"the result is {result}")
    holds(not await c.objects(APPLICATION_INSTANCE, other), "the instance was made in a namespace that is not managed")


@check("PULL-10", "a job for a kind of others is refused", needs=NEEDS)
async def foreign_kind(c: InstanceCase) -> None:
    meta = {"name": "owned", "namespace": c.namespace}
    payload = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}
    job = c.offer(payload=payload, idempotency_key=f"ConfigMap/{c.namespace}/owned@1")
    result = await c.result(job)
    holds(result["outcome"] == "failed", f"the outcome is {result}")
    holds(await c.get(ObjectRef(CONFIG_MAP, c.namespace, "owned")) is None, "a ConfigMap was made by a job")


@check("PULL-12", "a job expires by the control plane's clock, which may be ahead or behind", needs=NEEDS, alone=True)
async def clock(c: InstanceCase) -> None:
    now, minutes = c.control.now, timedelta(minutes=5)
    try:
        c.control.now = lambda: now() + minutes
        expired = c.offer(expires_in=-minutes / 5)  # by the local clock it is good for four minutes
        result = await c.result(expired)
        holds(result["outcome"] in ("noop", "failed"), f"expired by a clock that is ahead: the outcome is {result}")
        holds(await c.get(_instance(c)) is None, "an expired job was applied")
        c.control.now = lambda: now() - minutes
        valid = c.offer(2, name="valid", expires_in=minutes / 5)  # by the local clock it expired four minutes ago
        result = await c.result(valid)
        holds(result["outcome"] == "succeeded", f"valid by a clock that is behind: the outcome is {result}")
    finally:
        c.control.now = now
