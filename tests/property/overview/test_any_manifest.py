"""The overview says something of any object that an API server can hold, and never more than it knows (SEE-1)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind, canonical_json
from purekube.apimachinery.resources import HELM_RELEASE
from tests.support.strategies import json_values
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.overview.job_list import event_entry, job_entries, job_line
from vworkspace_core.overview.object_graph import graph_of_tree, walk
from vworkspace_core.overview.object_list import ListQuery, list_view, row_of
from vworkspace_core.overview.origin import origin_of
from vworkspace_core.overview.summary import OverviewState, summary_of
from vworkspace_core.overview.timeline import entries_of, last_entries
from vworkspace_core.overview.tree import branch_data, refs_of, tree_of

TYPES = ["Ready", "Reconciling", "Stalled", "Blocked", "Running", "Succeeded", "Failed", "ControllersHealthy"]


def conditions() -> st.SearchStrategy[Any]:
    """Plausible ones, and anything."""
    plausible = st.fixed_dictionaries(
        {"type": st.sampled_from(TYPES), "status": st.sampled_from(["True", "False", "Unknown"])},
        optional={name: json_values(3) for name in ("reason", "message", "lastTransitionTime", "reasonTransitionTime")},
    )
    return st.lists(plausible | json_values(3), max_size=5) | json_values(3)


def manifests(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """An object of that kind with any status and any metadata beside its name."""
    head = kind.manifest("a", "n" if kind.namespaced else None)
    return st.builds(
        lambda more, status, spec: {**head, "metadata": {**more, **head["metadata"]}, "spec": spec, "status": status},
        st.dictionaries(
            st.sampled_from(["uid", "labels", "annotations", "managedFields", "ownerReferences"]), json_values(4)
        ),
        st.fixed_dictionaries({"conditions": conditions(), "observedGeneration": json_values(1)}) | json_values(4),
        json_values(4),
    )


@pytest.mark.slow
@given(st.sampled_from(OWN_KINDS), st.data())
def test_any_object_has_a_summary_that_is_plain_data_SEE_1(kind: Kind, data: st.DataObject) -> None:
    manifest = data.draw(manifests(kind))
    others = refs_of(HELM_RELEASE, [data.draw(manifests(HELM_RELEASE))]) | refs_of(
        OPERATION, [data.draw(manifests(OPERATION))]
    )
    branch = tree_of(kind, manifest, others)
    assert canonical_json(branch_data(branch))
    assert str(origin_of(manifest))


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("value", [1, "a", ["a"]])
def test_the_origin_of_metadata_that_is_no_mapping_is_unknown_SEE_1(field: str, value: Any) -> None:
    """Examples that Hypothesis found."""
    assert str(origin_of({"metadata": {field: value}})) == "applied directly (writer unknown)"


@given(manifests(HELM_RELEASE), json_values(3))
@example(HELM_RELEASE.manifest("a", "n"), 5)
def test_whatever_stands_in_owner_references_is_read_SEE_1(live: dict[str, Any], owners: Any) -> None:
    parent = Kind("x.test", "v1", "Shop", "shops").manifest("s", "n")
    parent["metadata"]["uid"] = "u-1"
    live = {**live, "metadata": {**live["metadata"], "ownerReferences": owners}}
    assert not tree_of(Kind("x.test", "v1", "Shop", "shops"), parent, refs_of(HELM_RELEASE, [live])).children


@given(manifests(APPLICATION_INSTANCE))
@example({**APPLICATION_INSTANCE.manifest("a", "n"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
@example({**APPLICATION_INSTANCE.manifest("a", "n"), "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": []}, {"type": "Reconciling", "status": "True"}]}})  # fmt: skip
def test_nothing_is_called_ready_that_does_not_say_so_SEE_1(manifest: dict[str, Any]) -> None:
    if summary_of(APPLICATION_INSTANCE, manifest).state is OverviewState.READY:
        assert any(each.get("status") == "True" for each in manifest["status"]["conditions"] if isinstance(each, dict))


@given(manifests(CLUSTER))
def test_what_is_asked_twice_is_answered_alike_SEE_1(manifest: dict[str, Any]) -> None:
    assert summary_of(CLUSTER, manifest) == summary_of(CLUSTER, manifest)


@given(st.sampled_from(OWN_KINDS), st.data())
def test_any_object_has_a_row_a_drawing_and_a_timeline_SEE_3(kind: Kind, data: st.DataObject) -> None:
    manifest = data.draw(manifests(kind))
    row = row_of(kind, manifest)
    assert list_view([row], ListQuery(text="a")).total == 1
    object_graph = graph_of_tree(tree_of(kind, manifest, {}), origin_of(manifest))
    assert [node.name for node in walk(object_graph)][1] == "a"
    assert all(entry.at.tzinfo is not None for entry in last_entries(entries_of(kind, manifest)))


@given(st.dictionaries(st.sampled_from(["id", "job", "statuses", "result", "ackedAt", "offers"]), json_values(4)))
def test_any_job_of_an_admin_api_is_a_line_SEE_3(entry: dict[str, Any]) -> None:
    assert list(job_entries(job_line(entry))) is not None
    event_entry(entry)
