"""SEE-3: rows, filters with counts, drawings and timelines, as pure functions."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    JOB,
    NAMESPACE,
    OCI_REPOSITORY,
    POD,
)
from purekube.apimachinery.secret_material import safe
from purekube.graph.states import NodeState
from tests.support.builders import instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID, OPERATION_UID
from vworkspace_core.overview.job_list import job_entries, job_line
from vworkspace_core.overview.object_graph import MOST_NODES, graph_of_tree, walk
from vworkspace_core.overview.object_list import (
    Choice,
    ListQuery,
    ListRow,
    headline_of,
    list_view,
    row_of,
)
from vworkspace_core.overview.origin import ObjectOrigin
from vworkspace_core.overview.severity import Severity, severity_of, severity_of_node
from vworkspace_core.overview.summary import OverviewState, Summary, redacted_summary, summary_of
from vworkspace_core.overview.timeline import entries_of, last_entries, last_transition
from vworkspace_core.overview.tree import Branch, tree_of

STATES = (OverviewState.READY, OverviewState.STALLED, OverviewState.PROGRESSING)


def rows(number: int) -> list[ListRow]:
    return [
        ListRow(
            ObjectRef(APPLICATION_INSTANCE, f"ns-{at % 4}", f"app-{at:04}"), STATES[at % 3], "Reason", f"message {at}"
        )
        for at in range(number)
    ]


def test_a_page_holds_a_hundred_rows_and_counts_all_of_them_SEE_3() -> None:
    view = list_view(rows(2000), ListQuery(state="Ready", page=99))
    assert (view.found, view.total, view.pages, view.query.page, len(view.rows)) == (667, 2000, 7, 7, 67)
    assert {state.value: state.count for state in view.states} == {"Stalled": 667, "Progressing": 666, "Ready": 667}
    assert [state.value for state in view.states] == ["Stalled", "Progressing", "Ready"], "what wants help comes first"
    assert sum(namespace.count for namespace in view.namespaces) == 667, (
        "other filters bear on a choice, its own does not"
    )
    assert [state.value for state in view.states if state.is_chosen] == ["Ready"]


@pytest.mark.parametrize("place", ["name", "namespace", "about", "reason", "message"])
def test_a_row_is_found_by_each_of_its_texts_alone_SEE_3(place: str) -> None:
    texts = {**dict.fromkeys(("name", "namespace", "about", "reason", "message"), "x"), place: "a NEEDLE here"}
    ref = ObjectRef(APPLICATION_INSTANCE, texts["namespace"], texts["name"])
    row = ListRow(ref, OverviewState.READY, texts["reason"], texts["message"], about=texts["about"])

    assert list_view([row, *rows(2)], ListQuery(text="Needle")).rows == (row,)


@pytest.mark.parametrize(
    ("states", "text", "severity", "needs"),
    [
        ("", "Nothing is here yet", Severity.QUIET, 0),
        ("r", "Nothing needs you: 1 object", Severity.GOOD, 0),
        ("rr", "Nothing needs you: 2 objects", Severity.GOOD, 0),
        ("p", "Nothing needs you; 1 of 1 object in progress", Severity.MOVING, 0),
        ("prp", "Nothing needs you; 2 of 3 objects in progress", Severity.MOVING, 0),
        ("s", "1 of 1 object needs you", Severity.BAD, 1),
        ("rs", "1 of 2 objects needs you", Severity.BAD, 1),
        ("sps", "2 of 3 objects need you", Severity.BAD, 2),
    ],
)
def test_the_headline_counts_what_needs_a_person_or_is_in_progress_SEE_3(
    states: str, text: str, severity: Severity, needs: int
) -> None:
    of = {"r": OverviewState.READY, "p": OverviewState.PROGRESSING, "s": OverviewState.STALLED}
    listed = [ListRow(ObjectRef(JOB, "ns", f"a{at}"), of[state], "", "") for at, state in enumerate(states)]
    found = headline_of(listed)

    assert (found.text, found.severity, len(found.needs), found.left_out) == (text, severity, needs, 0)


def test_rows_may_come_one_by_one_SEE_3() -> None:
    assert list_view(iter(rows(5)), ListQuery(state="Ready")) == list_view(rows(5), ListQuery(state="Ready"))


def test_objects_without_a_namespace_are_no_choice_of_one() -> None:
    whole_cluster = ListRow(ObjectRef(NAMESPACE, None, "a"), OverviewState.READY, "Reason", "message")

    assert [choice.value for choice in list_view([whole_cluster, *rows(1)], ListQuery()).namespaces] == ["ns-0"]


def test_filters_that_let_nothing_through_are_still_shown_SEE_3() -> None:
    view = list_view(rows(3), ListQuery(kind="Nothing", state="Odd", text="app"))
    assert (view.rows, view.found, view.pages) == ((), 0, 1)
    assert ("Odd", 0, True) in [(state.value, state.count, state.is_chosen) for state in view.states]


def test_a_row_tells_what_it_is_and_never_what_is_in_its_spec_SEE_3() -> None:
    manifest = instance_manifest("app", values={"source": "inline", "inline": {"note": "canary-1"}})
    manifest["status"] = {
        "conditions": [{"type": "Ready", "status": "False", "reason": "Odd", "message": "password=canary-2"}]
    }
    row = row_of(APPLICATION_INSTANCE, manifest)
    assert (row.about, row.wanted, row.deployed) == ("nextcloud", "6.6.0", "")
    assert (row.severity, row.reason) == (Severity.WAITING, "Odd")
    assert "canary" not in str(row)
    assert row_of(OPERATION, operation_manifest("b", target="app")).about == "Backup by velero on app"
    assert row_of(HELM_RELEASE, HELM_RELEASE.manifest("app", "ns")).about == ""


def test_below_an_operation_is_what_is_labelled_and_below_another_object_what_it_owns_SEE_3() -> None:
    def made(kind: Kind, name: str, *, of: str = "", owner: str = "") -> tuple[ObjectRef, dict[str, Any]]:
        labels, owners = {OPERATION_UID: of} if of else {}, [{"uid": owner}] if owner else []
        meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": labels, "ownerReferences": owners}
        return ObjectRef(kind, "ns", name), {**kind.manifest(name, "ns"), "metadata": meta}

    objects = dict(
        (
            made(JOB, "run", of="u-op"),
            made(POD, "labelled", of="u-op"),
            made(POD, "of-run", owner="u-run"),
            made(CONFIG_MAP, "owned", owner="u-op"),
            made(JOB, "another", of="u-other"),
        )
    )
    found = tree_of(OPERATION, made(OPERATION, "op")[1], objects)
    assert [(one.summary.ref.name, [below.summary.ref.name for below in one.children]) for one in found.children] == [
        ("run", ["of-run"])
    ]
    other = tree_of(JOB, made(JOB, "op")[1], objects)
    assert [one.summary.ref.name for one in other.children] == ["owned"]


def test_every_state_has_a_tone_SEE_3() -> None:
    assert {severity_of(state) for state in OverviewState} == set(Severity)
    assert {severity_of_node(state) for state in NodeState} == set(Severity)


def branch(
    kind: Kind, name: str, state: OverviewState = OverviewState.READY, *children: Branch, of: Kind | None = None
) -> Branch:
    """An object; `of`: it is made from the object of that kind and name."""
    made_from = () if of is None else (ObjectRef(of, "ns", of.kind.lower()),)
    return Branch(Summary(ObjectRef(kind, "ns", name), state), children, made_from=made_from)


def test_sources_and_release_are_a_chain_and_runs_lie_beside_it_SEE_3() -> None:
    tree = branch(
        APPLICATION_INSTANCE,
        "app",
        OverviewState.PROGRESSING,
        branch(HELM_REPOSITORY, "helmrepository"),
        branch(HELM_CHART, "helmchart", OverviewState.PROGRESSING, of=HELM_REPOSITORY),
        branch(HELM_RELEASE, "release", OverviewState.NOT_READY, of=HELM_CHART),
        branch(OPERATION, "backup"),
    )
    object_graph = graph_of_tree(tree, ObjectOrigin(job="ApplicationInstance/ns/app@7"))
    assert [(node.name, node.column, node.row) for node in walk(object_graph)] == [
        ("app@7", 0, 0),
        ("app", 1, 0),
        ("helmrepository", 2, 0),
        ("backup", 2, 1),
        ("helmchart", 3, 0),
        ("release", 4, 0),
    ]
    shut = [
        (edge.source.rpartition("/")[2], edge.target.rpartition("/")[2])
        for edge in object_graph.edges
        if not edge.is_open
    ]
    assert shut == [("helmchart", "release")], "the chart is not ready: the release waits"


def test_two_sources_stand_beside_each_other_and_the_release_follows_its_own_SEE_3() -> None:
    """While an upgrade is not in use yet, the source of before is still there: neither is made from the other."""
    manifest = instance_manifest("app")
    manifest["metadata"]["uid"] = "u-1"
    ours = {"labels": {INSTANCE_UID: "u-1"}, "namespace": "ns"}
    objects: dict[ObjectRef, Any] = {
        ObjectRef(OCI_REPOSITORY, "ns", name): {
            **OCI_REPOSITORY.manifest(name, "ns"),
            "metadata": {**ours, "name": name},
        }
        for name in ("app-new", "app-old")
    }
    spec = {"chartRef": {"kind": "OCIRepository", "name": "app-new"}}
    release = {**HELM_RELEASE.manifest("app", "ns"), "metadata": {**ours, "name": "app"}, "spec": spec}
    objects[ObjectRef(HELM_RELEASE, "ns", "app")] = release
    object_graph = graph_of_tree(tree_of(APPLICATION_INSTANCE, manifest, objects), ObjectOrigin())
    assert [(node.name, node.column) for node in walk(object_graph)][1:] == [
        ("app", 1),
        ("app-new", 2),
        ("app-old", 2),
        ("app", 3),
    ]
    into_release = [edge.source for edge in object_graph.edges if "helmreleases" in edge.target]
    assert [source.rpartition("/")[2] for source in into_release] == ["app-new"]


def test_test_hooks_of_a_release_stand_below_it_with_their_results_SEE_3() -> None:
    manifest = instance_manifest("app")
    manifest["metadata"]["uid"] = "u-1"
    hooks = {
        "app-smoke": {"phase": "Failed", "lastStarted": "2026-01-01T00:00:00Z"},
        "app-login": {"phase": "Succeeded"},
    }
    release = {
        **HELM_RELEASE.manifest("app", "ns"),
        "status": {"history": [{"testHooks": hooks}, {"testHooks": {"old": {}}}]},
    }
    release["metadata"]["labels"] = {INSTANCE_UID: "u-1"}
    tree = tree_of(APPLICATION_INSTANCE, manifest, {ObjectRef(HELM_RELEASE, "ns", "app"): release})
    drawn = {node.name: (node.kind, node.severity) for node in graph_of_tree(tree, ObjectOrigin()).nodes}
    assert drawn["app-smoke"] == ("Pod", Severity.BAD)
    assert drawn["app-login"] == ("Pod", Severity.GOOD)
    assert "old" not in drawn, "hooks of former releases say nothing of this one"


def test_a_drawing_is_bounded_SEE_3() -> None:
    tree = branch(
        APPLICATION_INSTANCE, "app", OverviewState.READY, *(branch(OPERATION, f"run-{at}") for at in range(999))
    )
    object_graph = graph_of_tree(tree, ObjectOrigin())
    assert (len(object_graph.nodes), object_graph.left_out) == (MOST_NODES, 1001 - MOST_NODES)
    assert len({(node.column, node.row) for node in object_graph.nodes}) == MOST_NODES


def test_a_timeline_has_conditions_and_runs_the_newest_first_SEE_3() -> None:
    run: dict[str, Any] = operation_manifest("b")
    run["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    run["status"] = {
        "startedAt": "2026-01-01T00:01:00Z",
        "conditions": [
            {"type": "Failed", "status": "True", "reason": "Timeout", "lastTransitionTime": "2026-01-01T00:02:00Z"},
            {"type": "Odd", "lastTransitionTime": "no time"},
        ],
    }
    entries = last_entries(entries_of(OPERATION, run), 3)
    assert [entry.what for entry in entries] == ["Failed is True: Timeout", "run started", "created"]
    assert [entry.severity for entry in entries] == [Severity.BAD, Severity.MOVING, Severity.QUIET]
    assert last_entries(entries, 1)[0].at == datetime(2026, 1, 1, 0, 2, tzinfo=UTC)


def test_a_job_is_shown_by_what_it_is_about_and_never_by_its_payload_SEE_3() -> None:
    payload = {"kind": "ApplicationInstance", "metadata": {"namespace": "ns", "name": "app"}, "spec": {"x": "canary"}}
    entry: dict[str, Any] = {
        "id": "job-1", "clusterId": "c", "job": {"kind": "apply", "idempotencyKey": "A/ns/app@1", "payload": payload},
        "offers": 2, "statuses": [{"phase": "applying", "message": "at it"}], "result": None,
        "offeredAt": "2026-01-01T00:00:00+00:00", "ackedAt": "2026-01-01T00:00:01+00:00", "closedAt": None,
    }  # fmt: skip
    line = job_line(entry)
    assert (line.about, line.state, line.message) == ("ApplicationInstance ns/app", "acknowledged", "at it")
    assert [timeline_entry.what for timeline_entry in job_entries(line)] == [
        "job job-1 was offered last",
        "job job-1 was acknowledged",
    ]
    failed = job_line({**entry, "result": {"outcome": "failed", "error": "token=canary"}})
    assert (failed.state, failed.severity) == ("failed", Severity.BAD)
    assert "canary" not in str((line, failed))
    assert job_line({**entry, "job": {"payload": "eyJ.canary"}}).about == "encrypted"


TIMES = ("offeredAt", "ackedAt", "closedAt")


@pytest.mark.parametrize(
    ("told", "outcome", "state", "severity"),
    [
        ("", None, "waits for its agent", Severity.WAITING),
        ("o", None, "offered", Severity.WAITING),
        ("oa", None, "acknowledged", Severity.MOVING),
        ("oac", None, "withdrawn", Severity.QUIET),
        ("c", None, "withdrawn", Severity.QUIET),
        ("oac", "succeeded", "succeeded", Severity.GOOD),
        ("oac", "noop", "noop", Severity.QUIET),
        ("oac", "failed", "failed", Severity.BAD),
        ("oac", "conflict", "conflict", Severity.BAD),
        ("oac", "odd", "odd", Severity.QUIET),
    ],
)
def test_a_job_is_at_the_last_of_its_steps_SEE_3(
    told: str, outcome: str | None, state: str, severity: Severity
) -> None:
    at = {name: f"2026-01-01T00:00:0{number}Z" for number, name in enumerate(TIMES) if name[0] in told}
    entry = {"id": "j", "job": {"payload": {"operation": {"kind": "Operation", "name": "b"}}}, **at}
    line = job_line({**entry, **({"result": {"outcome": outcome}} if outcome else {})})
    assert (line.state, line.severity, line.about, line.offers) == (state, severity, "Operation b", 0)
    assert [each.at.second for each in job_entries(line)] == [number for number, name in enumerate(TIMES) if name in at]


def test_every_text_of_a_row_is_the_summarys_without_its_secrets_SEE_3() -> None:
    manifest = instance_manifest("app")
    told = {
        "type": "Blocked",
        "status": "True",
        "reason": "FieldConflict",
        "message": "x. To hand it back: kubectl get a",
    }
    manifest["status"] = {"conditions": [told], "lastAppliedChart": {"version": "6.5.0"}}
    summary, row = summary_of(APPLICATION_INSTANCE, manifest), row_of(APPLICATION_INSTANCE, manifest)
    lead, remedy = next(iter(summary.steps), ("", ""))
    assert (row.lead, row.remedy, row.advice) == (safe(lead), safe(remedy), safe(summary.advice))
    assert (row.state, row.reason, row.message) == (summary.state, summary.reason, summary.message)
    assert (row.wanted, row.deployed, row.state_text) == (summary.wanted, summary.deployed, summary.state_text)
    assert (row.is_helpable, row.since, row.moved) == (summary.is_helpable, summary.since, last_transition(manifest))
    texts = ("reason", "message", "wanted", "deployed", "override", "advice")
    secrets: dict[str, Any] = {**dict.fromkeys(texts, "password=canary"), "remedies": ("token=canary",)}
    bare = redacted_summary(attrs.evolve(summary, **secrets))
    assert "canary" not in str(bare)


def test_a_long_command_is_shown_whole_SEE_3() -> None:
    """The page offered to copy the first 1,024 bytes of a hand-back command, whose quote is open."""
    command = f"kubectl patch a b --type=json -p '[{'1, ' * 500}1]'"
    blocked = {"type": "Blocked", "status": "True", "reason": "FieldConflict", "message": f"held. To fix: {command}"}
    blocked_instance = {**instance_manifest(), "status": {"conditions": [blocked]}}
    assert row_of(APPLICATION_INSTANCE, blocked_instance).remedy == command
    shown = redacted_summary(summary_of(APPLICATION_INSTANCE, blocked_instance))
    assert shown.remedies == (command,)
    assert shown.message.endswith(command)


def test_a_chosen_namespace_stays_a_choice_however_many_there_are_SEE_3() -> None:
    """A filter that is on and not shown would make a part of the cluster look like all of it."""
    many = [ListRow(ObjectRef(APPLICATION_INSTANCE, f"ns-{at:04}", "app"), OverviewState.READY) for at in range(500)]
    view = list_view(many, ListQuery(namespace="ns-0444"))

    assert [(row.ref.namespace, view.found) for row in view.rows] == [("ns-0444", 1)]
    assert [choice for choice in view.namespaces if choice.is_chosen] == [Choice("ns-0444", 1, True)]
    assert len(view.namespaces) <= 201


def test_the_count_of_what_needs_a_person_is_of_what_its_filter_would_show_SEE_3() -> None:
    stalled = [row for row in rows(30) if row.needs_person]
    view = list_view(rows(30), ListQuery(namespace="ns-1"))

    assert len(stalled) == 10
    assert view.needing == sum(row.ref.namespace == "ns-1" for row in stalled)
    assert view.needing == list_view(rows(30), ListQuery(namespace="ns-1", needs=True)).found
    assert list_view(rows(30), ListQuery(namespace="ns-1", needs=True)).needing == view.needing
