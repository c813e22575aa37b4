"""Why the pods of a Job do not run, how a Job that is gone has ended, and what the end names (OPS-8; D7, D20, L1)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.resources import CORE_EVENT, JOB, POD
from purekube.controller.decision import Decision, Failure
from purekube.ports import KubeApi, KubeRequest, KubeVerb, WatchEvent
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    at,
    conditions_of,
    message_of,
    observed,
    operation,
    operation_manifest,
    started,
)
from tests.support.strategies import json_values
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.context import observe_operation_live
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.pods import account_problem
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation

JOB_UID = "uid-1"


def run(of: str = "runCommand.job") -> tuple[Operation, ObjectRef, Manifest]:
    one, made = started(of)
    assert made is not None
    meta = {**made.manifest["metadata"], "uid": JOB_UID, "resourceVersion": "7"}
    return one, made.ref, {**made.manifest, "metadata": meta}


def event(reason: str, message: str, *, uid: str = JOB_UID, when: str = "2026-06-01T12:00:00Z", name: str = "e") -> Any:
    body = {"involvedObject": {"uid": uid}, "reason": reason, "message": message, "lastTimestamp": when}
    return ObjectRef(CORE_EVENT, NS, name), {"metadata": {"name": name, "namespace": NS}, **body}


def pod(status: Mapping[str, Any], *, uid: str = JOB_UID) -> Any:
    meta = {"name": "op-1-x", "namespace": NS, "ownerReferences": [{"uid": uid}]}
    return ObjectRef(POD, NS, "op-1-x"), {"metadata": meta, "status": status}


def waiting(reason: str, message: str = "told") -> Any:
    return pod({"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]})


def decided(status: Mapping[str, Any], *beside: Any, seconds: float = 0.0, gone: bool = False) -> Decision:
    one, ref, live = run()
    objects = {} if gone else {ref: {**live, "status": dict(status)}}
    return reconcile_operation(one, observed(objects={**objects, **dict(beside)}), at(seconds))


FORBIDDEN = 'Error creating: pods "op-1-" is forbidden: '
REFUSALS = [
    (f'{FORBIDDEN}error looking up service account {NS}/r: serviceaccount "r" not found', "JobServiceAccountMissing"),
    (f"{FORBIDDEN}exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5", "JobQuotaExceeded"),
    (f"{FORBIDDEN}failed quota: small: must specify limits.cpu for: run", "JobQuotaExceeded"),
    (f'{FORBIDDEN}violates PodSecurity "restricted:latest": runAsNonRoot != true', "JobPodSecurityDenied"),
    ('Error creating: admission webhook "policy.example" denied the request: no', "JobAdmissionDenied"),
    ("Error creating: Internal error occurred", "JobPodNotCreated"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSALS, ids=[f"{i}-{one[1]}" for i, one in enumerate(REFUSALS)])
def test_a_pod_that_is_refused_is_told_by_its_own_reason(text: str, reason: str) -> None:
    decision = decided({"startTime": "2026-06-01T12:00:00Z"}, event("FailedCreate", text))

    assert conditions_of(decision)["Running"] == ("True", reason)
    assert text in message_of(decision, "Running")
    if reason == "JobServiceAccountMissing":
        command = f"vworkspace-operator manifests --rbac-only --namespace {NS} --account vworkspace-operation-runner |"
        assert command in message_of(decision, "Running")


WAITING = {
    "ErrImagePull": "JobImagePullFailed",
    "ImagePullBackOff": "JobImagePullFailed",
    "InvalidImageName": "JobImagePullFailed",
    "CreateContainerConfigError": "JobContainerNotStarted",
    "CreateContainerError": "JobContainerNotStarted",
    "ContainerCreating": "JobPodActive",
    "PodInitializing": "JobPodActive",
}


@pytest.mark.parametrize(("why", "reason"), WAITING.items())
def test_a_pod_that_cannot_start_is_told_by_its_own_reason(why: str, reason: str) -> None:
    decision = decided({"active": 1}, waiting(why, "image would run as root"))

    assert conditions_of(decision)["Running"] == ("True", reason)
    assert ("image would run as root" in message_of(decision, "Running")) == (reason != "JobPodActive")


def test_a_pod_that_no_node_takes_is_told() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    decision = decided({"active": 1}, pod({"conditions": [unschedulable]}))

    assert conditions_of(decision)["Running"] == ("True", "JobPodUnschedulable")
    assert "0/3 nodes are available" in message_of(decision, "Running")


def test_only_what_is_of_this_job_and_of_now_counts() -> None:
    of_another = [
        event("FailedCreate", "exceeded quota", uid="another"),
        pod(waiting("ErrImagePull")[1]["status"], uid="x"),
    ]
    assert conditions_of(decided({}, *of_another))["Running"] == ("True", "JobPending")
    old = event("FailedCreate", "exceeded quota")
    assert conditions_of(decided({"active": 1}, old))["Running"] == ("True", "JobPodActive")
    newest = event("FailedCreate", "violates PodSecurity", when="2026-06-01T13:00:00Z", name="f")
    assert conditions_of(decided({}, newest, old))["Running"] == ("True", "JobPodSecurityDenied")


@given(json_values(8), json_values(8))
def test_no_pod_or_event_whatever_stops_a_decision_RUN_11(status: Any, body: Any) -> None:
    about = {"involvedObject": {"uid": JOB_UID}, "reason": "FailedCreate"}
    odd = (ObjectRef(CORE_EVENT, NS, "odd"), {**about, "message": body, "lastTimestamp": body, "metadata": body})
    lists = {"containerStatuses": status, "conditions": status, "initContainerStatuses": status}
    decided({}, odd, pod(lists if isinstance(status, list) else {"conditions": [status]}))


@pytest.mark.parametrize("of", ["runCommand.job", "migration.helmHookJob"])
def test_the_reason_is_looked_for_while_no_pod_is_ready_and_no_longer(of: str) -> None:
    one, ref, live = run(of)
    engine = ENGINES[one.spec.engine]
    for status, looks in (({}, True), ({"active": 1}, True), ({"active": 1, "ready": 1}, False)):
        objects = {ref: {**live, "status": status}}
        asked = engine.diagnostics(one, objects)
        assert {listing.kind for listing in asked} == ({POD, CORE_EVENT} if looks else set())
        assert needs_live_view(one, observed(of, objects=objects), CONTEXT) == looks
        after = reconcile_operation(one, observed(of, objects=objects), CONTEXT).requeue.after
        assert (after == 15) == looks


def test_a_role_of_before_that_may_not_list_them_stops_nothing() -> None:
    one, ref, live = run()

    class Strict:
        async def send(self, request: KubeRequest) -> Manifest:
            if request.verb is KubeVerb.GET:
                found = {**observed().objects, ref: live}
                return found.get(request.ref) or {"metadata": {"name": request.name}}
            if request.kind in (POD, CORE_EVENT):
                raise Forbidden("may not list")
            return {"items": [], "metadata": {"resourceVersion": "1"}}

        def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
            raise AssertionError("a pass opens no watch")

    coroutine = observe_operation_live(KubeApi(Strict()), one, CONTEXT)
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert ref in stopped.value.value.objects


# --- the end names the cause ------------------------------------------------------------------------------------------


def test_the_end_by_the_deadline_names_what_kept_the_pods_from_starting() -> None:
    decision = decided({}, event("FailedCreate", REFUSALS[0][0]), seconds=7200)

    assert conditions_of(decision)["Failed"] == ("True", "Timeout")
    assert "last seen: JobServiceAccountMissing (Error creating: pods" in message_of(decision, "Failed")


def test_a_job_that_ran_out_of_its_own_time_names_it_too() -> None:
    one, ref, live = run()
    waits = decided({"active": 1}, waiting("ImagePullBackOff", "not found"))
    assert waits.status is not None
    before = attrs.evolve(one, status=attrs.evolve(one.status, conditions=_conditions(waits)))
    ended = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}]}

    decision = reconcile_operation(before, observed(objects={ref: {**live, "status": ended}}), CONTEXT)

    assert conditions_of(decision)["Failed"] == ("True", "DeadlineExceeded")
    assert message_of(decision, "Failed") == (
        "too long; before: JobImagePullFailed (pod op-1-x: ImagePullBackOff: not found)"
    )


def _conditions(decision: Decision) -> Any:
    assert decision.status is not None
    return operation_with(decision.status["status"]).status.conditions


def operation_with(status: Mapping[str, Any]) -> Operation:
    return read_operation({**operation_manifest(), "status": dict(status)})


def test_what_refused_the_object_is_named_at_the_end() -> None:
    """A webhook, a missing Role: told while it is tried, and by the end as well."""
    one, ref, _ = run()
    known = one.status.engine_ref
    assert known is not None
    intent = attrs.evolve(one, status=attrs.evolve(one.status, engine_ref=attrs.evolve(known, uid="")))
    error = Forbidden('jobs.batch is forbidden: User "vworkspace-operator" cannot create resource "jobs"')
    seen = observed(failures=(Failure(ref, "create", error),))
    tried = reconcile_operation(intent, seen, CONTEXT)
    assert "cannot create resource" in message_of(tried, "Running")
    before = attrs.evolve(intent, status=attrs.evolve(intent.status, conditions=_conditions(tried)))

    ended = reconcile_operation(before, observed(), at(7200))

    assert conditions_of(ended)["Failed"] == ("True", "Timeout")
    message = message_of(ended, "Failed")
    assert "nothing was created" in message
    assert "cannot create resource" in message


# --- gone before it was looked at -------------------------------------------------------------------------------------

ENDS = {
    "Completed": ("Succeeded", "JobComplete"),
    "BackoffLimitExceeded": ("Failed", "BackoffLimitExceeded"),
    "DeadlineExceeded": ("Failed", "DeadlineExceeded"),
}


@pytest.mark.parametrize(("reason", "end"), ENDS.items())
def test_the_end_of_a_job_that_is_gone_is_what_its_events_say(reason: str, end: tuple[str, str]) -> None:
    decision = decided({}, event("SuccessfulCreate", "made"), event(reason, "so it ended", name="f"), gone=True)

    assert conditions_of(decision)[end[0]] == ("True", end[1])
    assert f"its Event says {reason}: so it ended" in message_of(decision, end[0])


@pytest.mark.parametrize(
    "beside", [(), (event("Completed", "ok", uid="of-another"),), (event("SuccessfulCreate", ""),)]
)
def test_where_nothing_tells_it_is_said_that_nobody_knows(beside: Any) -> None:
    decision = decided({}, *beside, gone=True)

    assert conditions_of(decision)["Failed"] == ("True", "ExternalDeletion")
    assert "it is not known whether it had finished" in message_of(decision, "Failed")


def test_the_events_of_a_job_that_is_gone_are_asked_for_by_its_uid() -> None:
    one, _, _ = run()

    (listing,) = ENGINES["job"].diagnostics(one, observed().objects)

    assert (listing.kind, listing.field_selector) == (CORE_EVENT, f"involvedObject.uid={JOB_UID}")
    assert ENGINES["job"].diagnostics(operation(), observed().objects) == ()
    assert JOB.kind == "Job"


@given(st.sampled_from(sorted(ENDS)), st.sampled_from(sorted(ENDS)))
def test_the_last_event_counts(first: str, last: str) -> None:
    found = [event(first, "", when="2026-06-01T12:00:00Z"), event(last, "", when="2026-06-01T12:00:01Z", name="f")]

    assert conditions_of(decided({}, *found, gone=True))[ENDS[last][0]] == ("True", ENDS[last][1])


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("WorkflowSucceeded", ("Succeeded", "WorkflowSucceeded")),
        ("WorkflowFailed", ("Failed", "WorkflowFailed")),
        ("WorkflowTimedOut", ("Failed", "WorkflowFailed")),
        ("WorkflowRunning", ("Failed", "ExternalDeletion")),
    ],
)
def test_a_workflow_that_its_ttl_removed_ends_as_its_events_say(reason: str, end: tuple[str, str]) -> None:
    one, _, _ = run("migration.workflow")
    assert [listing.kind for listing in ENGINES["workflow"].diagnostics(one, observed().objects)] == [CORE_EVENT]

    seen = observed("migration.workflow", objects=dict([event(reason, "so it ended")]))

    assert conditions_of(reconcile_operation(one, seen, CONTEXT))[end[0]] == ("True", end[1])


@pytest.mark.parametrize("account", [3, ["a"], {"name": "a"}, True])
def test_an_account_that_is_no_name_is_told_at_its_field(account: Any) -> None:
    assert [*account_problem(account, CONTEXT.settings, "spec.serviceAccountName")] == [
        Problem("spec.serviceAccountName", "must be the name of a service account")
    ]


@pytest.mark.parametrize("account", [None, "", "vworkspace-operation-runner"])
def test_without_an_account_a_pod_runs_as_the_runner(account: Any) -> None:
    assert [*account_problem(account, CONTEXT.settings, "x")] == []
