"""OPS-8, OPS-9: what an upgrade asks of its target and reads from it, and what a Workflow is and says."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import KeyRef
from purekube.apimachinery.resources import CORE_EVENT, HELM_RELEASE, WORKFLOW
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    OP_UID,
    TARGET,
    as_created,
    at,
    observed,
    operation,
    started,
    target_manifest,
)
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ReleaseOverride,
    Values,
    ValuesSource,
)
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.operation import LogsRef, Operation, Phase
from vworkspace_core.api.release_override import spec_hash
from vworkspace_core.operations.contract import EngineContext, EngineRefusal, EngineStatus, Listing, Progress
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import target_of
from vworkspace_core.operations.reconcile import reconcile_operation

RUNNING, SUCCEEDED, FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED
HELM, FLOW = ENGINES["helm"], ENGINES["workflow"]
RELEASE = ObjectRef(HELM_RELEASE, NS, "nextcloud")


# --- upgrades ---------------------------------------------------------------------------------------------------------


def target(*conditions: dict[str, Any], override: str | None = OP_UID, **more: Any) -> dict[str, Any]:
    """Return the target, whose status holds the override of an Operation of that uid."""
    manifest = target_manifest("upgrade.helm")
    held = {"operation": "op-1", "uid": override, "specHash": "h"}
    status = {
        **manifest["status"],
        "conditions": list(conditions),
        **({} if override is None else {"releaseOverride": held}),
    }
    return {**manifest, "status": status, **more}


def read(manifest: dict[str, Any]) -> ApplicationInstance:
    return read_application_instance(manifest)


def condition(kind: str, status: str, reason: str, message: str = "told") -> dict[str, Any]:
    moment = {"lastTransitionTime": "2026-06-01T12:00:00Z", "observedGeneration": 1}
    return {"type": kind, "status": status, "reason": reason, "message": message, **moment}


def judged(manifest: dict[str, Any] | None, **more: Any) -> EngineStatus:
    one, _ = started("upgrade.helm", **more)
    return HELM.observe(one, {} if manifest is None else {TARGET: manifest})


READY = condition("Ready", "True", "HelmReleaseReady")
FORBIDDEN = condition("Degraded", "True", "ForbiddenVersionOverride", "not that one")
SUSPENDED, BLOCKED = condition("Suspended", "True", "ManuallySuspended"), condition("Blocked", "True", "FieldConflict")
UNTOLD = condition("Blocked", "True", "FieldConflict", "")
AT_WORK = "the target has not taken it up, or Flux is at work"
TAKEN_UP = "waiting for the target to take it up"
ROLLED = condition("Ready", "False", "RolledBack")


@pytest.mark.parametrize(
    ("manifest", "phase", "reason", "message"),
    [
        (target(READY), SUCCEEDED, "HelmReleaseReady", "told"),
        (target(READY, FORBIDDEN), FAILED, "ForbiddenVersion", "not that one"),
        (target(READY, {**FORBIDDEN, "status": "False"}), SUCCEEDED, "HelmReleaseReady", "told"),
        (target(READY, {**FORBIDDEN, "reason": "Other"}), SUCCEEDED, "HelmReleaseReady", "told"),
        (target(READY, SUSPENDED, BLOCKED), RUNNING, "HelmReleaseSuspended", "ManuallySuspended: told"),
        (target(READY, BLOCKED), RUNNING, "TargetBlocked", "FieldConflict: told"),
        (target(READY, UNTOLD), RUNNING, "TargetBlocked", "FieldConflict"),
        (target(READY, {**BLOCKED, "status": "False"}), SUCCEEDED, "HelmReleaseReady", "told"),
        (target(), RUNNING, "HelmReleaseUpgrading", AT_WORK),
        (target(condition("Ready", "False", "HelmReleaseFailed")), FAILED, "UpgradeFailed", "told"),
        (target(ROLLED), FAILED, "UpgradeFailed", "told"),
        (target(ROLLED, condition("Degraded", "True", "Other", "went back")), FAILED, "UpgradeFailed", "went back"),
        (target(condition("Ready", "False", "Other")), RUNNING, "HelmReleaseUpgrading", "told"),
        (target(condition("Ready", "Unknown", "HelmReleaseFailed")), RUNNING, "HelmReleaseUpgrading", "told"),
        (target(READY, override=None), RUNNING, "HelmReleaseUpgrading", TAKEN_UP),
        (target(READY, override="another"), RUNNING, "HelmReleaseUpgrading", TAKEN_UP),
        (target(READY, SUSPENDED, override=None), RUNNING, "HelmReleaseUpgrading", TAKEN_UP),
        (target(READY, BLOCKED, override=None), RUNNING, "TargetBlocked", "FieldConflict: told"),
        (None, FAILED, "TargetDeleted", "the target is gone or going: there is nothing to upgrade"),
        (target(READY, spec={}), RUNNING, "HelmReleaseUpgrading", "the target cannot be read"),
    ],
)
def test_an_upgrade_is_what_its_target_says_of_it_OPS_9(
    manifest: dict[str, Any] | None, phase: Progress, reason: str, message: str
) -> None:
    found = judged(manifest)

    assert (found.phase, found.reason, found.message) == (phase, reason, message)
    assert found.logs_ref == LogsRef(kind="HelmRelease", name="nextcloud", namespace=NS)
    assert found.outputs["toVersion"] == ("6.6.0" if phase is SUCCEEDED else "6.7.0")


def test_an_upgrade_ends_with_its_target_or_with_new_intent_OPS_9() -> None:
    manifest = target(READY)
    going = {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "2026-06-01T12:00:00Z"}}
    assert judged(going).reason == "TargetDeleted"
    values = {"source": "inline", "inline": {"replicas": 9}}
    changed = {**manifest, "spec": {**manifest["spec"], "values": values}}
    assert (judged(changed).reason, judged(changed).message) == ("SpecChanged", "new intent wins over the upgrade")

    one, _ = started("upgrade.helm")
    assert [HELM.blocks_end(one, {TARGET: target(override=uid)}) for uid in (OP_UID, "another", None)] == [
        True,
        False,
        False,
    ]
    assert not HELM.blocks_end(one, {})


def history(*entries: Any) -> dict[ObjectRef, Any]:
    return {RELEASE: {"status": {"history": list(entries)}}}


def entry(version: Any, status: str = "deployed") -> dict[str, Any]:
    return {"chartVersion": version, "status": status}


@pytest.mark.parametrize(
    ("objects", "runs"),
    [
        ({}, "6.6.0"),
        (history(), "6.6.0"),
        (history(entry("6.5.0+3f2a9b1c4d5e")), "6.5.0"),
        (history(entry("6.6.0+3f2a9b1c4d5e")), "6.6.0"),
        (history(entry("v6.6.0")), "6.6.0"),
        (history(entry("6.7.0", "failed"), entry("6.5.0"), entry("6.4.0")), "6.5.0"),
        (history(7, entry(5), entry("6.5.0")), "6.5.0"),
        ({RELEASE: {"status": {"history": "odd"}}}, "6.6.0"),
    ],
)
def test_an_upgrade_says_what_runs_and_what_is_asked_for_OPS_9(objects: Any, runs: str) -> None:
    spec = read(target()).spec
    outputs = HELM.initial_outputs(operation("upgrade.helm"), read(target()), objects)

    assert outputs == {
        "fromVersion": runs,
        "toVersion": "6.7.0",
        "helmReleaseName": "nextcloud",
        "specHash": spec_hash(spec),
    }
    patch = operation("upgrade.helm", parameters={"valuesPatch": {"a": 1}})
    assert HELM.initial_outputs(patch, read(target()), objects)["toVersion"] == "6.6.0"
    assert HELM.looks_up(patch, read(target()), CONTEXT.settings) == (RELEASE,)


def test_an_upgrade_from_a_version_with_a_v_names_it_as_it_was_asked_for_OPS_9() -> None:
    instance = read(target())
    status = instance.status
    assert status.last_applied_chart is not None
    applied = attrs.evolve(status.last_applied_chart, version="v6.6.0+from.source")
    asked = attrs.evolve(instance, status=attrs.evolve(status, last_applied_chart=applied))

    outputs = HELM.initial_outputs(operation("upgrade.helm"), asked, history(entry("6.6.0+3f2a9b1c4d5e")))

    assert outputs["fromVersion"] == "v6.6.0+from.source"


def check(
    instance: ApplicationInstance, limit: int | None = None, siblings: tuple[Operation, ...] = (), **parameters: Any
) -> EngineRefusal | None:
    settings = CONTEXT.settings
    if limit is not None:
        settings = attrs.evolve(settings, admission=attrs.evolve(settings.admission, max_parameters_bytes=limit))
    template = CONTEXT.templates.find("Upgrade", "helm")
    assert template is not None
    context = EngineContext(settings, template, siblings=siblings)
    return HELM.check(operation("upgrade.helm", parameters=parameters), instance, context)


def test_an_upgrade_needs_a_release_that_is_not_suspended_OPS_9() -> None:
    instance = read(target())
    bare = attrs.evolve(instance, spec=attrs.evolve(instance.spec, release=None))
    suspended = attrs.evolve(instance, spec=attrs.evolve(instance.spec, suspend=True))

    assert check(instance, targetVersion="6.7.0") is None
    for chartless in (bare, attrs.evolve(instance, spec=attrs.evolve(instance.spec, chart=None))):
        refusal = check(chartless, targetVersion="6.7.0")
        assert refusal is not None
        assert (refusal.reason, refusal.blocks) == ("ValidationFailed", False)
        assert refusal.message == "spec.targetRef.name: a placeholder has no release to upgrade"
    for still in (suspended, read(target(SUSPENDED))):
        refusal = check(still, targetVersion="6.7.0")
        assert refusal is not None
        assert (refusal.reason, refusal.blocks) == ("TargetNotReady", True)
        assert refusal.message == "the target is suspended: an upgrade would not happen"
    assert check(instance, limit=7, valuesPatch={"a": 1}) is None
    large = check(instance, limit=6, valuesPatch={"a": 1})
    assert large is not None
    assert large.message == (
        "spec.parameters.valuesPatch: with the patches of earlier Operations it has 7 bytes as JSON, at most 6 are "
        "taken; put what they changed into the instance's own values"
    )


def with_values_from_a_secret(patch: Any = None) -> ApplicationInstance:
    instance = read(target())
    values = Values(ValuesSource.SECRET_REF, secret_ref=KeyRef("own-values", "values.yaml"))
    spec = attrs.evolve(instance.spec, values=values)
    override = ReleaseOverride("op-1", "uid-1", spec_hash(spec), values_patch=patch)
    return attrs.evolve(instance, spec=spec, status=attrs.evolve(instance.status, release_override=override))


@pytest.mark.parametrize(
    ("standing", "patch", "path"),
    [
        (None, {"a": None}, "a"),
        (None, {"a": {"b": None, "c": 1}}, "a.b"),
        ({"a": 1}, {"a": {"b": None}}, "a.b"),
        ({"a": {"c": 1}}, {"a": {"b": None}}, "a.b"),
    ],
)
def test_a_null_that_can_remove_nothing_is_refused_REC_9(standing: Any, patch: Any, path: str) -> None:
    """Flux merges the patch over the Secret's values, so that the upgrade would succeed and change nothing."""
    refusal = check(with_values_from_a_secret(standing), valuesPatch=patch)
    assert refusal is not None
    assert (refusal.reason, refusal.blocks) == ("ValidationFailed", False)
    assert refusal.message == (
        f"spec.parameters.valuesPatch.{path}: null removes nothing, since the target's values come from Secret "
        "own-values; change it there, or give the value that it should have"
    )


