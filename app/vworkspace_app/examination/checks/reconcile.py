"""Checks of the clauses REC, about the reconciling of instances: chart sources, release, conflicts and deletion."""

from typing import Any

import anyio

from kubelab.flux import Action, FluxOutcome, OutcomeKind, ReleaseRule
from kubelab.flux.behaviour import SourceFault, SourceOutcome, SourceRule
from purekube.apimachinery.conditions import condition_of, conditions_by_type
from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE
from purekube_run.examination.objects import shown
from purekube_run.examination.verdicts import Broken, holds
from vworkspace_app.examination.case import CHECKS, FAILED, SOURCES, InstanceCase, is_ready_now
from vworkspace_core.api import labels

check = CHECKS.check
FAILS = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "the hook of the examiner failed"))


@check("REC-1", "an instance becomes Ready, and no Event reports the same twice")
async def converges(c: InstanceCase) -> None:
    ref = await c.instance()
    await c.condition(ref, "Ready", "True")
    await c.until("an Event of the instance", lambda: c.events_about(ref))
    await c.settled()
    reports = [f"{event.get('reason')}: {event.get('note')}" for event in await c.events_about(ref)]
    holds(len(reports) == len(set(reports)), "an Event repeats another", *reports)
    c.evidence += reports


@check("REC-1", "after a restart the operator continues from what is stored", alone=True)
async def restart(c: InstanceCase) -> None:
    ref = await c.managed()
    c.examination.operator.kill()
    await c.want(ref, "1.1.0")
    later = await c.instance("later")
    await c.examination.start()
    await c.until("an edit made while it was down", lambda: c.is_ready(ref))
    await c.until("an instance made while it was down", lambda: c.is_ready(later))


@check("REC-1", "a deleted HelmRelease is created again")
async def deleted_release(c: InstanceCase) -> None:
    await c.managed()
    former = get_path(await c.release(), "metadata", "uid")
    await c.delete(c.release_ref())
    again = c.of(c.release_ref(), lambda live: get_path(live, "metadata", "uid") not in (None, former))
    await c.until("another HelmRelease", again)


@check("REC-2", "equal instances in two namespaces have equal releases")
async def equal_releases(c: InstanceCase) -> None:
    other = f"{c.namespace}-twin"
    await c.make_namespace(other, c.labels)
    await c.instance()
    twin = c.manifest()
    twin["metadata"]["namespace"] = twin["spec"]["release"]["namespace"] = other
    await c.have(twin)
    first = await c.release()
    second = await c.required("the second release", lambda: c.get(ObjectRef(HELM_RELEASE, other, "shop")))
    specs = [canonical_json(live["spec"]).decode().replace(other, c.namespace) for live in (first, second)]
    holds(specs[0] == specs[1], "two equal instances have different releases", *specs)


@check("REC-3", "a source does not change: a new version is a new source")
async def source_is_immutable(c: InstanceCase) -> None:
    ref = await c.managed()
    former = {live["metadata"]["name"] for live in await c.sources()}
    await c.want(ref, "1.1.0")
    await c.ready(ref)
    changed = [
        call
        for call in c.child_writes()
        if call.is_of(*SOURCES)
        and call.succeeded
        and call.verb != "delete"
        and int(get_path(call.answer, "metadata", "generation") or 1) > 1
    ]
    holds(not changed, "the operator changed a source in place", *changed)
    now = {live["metadata"]["name"] for live in await c.sources()}
    holds(now - former, f"there is no new source: {sorted(now)}")


@check("REC-3", "a new chart and new values reach the release in one write")
async def one_switch(c: InstanceCase) -> None:
    ref = await c.managed()
    number = c.audit.number
    former = await c.release()
    await c.want(ref, "1.1.0", replicaCount=2)
    await c.ready(ref)
    pairs = set()
    for call in c.child_writes(number):
        if call.is_of(HELM_RELEASE) and call.succeeded and call.answer:
            new_chart = _chart_of(call.answer) != _chart_of(former)
            pairs.add((new_chart, get_path(call.answer, "spec", "values", "replicaCount")))
    holds(not pairs & {(True, 1), (False, 2)}, f"chart and values changed apart: {sorted(map(str, pairs))}")
    holds(
        (True, 2) in pairs, "no write of the HelmRelease has the new chart and the new values", *c.child_writes(number)
    )


def _chart_of(release: Manifest) -> Any:
    return get_path(release, "spec", "chartRef") or get_path(release, "spec", "chart")


