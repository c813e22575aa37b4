"""What a Cluster says of controllers, weak settings and policies, and when its status is written (RES-3, RUN-12)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec
import pytest

from purekube.apimachinery import resources as known
from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.timestamps import Instant
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_cluster
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.clusters.decision import MOST_NAMESPACES, cluster_manifest, decide, strictest_policy
from vworkspace_core.clusters.inventory import (
    IN_A_ROW,
    AgentReport,
    ClusterInventory,
    InformerReport,
    WeakSettings,
    controllers_condition,
    hardened_condition,
    installed_engines,
    weak_settings_of_cluster,
)
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.control_plane.outbox import Outbox
from vworkspace_core.operations.engines import ENGINES, engine_kinds

ALL = {kind: InformerReport() for kind in (*own_kinds.ALL_KINDS, *engine_kinds())}
FAILING = InformerReport(failures=IN_A_ROW, trouble="no route")
FALSE, TRUE = ConditionStatus.FALSE, ConditionStatus.TRUE
START = datetime(2026, 1, 1, tzinfo=UTC)


# --- controllers --------------------------------------------------------------------------------------------------


def healthy(changes: dict[Kind, InformerReport | None]) -> DesiredCondition:
    watched = {**ALL, **changes}
    return controllers_condition({kind: report for kind, report in watched.items() if report is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {known.NAMESPACE: InformerReport(failures=IN_A_ROW - 1, trouble="no route")},
        {known.NAMESPACE: InformerReport(failures=IN_A_ROW)},
        {known.NAMESPACE: attrs.evolve(FAILING, served=False)},
        {known.VELERO_BACKUP: InformerReport(served=False)},
    ],
)
def test_a_passing_failure_and_a_missing_engine_are_no_fault(changes: Any) -> None:
    assert healthy(changes) == DesiredCondition(Type.CONTROLLERS_HEALTHY, TRUE, Reason.ALL_CONTROLLERS_READY)


FLUX = "not installed. To fix: install Flux (https://fluxcd.io/flux/installation)"


@pytest.mark.parametrize("gone", [None, InformerReport(served=False)])
def test_missing_kinds_are_named_by_controller_and_before_what_is_degraded(gone: InformerReport | None) -> None:
    found = healthy(
        {
            known.HELM_CHART: gone,
            known.OCI_REPOSITORY: gone,
            known.HELM_RELEASE: gone,
            own_kinds.OPERATION: gone,
            known.NAMESPACE: FAILING,
        }
    )

    assert (found.status, found.reason) == (FALSE, Reason.CONTROLLER_MISSING)
    parts = [
        f"vworkspace-operator: {own_kinds.OPERATION.crd_name} not installed. To fix: ",
        f"source-controller: {known.OCI_REPOSITORY.crd_name}, {known.HELM_CHART.crd_name} {FLUX}",
        f"helm-controller: {known.HELM_RELEASE.crd_name} {FLUX}",
        "kube-apiserver: Namespace cannot be watched: no route",
    ]
    assert found.message.startswith(parts[0])
    assert found.message.endswith(". ".join(parts[1:]))


def test_what_cannot_be_watched_is_named_in_order_with_its_controller() -> None:
    found = healthy({known.NAMESPACE: FAILING, known.HELM_RELEASE: FAILING, own_kinds.OPERATION: FAILING})

    assert (found.status, found.reason) == (FALSE, Reason.CONTROLLER_DEGRADED)
    names = {
        known.NAMESPACE: "kube-apiserver",
        known.HELM_RELEASE: "helm-controller",
        own_kinds.OPERATION: "vworkspace-operator",
    }
    told = [f"{names[kind]}: {kind.kind} cannot be watched: no route" for kind in sorted(names)]
    assert found.message == ". ".join(told)


def test_an_engine_is_installed_if_all_its_kinds_are_served() -> None:
    assert installed_engines(ALL) == tuple(sorted(ENGINES))
    without = {**ALL, known.VELERO_BACKUP: InformerReport(served=False)}
    assert set(ENGINES) - set(installed_engines(without)) == {"velero"}


# --- weak settings ------------------------------------------------------------------------------------------------

PAGE = ". docs/security.md tells what each means"
CHARTS = (
    "charts may come from anywhere: name their registries in spec.policy.allowedChartSources of a Cluster, or by "
    "--allowed-chart-sources"
)
UNSIGNED = (
    "jobs are taken without a signature: put the control plane's signing-public-key into the credentials Secret, and "
    "require it by spec.security.requireSignedPayloads or --job-signatures=required"
)
UNGUARDED = (
    "managed namespaces without Pod Security: {} (label them pod-security.kubernetes.io/enforce=baseline, "
    "once their pods keep to it)"
)
SIX = ("f", "e", "d", "c", "b", "a")


@pytest.mark.parametrize(
    ("weak", "reason", "message"),
    [
        (WeakSettings(), Reason.NOTHING_OPEN, ""),
        (WeakSettings(("x", "y")), Reason.OPEN_SETTINGS, f"x; y{PAGE}"),
        (WeakSettings(any_chart_source=True), Reason.OPEN_POLICY, f"{CHARTS}{PAGE}"),
        (WeakSettings(unsigned=True), Reason.OPEN_POLICY, f"{UNSIGNED}{PAGE}"),
        (WeakSettings((), SIX[:5]), Reason.UNGUARDED_NAMESPACES, f"{UNGUARDED.format('b, c, d, e, f')}{PAGE}"),
        (WeakSettings((), SIX), Reason.UNGUARDED_NAMESPACES, f"{UNGUARDED.format('a, b, c, d, e and 1 more')}{PAGE}"),
        (
            WeakSettings(("x",), ("n",), unsigned=True, any_chart_source=True),
            Reason.OPEN_SETTINGS,
            f"x; {CHARTS}; {UNSIGNED}; {UNGUARDED.format('n')}{PAGE}",
        ),
        (WeakSettings((), ("n",), unsigned=True), Reason.OPEN_POLICY, f"{UNSIGNED}; {UNGUARDED.format('n')}{PAGE}"),
    ],
)
def test_every_weak_setting_is_told_and_the_most_severe_names_the_reason(
    weak: WeakSettings, reason: Reason, message: str
) -> None:
    status = TRUE if reason is Reason.NOTHING_OPEN else FALSE

    assert hardened_condition(weak) == DesiredCondition(Type.HARDENED, status, reason, message)


@pytest.mark.parametrize(
    ("policy", "is_any"),
    [
        (Policy(), True),
        (Policy(("oci://a",)), False),
        (Policy((), (), (("oci://a",),)), False),
        (Policy((), ("x",)), True),
    ],
)
def test_charts_may_come_from_anywhere_where_no_list_says_otherwise(policy: Policy, is_any: bool) -> None:
    assert weak_settings_of_cluster(["b", "a"], ["d", "c"], policy, unsigned=True) == WeakSettings(
        ("b", "a"), ("c", "d"), unsigned=True, any_chart_source=is_any
    )


# --- policies -----------------------------------------------------------------------------------------------------


def cluster(cluster_id: str = "c", **policy: Any) -> bytes:
    return msgspec.json.encode({"spec": {"clusterId": cluster_id, **({"policy": policy} if policy else {})}})


def test_the_policies_of_all_objects_of_this_cluster_hold_together_RES_3() -> None:
    base = Policy(("oci://a",), ("x@1",))
    clusters = [
        cluster(allowedChartSources=["oci://c", "oci://b", 5], forbiddenVersions=["y@1", "x@1"]),
        cluster(),
        cluster("other", allowedChartSources=["oci://z"]),
        cluster(allowedChartSources=["oci://b", "oci://c"], forbiddenVersions="z"),
    ]

    found = strictest_policy(base, clusters, "c")

    assert found == Policy(("oci://a",), ("x@1", "y@1"), (("oci://b", "oci://c"),))
    assert strictest_policy(base, reversed(clusters), "c") == found
    assert strictest_policy(Policy(), [cluster()], "c") == Policy()
    assert strictest_policy(Policy(), clusters[:1], "c") == Policy(("oci://b", "oci://c"), ("x@1", "y@1"))


# --- when it is written -------------------------------------------------------------------------------------------


def at(seconds: float) -> Instant:
    return Instant(START + timedelta(seconds=seconds), seconds)


def inventory(now: float, link: ConnectionState | None = None, **fields: Any) -> ClusterInventory:
    agent = None if link is None else AgentReport(link, at(0), Outbox().condition())
    return ClusterInventory(cluster_id="c", now=at(now), agent=agent, watched=ALL, **fields)


def live(**status: Any) -> Any:
    made = cluster_manifest("c", "https://user:secret@odoo.example")
    meta = {**made["metadata"], "generation": 1, "resourceVersion": "7"}
    return read_cluster({**made, "metadata": meta, "status": status})


def test_the_object_that_the_operator_makes_holds_no_password() -> None:
    assert cluster_manifest("c", "https://user:secret@odoo.example")["spec"] == {
        "clusterId": "c",
        "controlPlaneEndpoint": "https://odoo.example",
    }


def test_the_object_of_another_cluster_is_left_alone() -> None:
    assert decide(live(), attrs.evolve(inventory(0), cluster_id="other")).is_empty


UP = ConnectionState().succeeded(at(0))
DOWN = ConnectionState(Connectivity.UNREACHABLE, at(100), at(90), "x")


@pytest.mark.parametrize(
    ("now", "link", "after"),
    [
        (0, None, 60.0),
        (0, UP, 60.0),
        (250, UP, 50.0),
        (300, UP, 60.0),
        (299.95, UP, 0.1),
        (105, DOWN, 5.0),
        (110, DOWN, 60.0),
        (380, DOWN, 10.0),
        (100, ConnectionState(Connectivity.UNREACHABLE, None, at(90), "x"), 60.0),
    ],
)
def test_the_next_look_is_when_time_alone_changes_a_condition(now: float, link: Any, after: float) -> None:
    assert decide(live(), inventory(now, link)).requeue.after == pytest.approx(after)


def written(seconds: float, **fields: Any) -> Any:
    """The object as it is after its first write."""
    status = decide(live(), inventory(seconds, **fields)).status
    assert status is not None
    return live(**status["status"])


@pytest.mark.parametrize(
    ("now", "since", "row", "after"),
    [
        (30, 0.0, "waits for the heartbeat", 30.0),
        (60, 0.0, "heartbeat", 60.0),
        (70, 30.0, "waits for the heartbeat", 20.0),
        (59, None, "waits for the heartbeat", 1.0),
        (60, None, "heartbeat", 60.0),
        (-5, None, "heartbeat", 60.0),
        (0, None, "nothing changed", 60.0),
    ],
)
def test_a_heartbeat_waits_for_its_minute(now: float, since: float | None, row: str, after: float) -> None:
    found = decide(written(0), inventory(now, written=None if since is None else at(since)))

    assert (found.row, found.status is None) == (row, row != "heartbeat")
    assert found.requeue.after == pytest.approx(after)


def test_a_status_lists_the_first_thousand_namespaces_in_order_and_another_order_is_no_change() -> None:
    many = tuple(f"n{number:04}" for number in range(MOST_NAMESPACES + 1))
    found = written(0, namespaces=tuple(reversed(many)))

    assert found.status.managed_namespaces == many[:-1]
    assert decide(found, inventory(0, namespaces=many)).row == "nothing changed"
    shuffled = attrs.evolve(found, status=attrs.evolve(found.status, managed_namespaces=tuple(reversed(many[:-1]))))
    assert decide(shuffled, inventory(0, namespaces=many)).row == "nothing changed"


def test_a_message_alone_waits_for_the_heartbeat_too() -> None:
    found = written(0, weak_settings=WeakSettings(("x",)))

    later = decide(found, inventory(0, weak_settings=WeakSettings(("y",))))

    assert (later.row, later.requeue.after) == ("waits for the heartbeat", 60.0)


def told(kind: str, status: str, reason: str) -> dict[str, Any]:
    at_start = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at_start}


def test_conditions_of_others_are_left_to_them_RES_4() -> None:
    found = live(conditions=[told("Theirs", "True", "X")])

    status = decide(found, inventory(0)).status
    assert status is not None
    assert [one["type"] for one in status["status"]["conditions"]] == [
        "Connected",
        "Disconnected",
        "ControllersHealthy",
        "Hardened",
    ]


@pytest.mark.parametrize(
    ("before", "link", "events"),
    [
        ([], UP, ["RoundTripOK"]),
        ([told("Connected", "False", "ControlPlaneUnreachable")], UP, ["RoundTripOK"]),
        ([told("Disconnected", "True", "NoRecentRoundTrip")], UP, ["RoundTripOK", "RoundTripOK"]),
        ([], DOWN, ["ControlPlaneUnreachable"]),
    ],
)
def test_good_news_are_told_of_what_was_bad_and_of_the_first_connection(
    before: list[Any], link: Any, events: list[str]
) -> None:
    assert [event.reason for event in decide(live(conditions=before), inventory(110, link)).events] == events


def test_that_there_is_no_agent_is_told_once_SEE_4() -> None:
    (event,) = decide(live(), inventory(0)).events

    assert (event.type, event.reason, event.action) == ("Normal", "NoAgent", "Report")
    assert event.note.startswith("Connected is False: ")
