"""Checks of the clauses RES, about the custom resources: fields, conditions, labels, the finalizer and secrets."""

from typing import Any

import anyio

from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, SECRET
from purekube.ports import Propagation
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.objects import (
    APART,
    FOREIGN_CONDITION,
    holds_form,
    holds_times,
    is_owned_by,
    shown,
)
from purekube_run.examination.verdicts import holds
from vworkspace_app.examination.case import CHECKS, CHILDREN, VERSION, InstanceCase
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import CLUSTER

check = CHECKS.check
PASSWORD = "examiner-Pa55word"


@check("RES-1", "the status of a Ready instance has the generation, the release and the chart")
async def status_fields(c: InstanceCase) -> None:
    ref = await c.managed()
    status: Any = (await c.ready(ref))["status"]
    expected = {
        "observedGeneration": 1,
        "helmReleaseRef.name": "shop",
        "lastAppliedChart.version": VERSION,
        "deployedChart.version": VERSION,
    }
    seen = {path: get_path(status, *path.split(".")) for path in expected}
    holds(seen == expected, f"expected {expected}, not {seen}", shown(await c.get(ref)))


@check("RES-1", "the reason and message of the status are those of the condition that decides")
async def reason_of_status(c: InstanceCase) -> None:
    ref = await c.managed()
    live = await c.ready(ref)
    reason = get_path(live, "status", "reason")
    holds(reason == conditions_by_type(live)["Ready"]["reason"], f"status.reason is {reason!r}", shown(live))


@check("RES-3", "a version that a Cluster object forbids is not installed", needs=["clusters"])
async def forbidden_version(c: InstanceCase) -> None:
    name, version = f"{c.namespace}-policy", "9.9.9"
    spec = {"clusterId": c.cluster_id, "policy": {"forbiddenVersions": [version]}}
    policy = await c.apply(CLUSTER.manifest(name, spec=spec), CLUSTER)
    c.examination.leavings.add(await c.api.get(policy), CLUSTER)
    try:
        first = await c.instance("first", chart=c.chart(version))
        # That shows that the operator has the policy in its cache; before, the first one may have been released.
        await c.seen(lambda: c.has_condition(first, "Blocked", "True", "PolicyDenied"))
        ref = await c.instance(chart=c.chart(version))
        await c.condition(ref, "Blocked", "True", "PolicyDenied")
        made = [call for call in c.child_writes() if call.name.startswith(ref.name)]
        holds(not made, "a release of the forbidden version was made", *made)
    finally:
        await c.delete(policy)


@check("RES-4", "lastTransitionTime moves when the status of a condition moves, and only then")
async def transition_times(c: InstanceCase) -> None:
    ref = await c.managed()
    await anyio.sleep(APART + 0.1)
    await c.want(ref, "1.1.0")
    await c.ready(ref)
    await anyio.sleep(APART + 0.1)
    await c.edit(ref, {"spec": {"suspend": True}})  # Ready stays, while the status is written
    await c.required("Suspended=True (REC-5)", lambda: c.has_condition(ref, "Suspended", "True"))
    holds_times([call for call in c.writes() if call.concerns(ref) and call.succeeded])