@check("REC-4", "the release has the instance's release name, its values, and a controller")
async def release(c: InstanceCase) -> None:
    ref = await c.instance()
    live = await c.release()
    owner = get_path(await c.get(ref) or {}, "metadata", "uid")
    owners: Any = get_path(live, "metadata", "ownerReferences") or ()
    holds(any(each.get("uid") == owner and each.get("controller") for each in owners), "it has no controller reference")
    holds(get_path(live, "spec", "values", "replicaCount") == 1, "the values of the instance are not in the release")
    holds(get_path(live, "spec", "serviceAccountName"), "Flux installs the release with its own rights")


@check("REC-4", "a suspension of the release by hand stays")
async def suspended_by_hand(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.edit(c.release_ref(), {"spec": {"suspend": True}}, manager="flux")
    await c.want(ref, "", replicaCount=3)
    await c.released(lambda live: get_path(live, "spec", "values", "replicaCount") == 3, "the edited values")
    live = await c.release()
    holds(get_path(live, "spec", "suspend") is True, "the operator took back a suspension by hand")


@check("REC-4", "an unrelated HelmRelease of that name is not taken over")
async def name_taken(c: InstanceCase) -> None:
    spec = {"interval": "5m", "chart": {"spec": {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}}}
    theirs = HELM_RELEASE.manifest("shop", c.namespace, spec={**spec, "suspend": True})
    await c.apply(theirs, HELM_RELEASE, "another-team")
    ref = await c.instance()
    await c.condition(ref, "Blocked", "True", "NameTaken")
    wrote = [call for call in c.writes() if call.concerns(c.release_ref()) and call.succeeded]
    holds(not wrote, "the operator wrote a HelmRelease of others", *wrote)


@check("REC-5", "an install that fails is Ready=False, with Flux's message", needs=["played-flux"])
async def failed_install(c: InstanceCase) -> None:
    c.flux.behave(release_rules=(FAILS,))
    ref = await c.instance()
    live = await c.condition(ref, "Ready", "False", *FAILED)
    message = str(conditions_by_type(live)["Ready"].get("message")) + str(get_path(live, "status", "message"))
    holds("the hook of the examiner" in message, f"Flux's message is missing: {message!r}")


@check("REC-5", "an upgrade that fails and is rolled back is not Ready at its generation", needs=["played-flux"])
async def failed_upgrade(c: InstanceCase) -> None:
    ref = await c.managed()
    c.flux.behave(release_rules=(ReleaseRule(FAILS.outcome, action=Action.UPGRADE, version="1.1.0"),))
    generation = await c.want(ref, "1.1.0")
    live = await c.condition(ref, "Ready", "False", *FAILED)
    observed = conditions_by_type(live)["Ready"].get("observedGeneration", generation)
    holds(observed == generation, f"Ready is of generation {observed}", shown(live))


@check("REC-5", "a chart that cannot be had is Ready=False/ChartUnreachable", needs=["played-flux"])
async def chart_unreachable(c: InstanceCase) -> None:
    c.flux.behave(source_rules=(SourceRule(SourceOutcome(SourceFault.NOT_FOUND)),))
    ref = await c.instance()
    await c.condition(ref, "Ready", "False", "ChartUnreachable")


@check("REC-5", "an instance whose release is suspended is Suspended, and Ready stays")
async def suspended(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.edit(c.release_ref(), {"spec": {"suspend": True}}, manager="flux")
    live = await c.condition(ref, "Suspended", "True")
    holds(is_ready_now(live), "Ready went with the suspension", shown(live))


@check("REC-5", "while Flux installs, Ready is not True and Reconciling is", needs=["played-flux"])
async def installing(c: InstanceCase) -> None:
    c.flux.behave(install_seconds=600.0)
    ref = await c.instance()
    live = await c.condition(ref, "Reconciling", "True")
    holds(condition_of(live, "Ready").get("status") != "True", "Ready before Flux confirmed", shown(live))


@check("REC-5", "a Ready release does not flap while Flux reconciles it again")
async def no_flapping(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.settled()
    number = c.audit.number
    await c.edit(c.release_ref(), {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}})
    await c.released(lambda live: get_path(live, "status", "lastHandledReconcileAt") == "now", "another pass of Flux")
    await anyio.sleep(c.quiet)
    lost = [
        call
        for call in c.writes(number)
        if call.concerns(ref) and conditions_by_type(call.answer).get("Ready", {"status": "True"})["status"] != "True"
    ]
    holds(not lost, "Ready was taken back while Flux looked again", *lost)


@check("REC-6", "every write of a child has one field manager")
async def one_manager(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.want(ref, "1.1.0")
    await c.ready(ref)
    managers = {call.manager for call in c.child_writes() if call.verb != "delete" and call.succeeded}
    holds(len(managers) == 1, f"the field managers are {sorted(managers)}")


@check("REC-6", "a pass over an unchanged instance writes nothing")
async def silence(c: InstanceCase) -> None:
    ref = await c.managed()
    number = await c.settled()
    for turn in range(3):
        await c.edit(ref, {"metadata": {"annotations": {"example.com/touched": str(turn)}}})
        await anyio.sleep(c.quiet / 3)
    await anyio.sleep(c.quiet / 2)
    wrote = c.writes(number)
    holds(not wrote, f"{len(wrote)} writes after nothing that matters had changed", *wrote[:4])


@check("REC-6", "a restart writes nothing", alone=True)
async def silence_after_restart(c: InstanceCase) -> None:
    await c.managed()
    await c.settled()
    number = c.audit.number
    await c.examination.restart()
    await c.at_work()
    await anyio.sleep(c.quiet)
    wrote = c.own_writes(number)
    holds(not wrote, f"{len(wrote)} writes after a restart", *wrote[:4])


@check("REC-7", "Ready=True waits for Flux to confirm this generation", needs=["played-flux"])
async def generation_gate(c: InstanceCase) -> None:
    ref = await c.managed()
    c.flux.pause()
    generation = await c.want(ref, "1.1.0")

    async def is_upgraded() -> bool:
        """Report whether the operator has edited the HelmRelease, or its chart source in place."""
        edited = [*await c.objects(HELM_RELEASE), *await c.sources()]
        return any(get_path(live, "metadata", "generation") != 1 for live in edited)

    await c.required("an upgraded HelmRelease", is_upgraded)
    await anyio.sleep(c.quiet)
    live = await c.get(ref)
    ready = condition_of(live, "Ready")
    observed = ready.get("observedGeneration") or get_path(live or {}, "status", "observedGeneration")
    early = ready.get("status") == "True" and observed == generation
    wrote = [call for call in c.writes() if call.concerns(ref, "status")][-1:]
    holds(not early, f"Ready=True for generation {generation} while Flux has not looked at it", shown(live), *wrote)


@check("REC-7", "observedGeneration does not go back")
async def observed_generation(c: InstanceCase) -> None:
    ref = await c.managed()
    for version in ("1.1.0", "1.2.0"):
        await c.want(ref, version)
        await c.ready(ref)
    seen = [
        int(get_path(call.answer, "status", "observedGeneration") or 0)
        for call in c.writes()
        if call.concerns(ref) and call.succeeded and get_path(call.answer or {}, "status", "observedGeneration")
    ]
    holds(seen == sorted(seen), f"observedGeneration went {seen}")
    holds(max(seen, default=0) == 3, f"the last observedGeneration is {max(seen, default=0)}, not 3")


async def _take(c: InstanceCase, replicas: int | None) -> None:
    """Apply `spec.values.replicaCount` to the HelmRelease, as a user does who wants to own that field.

    If `replicas` is None, apply without the field, so that the user no longer owns it.
    """
    spec: Any = {} if replicas is None else {"values": {"replicaCount": replicas}}
    await c.apply(HELM_RELEASE.manifest("shop", c.namespace, spec=spec), HELM_RELEASE, "person")


@check("REC-8", "a field of another manager is not taken by force, and Blocked names that manager")
async def conflict(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.settled()
    number = c.audit.number
    await _take(c, 7)
    await c.want(ref, "", replicaCount=2)
    live = await c.condition(ref, "Blocked", "True", "FieldConflict")
    holds("person" in str(conditions_by_type(live)["Blocked"]), "Blocked does not name the other manager", shown(live))
    release = await c.release()
    held = get_path(release, "spec", "values", "replicaCount")
    forced = [call for call in c.child_writes(number) if call.forces and call.succeeded and call.is_of(HELM_RELEASE)]
    holds(held == 7, f"the field is {held}, not the person's 7", *forced)


@check("REC-8", "the conflict ends when the other manager lets go")
async def conflict_ends(c: InstanceCase) -> None:
    ref = await c.managed()
    await _take(c, 7)
    await c.want(ref, "", replicaCount=2)
    blocked = c.of(ref, lambda live: condition_of(live, "Blocked").get("reason") == "FieldConflict")
    await c.required("Blocked/FieldConflict (REC-8)", blocked)
    await _take(c, None)
    applied = c.of(c.release_ref(), lambda live: get_path(live, "spec", "values", "replicaCount") == 2)
    await c.until("the value of the instance in the release", applied)


@check("REC-9", "labels and annotations of others on the release stay")
async def foreign_metadata(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.edit(c.release_ref(), {"metadata": {"annotations": {"example.com/note": "mine"}}})
    await c.want(ref, "1.1.0")
    await c.ready(ref)
    note = get_path(await c.release(), "metadata", "annotations", "example.com/note")
    holds(note == "mine", "the annotation of a person on the HelmRelease is gone")


@check("REC-9", "an instance has one HelmRelease")
async def one_release(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.want(ref, "1.1.0")
    await c.ready(ref)
    names = [live["metadata"]["name"] for live in await c.objects(HELM_RELEASE)]
    holds(names == ["shop"], f"the HelmReleases are {names}")


@check("REC-10", "deletion removes the release by its uid, then the source, then the finalizer")
async def deletion(c: InstanceCase) -> None:
    ref = await c.managed()
    number = c.audit.number
    await c.delete(ref)
    await c.gone(ref, "the instance goes")
    deletes = [call for call in c.child_writes(number) if call.verb == "delete"]
    release = [call for call in deletes if call.is_of(HELM_RELEASE)]
    sources = [call for call in deletes if call.is_of(*SOURCES)]
    holds(release, "the operator left the release to the garbage collector, and let go of the instance before")
    without = [call for call in release if not get_path(call.body or {}, "preconditions", "uid")]
    holds(not without, "a release was deleted by name, without its uid", *without)
    holds(
        all(call.number > release[0].number for call in sources), "a source went before the release", *sources, *release
    )


@check("REC-10", "an instance that is deleted stays until Flux has uninstalled", needs=["played-flux"])
async def deletion_waits(c: InstanceCase) -> None:
    ref = await c.managed()
    c.flux.pause()
    await c.delete(ref)
    await anyio.sleep(c.quiet)
    live = await c.get(ref)
    holds(live is not None, "the instance went while its release was still installed")
    holds(await c.get(c.release_ref()) is not None, "the HelmRelease went without Flux")
    await c.condition(ref, "Deleting", "True")
    c.flux.begin()
    await c.gone(ref, "the instance goes after the uninstall")


@check("REC-10", "a deletion survives the death of the operator at each of its writes", alone=True)
async def deletion_survives(c: InstanceCase) -> None:
    for turn, after in enumerate((True, False)):
        name, point = f"shop-{turn}", f"{'after' if after else 'before'} the release was deleted"
        ref = await c.managed(name)
        with c.proxy.fault(
            f"killed {point}", c.a_write(HELM_RELEASE, verb="delete"), kill=True, after=after, times=1
        ) as fault:
            await c.delete(ref)
            await c.met(fault, "a delete of the release")
        await c.examination.start()
        await c.gone(ref, f"the instance goes after a death {point}")
        left = [live["metadata"]["name"] for live in await c.objects(HELM_RELEASE)]
        holds(not left, f"left after the deletion: {left}", *fault.hits)


@check("REC-11", "a placeholder is Ready and has no release")
async def placeholder(c: InstanceCase) -> None:
    ref = await c.instance(mode="placeholder", chart=None, release=None, values=None)
    await c.condition(ref, "Ready", "True", "Placeholder")
    await anyio.sleep(c.quiet / 2)
    holds(not c.child_writes(), "a placeholder has children", *c.child_writes())


@check(
    "REC-12", "without Flux's CRDs the instance is Blocked, and becomes Ready with them", needs=["embedded"], alone=True
)
async def missing_flux(c: InstanceCase) -> None:
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, HELM_RELEASE.crd_name)
    crd = await c.api.get(definition)
    for live in await c.objects(HELM_RELEASE):
        raise Broken(f"left over: {live['metadata']['name']}")
    await c.api.delete(definition)
    try:
        ref = await c.instance()
        live = await c.condition(ref, "Blocked", "True", "MissingDependencies")
        text = str(conditions_by_type(live)["Blocked"].get("message"))
        holds(HELM_RELEASE.kind in text or HELM_RELEASE.crd_name in text, f"what is missing is not named: {text!r}")
    finally:
        await c.api.create(_fresh(crd), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="flux-installer")
    await c.until("Ready once Flux is there", lambda: c.is_ready(ref), 3 * c.patience)


def _fresh(live: Manifest) -> Manifest:
    meta = {"name": live["metadata"]["name"], "labels": live["metadata"].get("labels", {})}
    return {**live, "metadata": meta, "status": {}}


@check("REC-13", "a refused write is named in a condition, tried again with growing pauses, and succeeds in the end")
async def refused_write(c: InstanceCase) -> None:
    where, why = c.a_write(HELM_RELEASE), "the examiner's etcd is full"
    with c.proxy.fault("500 for HelmReleases", where, status=500, message=why) as fault:
        ref = await c.instance()
        await c.met(fault, "a write of a HelmRelease")
        live = await c.explained(ref, "HelmRelease", "shop", why)
        await anyio.sleep(c.quiet)
        holds(len(fault.hits) <= 2 + 2 * c.quiet, f"{len(fault.hits)} tries in {c.quiet:g} s", *fault.hits[-2:])
        ready = condition_of(live, "Ready")
        holds(ready.get("status") != "True", "Ready although nothing could be applied", shown(live))
    await c.until("Ready after the API server recovered", lambda: c.is_ready(ref), 2 * c.patience)


@check("REC-13", "a write that the API server calls invalid is named in a condition, and not tried in a storm")
async def invalid_write(c: InstanceCase) -> None:
    where, why = c.a_write(HELM_RELEASE), "spec.x: Invalid value"
    with c.proxy.fault("422 for HelmReleases", where, status=422, message=why) as fault:
        ref = await c.instance()
        await c.met(fault, "a write of a HelmRelease")
        await c.explained(ref, "shop", why)
        await anyio.sleep(c.quiet)
        holds(len(fault.hits) <= 2 + 2 * c.quiet, f"{len(fault.hits)} tries of what is invalid", *fault.hits[-2:])
        live = await c.get(ref)
        holds(condition_of(live, "Ready").get("status") != "True", "Ready without a release", shown(live))
        stalled = await c.seen(lambda: c.has_condition(ref, "Stalled", "True"))
        holds(stalled, "only a change of the spec can help, and Stalled is not True", shown(await c.get(ref)))


@check("REC-14", "a missing right is named with verb, resource and namespace, and is used as soon as it is granted")
async def missing_right(c: InstanceCase) -> None:
    group = HELM_RELEASE.group
    text = f'helmreleases.{group} "shop" is forbidden: User "operator" cannot patch resource "helmreleases" in \
API group "{group}" in the namespace "{c.namespace}"'
    where = c.a_write(HELM_RELEASE)
    with c.proxy.fault("403 for HelmReleases", where, status=403, message=text) as fault:
        ref = await c.instance()
        await c.met(fault, "a write of a HelmRelease")
        await c.explained(ref, "patch", "helmreleases", c.namespace)
    await c.until("Ready once the right is there", lambda: c.is_ready(ref), 2 * c.patience)


@check("REC-14", "the old source goes after the new one is in use")
async def prune(c: InstanceCase) -> None:
    ref = await c.managed()
    former = {live["metadata"]["name"] for live in await c.sources()}
    await c.want(ref, "1.1.0")
    await c.ready(ref)

    async def has_another() -> bool:
        return any(live["metadata"]["name"] not in former for live in await c.sources())

    async def pruned() -> bool:
        return not former & {live["metadata"]["name"] for live in await c.sources()}

    await c.required("a new source (REC-3)", has_another)
    await c.until("the old source goes", pruned)
    deletes = [call for call in c.child_writes() if call.verb == "delete" and call.is_of(*SOURCES)]
    switch = [call for call in c.child_writes() if call.is_of(HELM_RELEASE) and call.succeeded][-1:]
    holds(deletes and deletes[0].number > switch[0].number, "the source went before the switch", *deletes, *switch)


@check("REC-14", "a retry asks Flux for another attempt", needs=["played-flux"])
async def retry(c: InstanceCase) -> None:
    c.flux.behave(release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "once", times=4)),))
    ref = await c.instance()
    await c.released(lambda live: condition_of(live, "Ready").get("status") == "False", "a failed HelmRelease")
    await c.seen(lambda: c.has_condition(ref, "Ready", "False", *FAILED))
    await c.edit(ref, {"metadata": {"annotations": {labels.RETRY: "again-1"}}})
    asked = "metadata", "annotations", "reconcile.fluxcd.io/requestedAt"
    await c.until("requestedAt on the HelmRelease", c.of(c.release_ref(), lambda live: get_path(live, *asked)))
