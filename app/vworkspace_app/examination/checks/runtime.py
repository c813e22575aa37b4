"""Checks of the clauses RUN, about the operator's process: watches, retries, replicas, shutdown and rights."""

from typing import Any

import anyio

from kubelab.flux import FluxOutcome, OutcomeKind, ReleaseRule
from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, LEASE
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.objects import shown
from purekube_run.examination.verdicts import NotTried, holds
from vworkspace_app.examination.case import CHECKS, FAILED, InstanceCase
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

check = CHECKS.check


@check("RUN-1", "after its watches broke the operator sees every edit", alone=True)
async def cut_watches(c: InstanceCase) -> None:
    ref = await c.managed()
    cut = c.proxy.cut_watches(lambda call: True)
    if not cut:
        raise NotTried("its stimulus did not come about: there was no watch to cut")
    await c.want(ref, "1.1.0")
    await c.until("an edit while the watches were cut", lambda: c.is_ready(ref), 2 * c.patience)


@check("RUN-1", "a watch that is answered 410 is listed again, and deletions are not missed", alone=True)
async def expired_watches(c: InstanceCase) -> None:
    ref = await c.managed()

    def where(call: RecordedRequest) -> bool:
        return call.verb == "watch" and call.is_of(APPLICATION_INSTANCE, HELM_RELEASE)

    with c.proxy.fault("410 for watches", where, status=410, message="too old resource version", times=2) as fault:
        c.proxy.cut_watches(where)

        await c.met(fault, "a watch that is opened again")
        await c.delete(ref)
    await c.gone(ref, "the deletion while the watch was expired", 2 * c.patience)


@check("RUN-2", "a failing object is tried again with growing pauses, and others are not kept waiting")
async def backoff(c: InstanceCase) -> None:
    where = c.a_write(HELM_RELEASE, name="bad")
    with c.proxy.fault("500 for one HelmRelease", where, status=500) as fault:
        await c.instance("bad")
        good = await c.instance("good")
        await c.until("an instance beside one that fails", lambda: c.is_ready(good))

        await c.met(fault, "a write of the failing one")
        await anyio.sleep(2 * c.quiet)
    tries, passed = len(fault.hits), c.audit.seconds - fault.hits[0].at
    holds(tries <= 4 + passed / 2, f"{tries} tries in {passed:.0f} s", *fault.hits[-3:])
    if tries < 3:
        raise NotTried(f"its stimulus did not come about: only {tries} tries")
    pause = (fault.hits[-1].at - fault.hits[0].at) / (tries - 1)
    holds(pause >= 0.5, f"the tries are {pause:.2f} s apart", *fault.hits[-3:])