@check("RES-4", "every condition has a status, a reason in CamelCase, a message and a time; one of them is Ready")
async def form_of_conditions(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.settled()
    conditions = conditions_by_type(await c.ready(ref))
    holds_form(conditions)
    holds("Ready" in conditions, f"there is no condition Ready among {', '.join(conditions)}")


@check("RES-4", "a condition of another writer stays")
async def foreign_conditions(c: InstanceCase) -> None:
    ref = await c.managed()
    foreign = ref.kind.manifest(ref.name, ref.namespace, status={"conditions": [FOREIGN_CONDITION]})
    await c.api.apply_status(foreign, kind=ref.kind, field_manager="auditor")
    await c.want(ref, "1.1.0")
    live = await c.ready(ref)
    holds(FOREIGN_CONDITION["type"] in conditions_by_type(live), "the condition of another writer is gone", shown(live))


@check("RES-5", "an instance without the label managed-by is left alone")
async def unmanaged(c: InstanceCase) -> None:
    manifest = c.manifest("stranger")
    del manifest["metadata"]["labels"]
    ref = await c.have(manifest)
    await c.managed()  # the operator is at work
    await anyio.sleep(c.quiet)
    touched = [call for call in c.own_writes() if call.name == ref.name]
    holds(not touched, "an instance that is not for the operator was written, or released", *touched)


@check("RES-5", "an instance of another cluster is not released")
async def wrong_cluster(c: InstanceCase) -> None:
    manifest = c.manifest("stranger")
    manifest["metadata"]["labels"][labels.CLUSTER_ID] = "another-cluster"
    await c.have(manifest)
    await c.managed()
    await anyio.sleep(c.quiet)
    made = [call for call in c.child_writes() if call.name.startswith("stranger")]
    holds(not made, "the release of another cluster's instance was written", *made)


@check("RES-5", "nothing is made in a namespace that is not managed")
async def gate(c: InstanceCase) -> None:
    other = f"{c.namespace}-open"
    await c.make_namespace(other, {})
    manifest = c.manifest()
    manifest["metadata"]["namespace"] = manifest["spec"]["release"]["namespace"] = other
    await c.have(manifest)
    await c.managed()
    await anyio.sleep(c.quiet)
    wrote = [call for call in c.audit.where(lambda call: call.writes, c.since) if call.path.namespace == other]
    made = [call for call in wrote if call.is_of(*CHILDREN)]
    holds(not made, "the operator acted in a namespace without the label of the gate", *made)
    labelled = [call for call in c.audit.where(lambda call: call.writes) if call.path.plural == "namespaces"]
    holds(not labelled, "the operator wrote a namespace", *labelled)


@check("RES-5", "the finalizer is on the instance before its first child is made")
async def finalizer_first(c: InstanceCase) -> None:
    ref = await c.instance()
    await c.release()
    made = next(call for call in c.child_writes() if call.succeeded)

    def finalizers(call: RecordedRequest) -> Any:
        return get_path(call.answer, "metadata", "finalizers") or () if call.concerns(ref) and call.succeeded else ()

    added = next((call for call in c.writes() if labels.FINALIZER in finalizers(call)), None)
    holds(added is not None, f"the finalizer {labels.FINALIZER} is not on the instance", made)
    assert added is not None
    holds(added.number < made.number, "a child came before the finalizer", added, made)


@check("RES-5", "everything downstream has the labels of its instance, and its uid")
async def labels_downstream(c: InstanceCase) -> None:
    ref = await c.managed()
    uid = str(get_path(await c.get(ref), "metadata", "uid"))
    children = [*await c.objects(HELM_RELEASE), *await c.sources()]
    expected = {
        labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
        labels.CLUSTER_ID: c.cluster_id,
        labels.APPLICATION_INSTANCE: ref.name,
        labels.INSTANCE_UID: uid,
    }
    for live in children:
        has: Any = get_path(live, "metadata", "labels") or {}
        missing = {name: value for name, value in expected.items() if has.get(name) != value}
        holds(not missing, f"{live['kind']} {live['metadata']['name']} lacks labels {missing}")
        holds(is_owned_by(live, uid), f"{live['kind']} {live['metadata']['name']} has no owner reference")


@check("RES-5", "an abandoned instance goes, and its release stays without an owner", needs=["played-flux"])
async def abandon(c: InstanceCase) -> None:
    ref = await c.managed()
    c.flux.pause()
    await c.edit(ref, {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}})
    await c.delete(ref)
    await c.gone(ref, "the abandoned instance goes")
    live = await c.get(c.release_ref())
    holds(live is not None and not get_path(live, "metadata", "deletionTimestamp"), "the release was deleted")
    holds(not get_path(live or {}, "metadata", "ownerReferences"), "the release still has an owner reference")


@check("RES-6", "the API server refuses another release name by the CRD alone")
async def immutable(c: InstanceCase) -> None:
    ref = await c.managed()
    try:
        await c.edit(ref, {"spec": {"release": {"name": "other"}}})
    except Invalid as error:
        c.evidence.append(f"refused: {error.message}")
        return
    holds(False, "spec.release.name could be changed: the CRD that is served lacks the rule")


@check("RES-7", "inline values with a password are refused, and the password is repeated nowhere")
async def inline_secret(c: InstanceCase) -> None:
    values = {"source": "inline", "inline": {"database": {"password": PASSWORD}}}
    ref = await c.refused_or(c.manifest(values=values))
    if ref is None:
        return
    await c.managed("proof")
    await anyio.sleep(c.quiet)
    made = [call for call in c.child_writes() if call.is_of(HELM_RELEASE) and call.name == "shop"]
    holds(not made, "a release was made of values with a password", *made)
    live = await c.get(ref)
    holds(PASSWORD not in str(get_path(live or {}, "status")), "the password is in the status")
    holds(PASSWORD not in str(await c.objects(EVENT)), "the password is in an Event")
    holds(PASSWORD not in c.examination.operator.log.read_text(errors="replace"), "the password is in the log")


@check("RES-7", "a Secret with values is passed on by reference and not read")
async def values_secret(c: InstanceCase) -> None:
    text = {"values.yaml": f"password: {PASSWORD}"}
    await c.apply(SECRET.manifest("values", c.namespace, stringData=text), SECRET)
    await c.instance(values={"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}})
    release = await c.release()
    holds("values" in str(get_path(release, "spec", "valuesFrom")), "the HelmRelease has no valuesFrom")
    everywhere = list(c.audit.where(lambda call: call.is_of(SECRET) and not call.writes))
    own = c.examination.values.get("namespace")
    read = [
        call
        for call in everywhere
        if call.path.namespace in (None, c.namespace)
        and call.path.namespace != own
        and not call.query.get("labelSelector")
        and not call.reads_metadata_only
    ]
    holds(not read, "the operator reads Secrets of its tenants", *read[:3])


@check("REC-10", "an instance deleted with --cascade=orphan leaves its release")
async def orphan(c: InstanceCase) -> None:
    ref = await c.managed()
    await c.delete(ref, Propagation.ORPHAN)
    # What is left is the finalizer of the garbage collector.
    released = c.of(ref, lambda live: not live or get_path(live, "metadata", "finalizers") == ["orphan"])
    await c.until("the operator lets the orphaned instance go", released)
    live = await c.get(c.release_ref())
    holds(live is not None and not get_path(live, "metadata", "deletionTimestamp"), "the release was deleted")
