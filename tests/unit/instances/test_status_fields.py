"""The fields of an instance's status, its endpoints, and which of its changes are told when (REC-1, REC-6, RES-1)."""

from datetime import timedelta
from typing import Any

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.controller.decision import Decision
from tests.support.instance_worlds import CONTEXT, NOW, UID, instance_manifest
from vworkspace_core.api.application_instance import Endpoint
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.instances.status import StatusFields, endpoints, own_conditions, with_status

YES, NO = ConditionStatus.TRUE, ConditionStatus.FALSE
READY = DesiredCondition(Type.READY, YES, Reason.HELM_RELEASE_READY, "up")
STABLE = DesiredCondition(Type.RECONCILING, NO, Reason.STABLE)
INGRESS = {"ingress": {"enabled": True, "host": "a.example"}}
URL = Endpoint(name="ingress", url="http://a.example", type="ingress")


@pytest.mark.parametrize(
    ("integrations", "values", "expected"),
    [
        (None, {}, ()),
        ({}, {}, ()),
        (INGRESS, {}, (URL,)),
        ({**INGRESS, "certManager": {"enabled": True}}, {}, (Endpoint("ingress", "https://a.example", "ingress"),)),
        ({**INGRESS, "certManager": {"enabled": False}}, {}, (URL,)),
        ({"ingress": {"enabled": False, "host": "a.example"}}, {}, ()),
        (INGRESS, {"ingress": {"host": "b.example"}}, (Endpoint("ingress", "http://b.example", "ingress"),)),
        (INGRESS, {"ingress": {"enabled": False}}, ()),
        (INGRESS, {"ingress": {"host": 5}}, ()),
        (INGRESS, {"ingress": {"host": "no host"}}, ()),
        (INGRESS, {"ingress": {"host": f"{'a.' * 126}a"}}, (Endpoint("ingress", f"http://{'a.' * 126}a", "ingress"),)),
        (INGRESS, {"ingress": {"host": f"{'a.' * 126}ab"}}, ()),
    ],
)
def test_the_ingress_of_the_effective_values_is_an_endpoint_RES_1(
    integrations: Any, values: Any, expected: Any
) -> None:
    inline = {"source": "inline", "inline": values}
    source = read_application_instance(instance_manifest(integrations=integrations, values=inline))

    assert endpoints(source) == expected


OVERRIDE = {
    "operation": "up",
    "uid": "o",
    "specHash": "h",
    "version": "6.7.0",
    "valuesPatch": {"ingress": {"host": "c.example"}},
    "replaced": {"operation": "before", "uid": "p", "specHash": "h", "version": "6.6.5"},
}
FIELDS: dict[str, Any] = {
    "helmReleaseRef": {"name": "nextcloud", "namespace": "org-myteam"},
    "lastAppliedChart": {"sourceType": "oci", "url": "oci://x.example", "name": "nextcloud", "version": "6.6.0"},
    "deployedChart": {"name": "nextcloud", "version": "6.5.0"},
    "endpoints": [{"name": "ingress", "url": "http://a.example", "type": "ingress"}],
    "releaseOverride": OVERRIDE,
}


def source(seconds: float | None = None, *conditions: DesiredCondition, **status: Any) -> Any:
    """An instance whose status was written so many seconds ago."""
    if seconds is not None:
        status["lastReconcileTime"] = (NOW - timedelta(seconds=seconds)).isoformat()
    at = "2026-06-01T11:00:00Z"
    told = [
        {
            "type": one.type,
            "status": one.status,
            "reason": one.reason,
            "message": one.message,
            "observedGeneration": 1,
            "lastTransitionTime": at,
        }
        for one in conditions
    ]
    return read_application_instance({**instance_manifest(), "status": {**status, "conditions": told}})


def written(found: Any, *wanted: DesiredCondition, fields: StatusFields | None = None) -> Decision:
    chosen = StatusFields.of(found.status) if fields is None else fields
    return with_status(Decision(), found, wanted or (READY, STABLE), chosen, CONTEXT)


def test_an_override_changes_the_endpoint_too() -> None:
    found = read_application_instance(
        {**instance_manifest(integrations=INGRESS), "status": {"releaseOverride": OVERRIDE}}
    )

    assert endpoints(found, found.status.release_override) == (Endpoint("ingress", "http://c.example", "ingress"),)


def test_every_field_of_the_status_is_written_as_it_is_read() -> None:
    decision = written(source(**FIELDS))

    assert decision.status is not None
    status = decision.status["status"]
    assert {name: value for name, value in status.items() if name in FIELDS} == FIELDS
    assert (status["observedGeneration"], status["lastReconcileTime"]) == (1, "2026-06-01T12:00:00Z")
    assert status["reason"] == "HelmReleaseReady"
    assert [one["type"] for one in status["conditions"]] == ["Ready", "Reconciling"]
    bare = written(source())
    assert bare.status is not None
    assert not set(FIELDS) & set(bare.status["status"])