@pytest.mark.parametrize(
    ("standing", "patch"),
    [
        (None, {"a": 1}),
        (None, {"a": [None]}),
        ({"a": 1}, {"a": None}),
        ({"a": {"b": 1}}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {"b": None}}),
    ],
)
def test_a_null_may_take_back_what_an_upgrade_has_set(standing: Any, patch: Any) -> None:
    assert check(with_values_from_a_secret(standing), valuesPatch=patch) is None


def test_a_null_may_wait_for_an_upgrade_that_comes_before_it_OPS_5() -> None:
    running, _ = started("upgrade.helm", parameters={"valuesPatch": {"a": 1}})
    before = attrs.evolve(running, metadata=attrs.evolve(running.metadata, name="before", uid="u-before"))
    ended = attrs.evolve(before, status=attrs.evolve(before.status, phase=Phase.SUCCEEDED))

    assert check(with_values_from_a_secret(), siblings=(before,), valuesPatch={"a": None}) is None
    assert check(with_values_from_a_secret(), siblings=(ended,), valuesPatch={"a": None}) is not None


def test_a_null_may_be_about_values_that_the_instance_has_itself() -> None:
    assert check(read(target()), valuesPatch={"replicaCount": None}) is None


# --- workflows --------------------------------------------------------------------------------------------------------


