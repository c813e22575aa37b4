"""The status of a Cluster: what it says, when it is written, and that it never flaps (RES-3, RES-4, PULL-5, PULL-7)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import Forbidden, OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.timestamps import Instant, parse_time
from purekube.controller.decision import Decision
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.admission import admit
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import read_cluster, validate_strict
from vworkspace_core.api.vocabulary import is_admitted
from vworkspace_core.clusters.decision import HEARTBEAT_SECONDS, cluster_manifest, decide
from vworkspace_core.clusters.inventory import (
    DAMPING_SECONDS,
    WINDOW_SECONDS,
    AgentReport,
    ClusterInventory,
    InformerReport,
    PendingDeliveries,
    installed_engines,
)
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.control_plane.outbox import Outbox
from vworkspace_core.operations.engines import ENGINES, engine_kinds

ID = "cluster-prod-1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = {kind: InformerReport() for kind in (*own_kinds.ALL_KINDS, *engine_kinds())}
AWAY = Unavailable("GET https://odoo.example.com/api/agent/jobs: connection refused")


def at(seconds: float) -> Instant:
    return Instant(NOW + timedelta(seconds=seconds), seconds)


def manifest(cluster_id: str = ID, **status: Any) -> dict[str, Any]:
    made = cluster_manifest(cluster_id, "https://odoo.example.com")
    meta = {**made["metadata"], "uid": "u1", "generation": 3, "resourceVersion": "7"}
    return {**made, "metadata": meta, **({"status": status} if status else {})}


@attrs.define
class Life:
    """A Cluster object and the operator processes that write its status, one after the other."""

    live: Manifest = attrs.field(factory=manifest)
    seconds: float = 0.0
    link: ConnectionState = attrs.field(factory=ConnectionState)
    started: float = 0.0
    written: float | None = None
    agent: bool = True
    pending: PendingDeliveries = attrs.field(factory=PendingDeliveries)
    outbox: Outbox = attrs.field(factory=Outbox)
    watched: Mapping[Kind, InformerReport] = attrs.field(factory=lambda: EVERYTHING)
    expires: datetime | None = None
    wall: timedelta = timedelta(0)
    apart: str = ""
    writes: list[float] = attrs.field(factory=list)
    events: list[str] = attrs.field(factory=list)

    @property
    def now(self) -> Instant:
        return Instant(NOW + timedelta(seconds=self.seconds) + self.wall, self.seconds)

    def decide(self) -> Decision:
        inventory = ClusterInventory(
            cluster_id=ID,
            now=self.now,
            agent=self._agent(),
            watched=self.watched,
            namespaces=("org-b", "org-a"),
            operator_version="1.2.3",
            credentials_secret="vworkspace-agent-credentials",
            credential_expires=self.expires,
            written=None if self.written is None else at(self.written),
        )
        return decide(read_cluster(self.live), inventory)

    def _agent(self) -> AgentReport | None:
        if not self.agent:
            return None
        return AgentReport(self.link, at(self.started), self.outbox.condition(), self.pending, self.apart)

    def look(self) -> Decision:
        """Decide and write, as the driver does."""
        decision = self.decide()
        if decision.status is not None:
            self.live = {**self.live, "status": decision.status["status"]}
            self.written = self.seconds
            self.writes.append(self.seconds)
            self.events += [event.reason for event in decision.events]
        return decision

    def after(self, seconds: float) -> "Life":
        self.seconds += seconds
        return self

    def up(self) -> "Life":
        self.link = self.link.succeeded(self.now)
        return self

    def down(self, error: OperatorError = AWAY) -> "Life":
        self.link = self.link.failed(error, self.now)
        return self

    def restart(self) -> "Life":
        self.link, self.started, self.written, self.outbox = ConnectionState(), self.seconds, None, Outbox()
        return self

    def says(self) -> dict[str, str]:
        conditions = get_path(self.live, "status", "conditions") or ()
        return {condition["type"]: f"{condition['status']}/{condition['reason']}" for condition in conditions}

    def told(self, kind: str) -> str:
        return next(
            str(condition.get("message", ""))
            for condition in get_path(self.live, "status", "conditions")
            if condition["type"] == kind
        )


def connected() -> Life:
    life = Life().up()
    life.look()
    return life


WELL = {
    "Connected": "True/RoundTripOK",
    "Disconnected": "False/RoundTripOK",
    "Authenticated": "True/CredentialAccepted",
    "ControllersHealthy": "True/AllControllersReady",
    "BufferOverflow": "False/BufferDrained",
    "Hardened": "True/NothingOpen",
}


def test_a_connected_cluster_says_so_and_who_it_is_RES_3() -> None:
    life = connected()

    assert life.says() == WELL
    status = life.live["status"]
    assert status["lastHeartbeat"] == "2026-01-01T00:00:00Z"
    assert status["credentialsSecretRef"] == {"name": "vworkspace-agent-credentials"}
    assert status["managedNamespaces"] == ["org-a", "org-b"]
    assert (status["operatorVersion"], status["observedGeneration"]) == ("1.2.3", 3)
    assert status["installedEngines"] == sorted(ENGINES)
    assert life.events == ["RoundTripOK"], "good news that were never bad are no Event"


def test_the_status_fits_the_kind_and_carries_the_version_it_was_decided_on_REC_6() -> None:
    decision = Life().up().decide()

    assert decision.status is not None
    assert decision.status["metadata"]["resourceVersion"] == "7"
    whole = {**manifest(), "status": decision.status["status"]}
    assert validate_strict(whole) == ()
    assert admit(whole) == ()


def test_without_an_agent_nothing_is_connected_and_nothing_lost_SEE_4() -> None:
    """What an agent of before has left goes; the heartbeat goes on, as the sign of life of the operator."""
    life = connected().restart()
    life.agent = False
    (event,) = life.look().events
    assert (event.type, event.reason) == ("Normal", "NoAgent"), "as configured"

    assert life.says() == {
        "Connected": "False/NoAgent",
        "Disconnected": "False/NoAgent",
        "ControllersHealthy": "True/AllControllersReady",
        "Hardened": "True/NothingOpen",
    }
    assert "--no-agent" in life.told("Connected")
    assert life.events == ["RoundTripOK", "NoAgent"]
    assert validate_strict({**manifest(), "status": life.live["status"]}) == ()
    assert admit({**manifest(), "status": life.live["status"]}) == ()
    for _ in range(200):
        life.after(30).look()
    assert len(life.writes) == 102, "and then nothing is written but the heartbeat, once a minute"
    assert life.live["status"]["lastHeartbeat"] == "2026-01-01T01:40:00Z"

    life.agent = True
    life.restart().up().look()
    assert life.says() == WELL


def test_the_object_that_is_made_without_an_agent_names_no_control_plane_SEE_4() -> None:
    made = cluster_manifest(ID, "")

    assert made["spec"] == {"clusterId": ID}
    assert validate_strict(made) == ()


def test_an_outage_is_told_once_and_says_since_when_and_what_waits() -> None:
    life = connected().after(60)
    life.look()
    life.pending = PendingDeliveries(results=2, statuses=1, events=417)
    life.down().look()
    assert life.says()["Connected"] == "True/RoundTripOK", "one poll that failed is no news"

    life.after(12).down().look()
    assert life.says()["Connected"] == "False/ControlPlaneUnreachable"
    assert life.says()["Authenticated"] == "True/CredentialAccepted", "nothing is known about it"
    assert life.told("Connected") == (
        f"since 2026-01-01T00:01:00Z: {AWAY.message}; waiting: acks and results 2, statuses 1, events 417"
    )
    events, writes = list(life.events), len(life.writes)
    for _ in range(60):
        life.after(3).down().look()
    assert life.says()["Disconnected"] == "False/RoundTripOK"
    assert (life.events, len(life.writes)) == (events, writes), "nothing new, nothing written"

    life.after(60).down().look()
    assert life.says()["Disconnected"] == "True/NoRecentRoundTrip"
    assert life.told("Disconnected") == "no round trip since 2026-01-01T00:00:00Z"

    life.pending = PendingDeliveries()
    life.after(600).up().look()
    assert life.says() == WELL
    assert life.events == [
        "RoundTripOK",
        "ControlPlaneUnreachable",
        "NoRecentRoundTrip",
        "RoundTripOK",
        "RoundTripOK",
    ]


def test_counts_in_messages_are_written_once_a_minute_at_most() -> None:
    life = connected().after(1).down().after(20).down()
    for second in range(300):
        life.pending = PendingDeliveries(events=second)
        life.after(1).look()

    assert len(life.writes) <= 3 + 300 / HEARTBEAT_SECONDS
    assert "events" in life.told("Connected")


def test_in_the_steady_state_only_the_heartbeat_is_written_once_a_minute_REC_6() -> None:
    life = connected()
    for _ in range(3600 // 5):
        life.after(5).up().look()

    assert len(life.writes) == 61
    assert life.events == ["RoundTripOK"]


def test_while_it_is_away_and_nothing_moves_nothing_is_written() -> None:
    life = connected().down().after(20).down()
    life.look()
    life.after(300).look()
    writes = len(life.writes)
    for _ in range(100):
        life.after(60).down().look()

    assert len(life.writes) == writes


@pytest.mark.parametrize("state", ["connected", "away", "disconnected", "rejected"])
def test_a_restart_changes_no_condition(state: str) -> None:
    life = connected()
    if state != "connected":
        life.down(Unauthorized("no") if state == "rejected" else AWAY)
        for _ in range(3 if state == "away" else 100):
            life.after(10).look()
    before, events = life.says(), list(life.events)

    life.restart().look()
    life.after(5).look()

    assert (life.says(), life.events) == (before, events)


def test_a_restart_alone_writes_nothing_and_the_heartbeat_goes_on_within_its_minute() -> None:
    life = connected().after(60).up()
    life.look()
    writes = len(life.writes)

    life.after(10).restart().up().look()
    assert len(life.writes) == writes
    for _ in range(11):
        life.after(5).up().look()

    assert life.writes[writes:] == [120.0]


def test_a_clock_that_was_set_back_does_not_hold_the_heartbeat_up() -> None:
    life = connected().after(5)
    life.wall = timedelta(hours=-24)

    life.restart().up().look()

    assert life.live["status"]["lastHeartbeat"] == "2025-12-31T00:00:05Z"


def test_a_heartbeat_that_somebody_else_wrote_is_replaced() -> None:
    life = connected()
    life.live["status"]["lastHeartbeat"] = "soon"

    life.restart().up().look()

    assert life.live["status"]["lastHeartbeat"] == "2026-01-01T00:00:00Z"


def test_a_rejected_credential_names_the_cure_PULL_7() -> None:
    life = connected().down(Unauthorized("token=hunter2 is not known"))
    life.look()

    assert life.says()["Authenticated"] == "False/CredentialRejected"
    assert life.says()["Connected"] == "True/RoundTripOK", "it was reached, and it said no"
    assert "Secret vworkspace-agent-credentials" in life.told("Authenticated")
    assert "hunter2" not in str(life.live)
    assert life.events[-1] == "CredentialRejected"


def test_a_rejected_credential_that_is_past_its_end_is_called_expired() -> None:
    life = connected()
    life.expires = NOW
    life.after(1).down(Forbidden("no")).look()

    assert life.says()["Authenticated"] == "False/CredentialExpired"


def test_clocks_that_differ_too_much_are_a_condition_until_they_agree_PULL_12() -> None:
    life = connected()
    assert "ClockSkew" not in life.says(), "nothing is said of clocks that agree"
    life.apart = "the control plane's clock is 60 minutes ahead"
    life.up().look()
    assert life.says()["ClockSkew"] == "True/ClocksDiffer"
    assert life.told("ClockSkew") == life.apart
    life.restart().after(5).look()
    assert life.says()["ClockSkew"] == "True/ClocksDiffer", "a restart moves no condition"

    life.apart = ""
    life.up().look()
    assert life.says()["ClockSkew"] == "False/ClocksAgree"
    assert life.events[-2:] == ["ClocksDiffer", "ClocksAgree"]


def test_an_overflow_counts_what_was_dropped_and_ends_with_BufferDrained_PULL_5() -> None:
    life = connected()
    life.outbox = Outbox(capacity=2).put([{"eventKey": str(number)} for number in range(5)])
    life.after(1).look()
    assert life.says()["BufferOverflow"] == "True/EventBufferFull"
    assert life.told("BufferOverflow").startswith("3 events were dropped")

    life.outbox = life.outbox.with_snapshot(()).sent(life.outbox.events)
    life.after(1).look()
    assert life.says()["BufferOverflow"] == "False/BufferDrained"
    assert life.events[-2:] == ["EventBufferFull", "BufferDrained"]


def test_controllers_that_are_missing_or_cannot_be_seen_are_named() -> None:
    life = connected()
    life.watched = {
        **EVERYTHING,
        known.HELM_RELEASE: InformerReport(served=False),
        known.WORKFLOW: InformerReport(served=False),
    }
    life.after(1).look()
    assert life.says()["ControllersHealthy"] == "False/ControllerMissing"
    assert life.told("ControllersHealthy") == (
        "helm-controller: helmreleases.helm.toolkit.fluxcd.io not installed. To fix: install "
        "Flux (https://fluxcd.io/flux/installation)"
    ), "an engine that is not installed is no fault"
    assert "workflow" not in life.live["status"]["installedEngines"]

    passing, lasting = (
        InformerReport(failures=5, trouble="x"),
        InformerReport(failures=6, trouble="listing is forbidden"),
    )
    life.watched = {**EVERYTHING, known.NAMESPACE: lasting, known.VELERO_BACKUP: passing}
    life.after(1).look()
    assert life.says()["ControllersHealthy"] == "False/ControllerDegraded"
    assert life.told("ControllersHealthy") == "kube-apiserver: Namespace cannot be watched: listing is forbidden"


def test_only_engines_without_a_controller_are_always_installed() -> None:
    """The registry declares what each engine needs (OPS-6)."""
    assert installed_engines({}) == ("helmHookJob", "job"), "their kinds are always served"
    for name, engine in ENGINES.items():
        definitions = engine.controller.definitions if engine.controller is not None else ()
        watched = {kind: InformerReport() for kind in definitions}
        assert name in installed_engines(watched)
        assert all(
            name not in installed_engines(watched | {kind: InformerReport(served=False)}) for kind in definitions
        )


def test_the_Cluster_of_another_id_is_left_alone() -> None:
    life = Life(live=manifest("cluster-other")).up()

    assert life.decide() == Decision()


def test_conditions_of_others_are_left_alone_RES_4() -> None:
    foreign = {"type": "Audited", "status": "True", "reason": "ByHand", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    decision = Life(live=manifest(conditions=[foreign])).up().decide()

    assert decision.status is not None
    assert "Audited" not in [condition["type"] for condition in decision.status["status"]["conditions"]]


@pytest.mark.parametrize("cluster_id", ["a", "Prod_1", "eu.west.1", "x" * 63])
def test_the_object_that_is_made_has_a_name_that_a_server_takes(cluster_id: str) -> None:
    made = cluster_manifest(cluster_id, "https://odoo.example.com")

    assert validate_strict(made) == ()
    assert set(made["metadata"]["name"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_no_password_of_a_url_lands_in_the_object() -> None:
    made = cluster_manifest(ID, "https://agent:hunter2@odoo.example.com/a@b")

    assert made["spec"]["controlPlaneEndpoint"] == "https://odoo.example.com/a@b"


def test_a_wall_clock_that_is_stepped_by_a_day_disconnects_nothing() -> None:
    life = connected()
    for step in (timedelta(days=1), timedelta(days=-2), timedelta(0)):
        life.wall += step
        life.after(30).up().look()
        life.after(30).look()

    assert life.says() == WELL
    assert life.events == ["RoundTripOK"]


MOVES = st.sampled_from(["up", "away", "rejected", "restart", "overflow", "drain", "wait", "trouble", "well", "step"])


@given(st.lists(st.tuples(MOVES, st.floats(0, 400)), max_size=40))
def test_whatever_happens_the_status_is_lawful(moves: list[tuple[str, float]]) -> None:
    life = Life()
    for move, seconds in moves:
        before = life.says()
        known_before = life.link.connectivity
        match move:
            case "up":
                life.up()
            case "away" | "rejected":
                life.down(AWAY if move == "away" else Unauthorized("no"))
            case "restart":
                life.restart()
            case "overflow":
                life.outbox = Outbox(capacity=1).put([{"eventKey": "a"}, {"eventKey": "b"}])
            case "drain":
                life.outbox = Outbox()
            case "trouble":
                life.watched = {**EVERYTHING, known.SECRET: InformerReport(failures=9, trouble="down")}
            case "well":
                life.watched = EVERYTHING
            case "step":
                life.wall += timedelta(seconds=seconds - 200)
        life.look()
        assert not life.decide().events, "told once"
        assert life.decide().status is None, "written once"
        if move == "wait" and known_before is Connectivity.CONNECTED and seconds < 300:
            assert {**life.says(), "Disconnected": ""} == {**before, "Disconnected": ""} or not before
        _lawful(life)
        life.after(seconds).look()
        _lawful(life)
        again = life.decide().requeue.after
        assert again is not None
        assert 0 < again <= HEARTBEAT_SECONDS


def _lawful(life: Life) -> None:
    conditions = get_path(life.live, "status", "conditions") or ()
    for condition in conditions:
        assert is_admitted("Cluster", condition["type"], condition["status"], condition["reason"])
        parse_time(condition["lastTransitionTime"])
    assert len({condition["type"] for condition in conditions}) == len(conditions)
    said = life.says()
    if life.link.connectivity is Connectivity.CONNECTED:
        assert said["Connected"].startswith("True")
        assert said["Authenticated"].startswith("True")
    assert isinstance(read_cluster(life.live), Cluster)


@given(st.sampled_from([0.0, 1.0, 59.0, 59.95, 60.0, 61.0, 299.0, 300.0, 301.0]), st.booleans())
def test_the_next_look_is_at_the_next_moment_that_is_still_to_come(passed: float, is_down: bool) -> None:
    """A deadline that is reached exactly, or within a rounding error, is over: it is not awaited again at once."""
    life = connected()
    if is_down:
        life.down()
    life.after(passed).look()
    life.after(0.25)

    found = life.decide().requeue.after

    assert found is not None
    since_written = life.seconds - (life.written or 0.0)
    ends = [WINDOW_SECONDS, *([DAMPING_SECONDS] if is_down else [])]
    left = [end - life.seconds for end in ends if end > life.seconds]
    beats = (HEARTBEAT_SECONDS, HEARTBEAT_SECONDS - since_written)
    assert any(found == pytest.approx(max(0.1, min([beat, *left]))) for beat in beats)


def test_a_control_plane_that_refuses_the_credential_was_reached_and_says_so_SEE_4() -> None:
    life = connected().down(Unauthorized("no")).after(1)
    life.look()

    assert life.says()["Connected"] == "True/RoundTripOK"
    assert life.told("Connected").startswith("the credential is rejected")