@check("RUN-3", "a stale cache makes no second release and no write of the past", alone=True)
async def stale_cache(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.settled()
    before, number = c.proxy.events_held, c.audit.number
    with c.proxy.watches_held(lambda call: call.is_of(HELM_RELEASE)):
        await c.want(ref, "1.1.0")
        await c.released(lambda live: get_path(live, "metadata", "generation") != 1, "an upgraded HelmRelease")
        await anyio.sleep(c.quiet)
        if c.proxy.events_held == before:
            raise NotTried("its stimulus did not come about: an event of a HelmRelease")
        wrote = [call for call in c.child_writes(number) if call.is_of(HELM_RELEASE)]
        holds(len(wrote) <= 3, f"{len(wrote)} writes of a HelmRelease that the cache has not seen", *wrote[:4])
    await c.until("Ready once the cache is fresh", lambda: c.is_ready(ref))


@check("RUN-3", "an edit between reading and writing is not lost")
async def conflicting_edit(c: InstanceCase) -> None:
    status = c.a_write(APPLICATION_INSTANCE)
    with c.proxy.fault("delayed by a second", status, delay=1.0, times=3) as fault:
        ref = await c.instance()
        await c.met(fault, "a write of the instance")
        await c.want(ref, "", replicaCount=2)
        await c.until("Ready in spite of an edit under its writes", lambda: c.is_ready(ref))
    values = get_path(await c.release(), "spec", "values", "replicaCount")
    holds(values == 2, f"replicaCount of the release is {values}, not the 2 of the edit", *fault.hits)


@check("RUN-3", "a write of the instance that met a conflict is tried again")
async def conflicts(c: InstanceCase) -> None:
    with c.proxy.fault("409 for the instance", c.a_write(APPLICATION_INSTANCE), status=409, times=2) as fault:
        ref = await c.instance()
        await c.met(fault, "a write of the instance")
        await c.until("Ready in spite of two conflicts", lambda: c.is_ready(ref))


@check("RUN-4", "of two replicas only one writes, and a paused leader writes no more", needs=["replicas"], alone=True)
async def replicas(c: InstanceCase) -> None:
    c.examination.operator.kill()
    command = c.examination.played["replicas"]
    first = await c.examination.start(command)
    second = await c.examination.start(command)
    try:
        await c.managed()
        writers = {call.process for call in c.own_writes()}
        holds(len(writers) == 1, f"the replicas {sorted(writers)} both wrote", *c.own_writes()[:4])
        leader, standby = (first, second) if writers == {first.number} else (second, first)
        leader.pause()
        later = await c.instance("later")
        await c.until("the standby takes over", lambda: c.is_ready(later), 60.0)
        number = c.audit.number
        leader.resume()
        await c.want(later, "1.1.0")
        await c.until("the standby continues", lambda: c.is_ready(later))
        late = [call for call in c.own_writes(number) if call.process == leader.number and call.succeeded]
        holds(not late, "the former leader wrote after it had lost its Lease", *late)
        leases = [call for call in c.audit.where(lambda call: call.is_of(LEASE)) if call.process == standby.number]
        c.evidence += [str(call) for call in leases[-1:]]
    finally:
        first.kill()
        second.kill()
        await c.examination.start()


@check("RUN-4", "SIGTERM ends the process within its grace, with status 0", alone=True)
async def sigterm(c: InstanceCase) -> None:
    await c.managed()
    process = c.examination.operator
    status = await process.end(30.0)
    holds(status is not None, "still running 30 s after SIGTERM")
    holds(status == 0, f"the exit status is {status}")
    await c.examination.start()


@check("RUN-5", "a transition of Ready is reported by an Event of events.k8s.io")
async def events(c: InstanceCase) -> None:
    ref = await c.managed()
    events: Any = await c.until("an Event of the instance", lambda: c.events_about(ref))
    holds(all(event.get("reason") for event in events), "an Event has no reason")


@check("RUN-11", "a message of Flux of any size is cut, and stops nothing", needs=["played-flux"])
async def long_message(c: InstanceCase) -> None:
    long = FluxOutcome(OutcomeKind.FAIL, "\x1b[31mno\x00 " + "x" * 60_000)
    short = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "no"), release="short")
    c.flux.behave(release_rules=(short, ReleaseRule(long)))
    other = await c.instance("short")
    await c.required("a failure in few words (REC-5)", lambda: c.has_condition(other, "Ready", "False", *FAILED))
    ref = await c.instance()
    live = await c.condition(ref, "Ready", "False", *FAILED)
    longest = max((len(str(entry.get("message"))) for entry in conditions_by_type(live).values()), default=0)
    holds(100 < longest <= 32_768, f"a message of {longest} characters", shown(live))


@check("RUN-11", "an object that cannot be read leaves its neighbours alone")
async def unreadable_neighbour(c: InstanceCase) -> None:
    deep: Any = {"a": 1}
    for _ in range(60):
        deep = {"n": deep}
    odd = await c.refused_or(c.manifest("odd", values={"source": "inline", "inline": deep}))
    manifest = c.manifest("odder")
    manifest["metadata"]["annotations"] = {
        "vworkspace.io/applied-hash": "\u2028" * 900,
        "vworkspace.io/retry": "?" * 300,
    }
    odder = await c.refused_or(manifest)
    if odd is odder is None:
        raise NotTried("its stimulus did not come about: the API server refuses both odd objects")
    good = await c.instance()
    await c.until("an instance beside odd ones", lambda: c.is_ready(good))
    holds(c.examination.operator.status is None, "the process ended")


@check("RUN-12", "Flux never installs with its own rights, and no account of others is borrowed")
async def accounts(c: InstanceCase) -> None:
    release = {"name": "shop", "namespace": c.namespace, "serviceAccountName": "cluster-admin"}
    ref = await c.refused_or(c.manifest(release=release))
    await c.managed("proof")
    proof = await c.release("proof")
    holds(get_path(proof, "spec", "serviceAccountName"), "the release has no service account")
    await anyio.sleep(c.quiet / 2)
    live = await c.get(ObjectRef(HELM_RELEASE, c.namespace, "shop")) if ref else None
    account = get_path(live or {}, "spec", "serviceAccountName")
    holds(account != "cluster-admin", "an account that the settings do not allow was used")


@check("RUN-12", "an annotation of ours that a person wrote is not believed", needs=["control-plane"])
async def forged_annotation(c: InstanceCase) -> None:
    await c.result(c.offer())
    ref = ObjectRef(APPLICATION_INSTANCE, c.namespace, "shop")
    await c.edit(ref, {"metadata": {"annotations": {labels.LAST_APPLIED_GENERATION: "99"}}})
    result = await c.result(c.offer(2, "1.1.0"))
    believed = result["outcome"] == "noop" or "Superseded" in str(result.get("error"))
    holds(not believed, f"a job was answered {result} because of a forged annotation")