def flow(status: Any, **spec: Any) -> EngineStatus:
    one, made = started("runbook.workflow")
    assert made is not None
    live = as_created(made)
    return FLOW.observe(one, {made.ref: {**live, "spec": {**live["spec"], **spec}, "status": status}})


def flow_name() -> str:
    _, made = started("runbook.workflow")
    assert made is not None
    return made.ref.name


def node(name: str, phase: str, kind: str = "Pod", **more: Any) -> dict[str, Any]:
    return {"id": name, "displayName": name, "type": kind, "phase": phase, **more}


def nodes(*given: Any, **status: Any) -> dict[str, Any]:
    return {"nodes": {str(number): one for number, one in enumerate(given)}, **status}


def failing(*given: Any, **more: Any) -> dict[str, Any]:
    return nodes(*given, phase="Failed", **more)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (failing(message="as a whole"), "as a whole"),
        (failing(node("a", "Failed", message="first", finishedAt="2"),
                 node("b", "Error", message="second", finishedAt="1")), "b: second"),
        (failing(node("b", "Failed", message="x"), node("a", "Failed", message="y")), "a: y"),
        (failing(node("b", "Failed", message="x", finishedAt="1"), node("a", "Failed", message="y")), "b: x"),
        (failing(node("s", "Failed", "Steps", message="child failed", finishedAt="1"),
                 node("p", "Failed", message="no disk", finishedAt="2")), "p: no disk"),
        (failing(node("s", "Failed", "Steps", message="child failed")), "s: child failed"),
        (failing(node("a", "Failed"), node("b", "Succeeded", message="fine"), message="as a whole"), "as a whole"),
        (failing(node("r", "Succeeded", "Retry", children=["a"]), node("a", "Failed", message="once"),
                 node("b", "Failed", message="for good")), "b: for good"),
        (failing(node("r", "Failed", "Retry", children=["a"]), node("a", "Failed", message="again")), "a: again"),
        (failing("odd", {"name": "n", "phase": "Error", "type": "HTTP", "message": "m"}), "n: m"),
        ({"phase": "Failed", "nodes": "packed", "message": "as a whole"}, "as a whole"),
    ],
)  # fmt: skip
def test_the_first_step_that_failed_by_itself_is_told_OPS_8(status: Any, message: str) -> None:
    found = flow(status)

    assert (found.phase, found.reason, found.message) == (FAILED, "WorkflowFailed", message)
    logs = LogsRef(kind="Workflow", name=flow_name(), namespace=NS)
    assert (found.outputs, found.logs_ref, found.blocked) == ({"workflowName": flow_name()}, logs, None)