def steady(seconds: float = 10, **status: Any) -> Any:
    told = {"observedGeneration": 1, "reason": "HelmReleaseReady", **status}
    return source(seconds, READY, STABLE, **told)


@pytest.mark.parametrize(
    ("found", "wanted", "is_written"),
    [
        (steady(), (READY, STABLE), False),
        (steady(**FIELDS), (READY, STABLE), False),
        (steady(observedGeneration=0), (READY, STABLE), True),
        (steady(reason="Other"), (READY, STABLE), True),
        (steady(observedRequest="x"), (READY, STABLE), True),
        (steady(), (READY,), True),
        (steady(), (DesiredCondition(Type.READY, NO, Reason.INSTALLING), STABLE), True),
    ],
)
def test_a_status_is_written_when_it_differs_REC_6(found: Any, wanted: Any, is_written: bool) -> None:
    assert (written(found, *wanted).status is not None) is is_written


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_a_field_that_goes_is_written(field: str) -> None:
    found = steady(**FIELDS)
    fields = {**FIELDS, field: None}
    without = StatusFields.of(steady(**{name: value for name, value in fields.items() if value}).status)

    decision = written(found, fields=without)

    assert decision.status is not None
    assert field not in decision.status["status"]


@pytest.mark.parametrize(("seconds", "after"), [(0, 60.0), (59, 1.0), (60, None), (-1, None), (None, None)])
def test_a_message_of_progress_waits_until_the_last_write_is_a_minute_old_REC_7(
    seconds: float | None, after: float | None
) -> None:
    found = steady() if seconds is None else steady(seconds)
    if seconds is None:
        found = source(None, READY, STABLE, observedGeneration=1, reason="HelmReleaseReady")
    news = DesiredCondition(Type.READY, YES, Reason.HELM_RELEASE_READY, "more")

    decision = written(found, news, STABLE)

    assert (decision.status is None, decision.requeue.after) == (after is not None, after)


def reasons(before: tuple[DesiredCondition, ...], *wanted: DesiredCondition) -> list[tuple[str, str]]:
    decision = written(source(10, *before, observedGeneration=1), *wanted)
    assert {event.regarding_uid for event in decision.events} <= {UID}
    return [(event.type, event.reason) for event in decision.events]


WORKING = DesiredCondition(Type.RECONCILING, YES, Reason.HELM_RELEASE_UPGRADING)
DOWN = DesiredCondition(Type.READY, NO, Reason.UPGRADING)
BLOCKED = DesiredCondition(Type.BLOCKED, YES, "NameTaken")
UNBLOCKED = DesiredCondition(Type.BLOCKED, NO, Reason.UNBLOCKED)


def test_a_release_that_becomes_ready_is_one_event_of_its_own_reason_REC_1() -> None:
    assert reasons((DOWN, WORKING), READY, STABLE) == [("Normal", "ReleaseReady")]
    assert reasons((READY, STABLE), DOWN, WORKING) == [("Normal", "Upgrading")]
    assert reasons((READY, STABLE), READY, WORKING) == [("Normal", "HelmReleaseUpgrading")]
    assert reasons((READY, WORKING), READY, STABLE, BLOCKED) == [("Warning", "NameTaken")]
    assert reasons((READY, STABLE, BLOCKED), READY, WORKING, UNBLOCKED) == [
        ("Normal", "HelmReleaseUpgrading"),
        ("Normal", "Unblocked"),
    ]


@pytest.mark.parametrize(
    ("reason", "is_bad"),
    [
        ("HelmReleaseFailed", True),
        ("ChartUnreachable", True),
        ("WaitingForSecret", True),
        ("RolledBack", True),
        ("Installing", False),
        ("Upgrading", False),
        ("Uninstalling", False),
    ],
)
def test_bad_news_of_ready_are_warnings(reason: str, is_bad: bool) -> None:
    found = reasons((READY, STABLE), DesiredCondition(Type.READY, NO, reason), STABLE)

    assert found == [("Warning" if is_bad else "Normal", reason)]


@pytest.mark.parametrize(
    ("kind", "warns"),
    [(Type.DEGRADED, True), (Type.STALLED, True), (Type.BLOCKED, True), (Type.SUSPENDED, False)],
)
def test_conditions_that_are_bad_when_true_are_warnings(kind: Type, warns: bool) -> None:
    true, false = (DesiredCondition(kind, status, "R") for status in (YES, NO))

    assert reasons((READY, STABLE), READY, STABLE, true) == [("Warning" if warns else "Normal", "R")]
    assert reasons((READY, STABLE, true), READY, STABLE, false) == [("Normal", "R")]


def test_conditions_of_others_are_no_own_conditions() -> None:
    other = DesiredCondition("Theirs", YES, "R")

    assert [one.type for one in own_conditions(source(1, READY, other).status)] == ["Ready"]