@pytest.mark.parametrize("kind", ["Pod", "Container", "HTTP", "Plugin", "Suspend", "Steps", "DAG"])
def test_a_step_that_does_work_is_told_before_those_around_it_OPS_8(kind: str) -> None:
    around, inner = (
        node("a", "Failed", "StepGroup", message="child failed", finishedAt="1"),
        node("b", "Failed", kind, message="no disk", finishedAt="2"),
    )

    works = kind not in ("Steps", "DAG")
    assert flow(failing(around, inner)).message == ("b: no disk" if works else "a: child failed")


def test_a_workflow_that_waits_says_how_to_go_on_OPS_8() -> None:
    name = flow_name()
    whole = flow({"phase": "Running"}, suspend=True)
    step = flow(nodes(node("a", "Running", "Suspend"), phase="Running"))

    assert whole.blocked == step.blocked == "AwaitingResume"
    assert whole.message.startswith("the Workflow is suspended. To fix: kubectl patch workflows.argoproj.io ")
    waits = f"a step of Workflow {NS}/{name} waits to be resumed with Argo: in its UI, or with `argo resume {name}`"
    assert step.message == waits
    for going in (
        flow({"phase": "Running"}),
        flow({"phase": "Running"}, suspend=False),
        flow(nodes(node("a", "Succeeded", "Suspend"), node("b", "Running"), phase="Running")),
    ):
        assert (going.blocked, going.message, going.reason) == (None, "", "WorkflowInProgress")
        assert type(going.message) is str
    assert flow({"phase": "Succeeded"}, suspend=True).blocked is None
    one, _ = started("runbook.workflow")
    assert FLOW.observe(one, {}) == EngineStatus(RUNNING, "WorkflowMissing")


def test_the_outputs_of_a_workflow_are_texts_without_secrets_OPS_8() -> None:
    given = [{"name": "a", "value": 1}, {"name": "b"}, {"name": "password", "value": "hunter22"}, "odd"]
    status = {"phase": "Succeeded", "outputs": {"parameters": given}}

    assert flow(status).outputs == {"workflowName": flow_name(), "parameters": {"a": "1", "password": "***"}}
    assert flow({**status, "phase": "Running"}).outputs == {"workflowName": flow_name()}
    assert flow({"phase": "Succeeded", "outputs": {"parameters": None}}).outputs == {"workflowName": flow_name()}


def made_of(**parameters: Any) -> dict[str, Any]:
    one, seen = (
        operation("runbook.workflow", parameters={"workflowTemplate": "t", **parameters}),
        observed("runbook.workflow"),
    )
    instance, template = target_of(one, seen.objects), CONTEXT.templates.find("Runbook", "workflow")
    assert instance is not None
    assert template is not None
    (made,) = FLOW.desired(one, instance, CONTEXT.for_engine(seen, template))
    return dict(made.manifest["spec"])


def test_a_workflow_is_made_with_its_target_and_its_deadline_OPS_8() -> None:
    own = [{"name": "targetName", "value": TARGET.name}, {"name": "targetNamespace", "value": NS}]
    spec = made_of(workflowTemplateParameters={"n": 3, "b": True, "s": "x", "targetName": "forged"})

    assert spec == {
        "workflowTemplateRef": {"name": "t"},
        "arguments": {
            "parameters": [
                {"name": "n", "value": "3"},
                {"name": "b", "value": "true"},
                {"name": "s", "value": "x"},
                *own,
            ]
        },
        "serviceAccountName": "vworkspace-operation-runner",
        "activeDeadlineSeconds": FLOW.timeout_seconds,
    }
    assert made_of()["arguments"] == {"parameters": own}


@pytest.mark.parametrize(
    ("own", "at_work", "seconds"),
    [(None, 14_400, 14_460), (900, 900, 900), (None, 10**18, 31_536_000), (None, "x", 14_400)],
)
def test_argo_ends_a_workflow_that_takes_too_long_before_the_operator_removes_it_OPS_12(
    own: int | None, at_work: Any, seconds: int
) -> None:
    """Only Argo runs its exit handlers, such as the end of a maintenance, and it keeps the logs."""
    one, made = started("migration.workflow", **({} if own is None else {"timeoutSeconds": own}))
    assert made is not None
    live = as_created(made)
    assert live["spec"]["activeDeadlineSeconds"] == (own or 14_400)
    live["spec"]["activeDeadlineSeconds"] = at_work
    seen = observed("migration.workflow", objects={made.ref: live})

    # It has run for half a minute.
    early, late = (reconcile_operation(one, seen, at(moment)) for moment in (seconds - 31.0, seconds - 30.0))

    assert early.deletes == ()
    assert [delete.ref for delete in late.deletes] == [made.ref]


def test_a_workflow_that_is_gone_ended_as_its_events_say_OPS_8() -> None:
    one, made = started("runbook.workflow")
    assert made is not None
    events = Listing(CORE_EVENT, NS, field_selector="involvedObject.uid=uid-1", limit=50)

    assert FLOW.diagnostics(one, {}) == (events,)
    assert FLOW.diagnostics(one, {made.ref: as_created(made)}) == ()
    assert FLOW.diagnostics(operation("runbook.workflow"), {}) == ()
    for reason, phase, told in (
        ("WorkflowSucceeded", SUCCEEDED, "WorkflowSucceeded"),
        ("WorkflowFailed", FAILED, "WorkflowFailed"),
    ):
        event = {
            "metadata": {"name": "e"},
            "involvedObject": {"uid": "uid-1"},
            "reason": reason,
            "message": "so it was",
        }
        final = FLOW.final_status(one, {ObjectRef(CORE_EVENT, NS, "e"): event})
        message = f"Workflow {made.ref.name} was removed before its end was seen; its Event says {reason}: so it was"
        logs = LogsRef(kind="Workflow", name=made.ref.name, namespace=NS)
        assert final == EngineStatus(phase, told, message, {"workflowName": made.ref.name}, logs)
    assert FLOW.final_status(one, {}) is None
    assert made.kind == WORKFLOW
