"""RUN-5: dashboard and alerts speak of metrics and labels that exist, and look as Grafana and Prometheus want them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vworkspace_app.observability.catalogue import CATALOGUE, Type

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "observability"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

TARGET = {"namespace", "pod", "job", "instance"}
"""Labels that Prometheus gives every series of a pod."""

PROCESS = {"process_resident_memory_bytes": set[str](), "process_cpu_seconds_total": set[str]()}
WORDS = {"by", "sum", "max", "min", "count", "rate", "increase", "absent", "histogram_quantile", "label_values"}
WORDS |= {"group", "count_values", "unless", "and", "time"}
LABELS: dict[str, set[str]] = PROCESS | {
    name: set(metric.labels) | ({"le"} if name.endswith("_bucket") else set())
    for metric in CATALOGUE
    for name in (
        [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        if metric.type is Type.HISTOGRAM
        else [metric.name]
    )
}


def queries() -> Iterator[tuple[str, str]]:
    """Every expression with where it stands."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"]
    for rule in ALERTS:
        yield f"alert {rule['alert']}", rule["expr"]


QUERIES = dict(queries())


def selectors(query: str) -> list[tuple[str, set[str]]]:
    """Each metric of a query with the labels that its braces and the next `by` around it name.

    A label that `group_left` brings is one of the metric after it, which has none of the others.
    """
    joined = re.search(r"group_left \((\w+)\) (\w+)", query)
    brought, other = joined.groups() if joined is not None else ("", "")
    grouped = {label for found in re.findall(r"by\s*\(([^)]*)\)", query) for label in re.findall(r"\w+", found)}
    bare = re.sub(
        r"(?:by|on|group_left)\s*\([^)]*\)|\"[^\"]*\"|\[[^\]]*\]",
        lambda found: '""' if found[0][0] == '"' else "",
        query,
    )
    found = []
    for name, braces in re.findall(r"\b([a-zA-Z_][\w:]*)\b\s*(\{[^}]*\})?", re.sub(r"(?<=\w)\{", " {", bare)):
        if name in WORDS or name in re.findall(r"[{,]\s*(\w+)\s*=", bare):
            continue
        around = {brought} if name == other else grouped - {brought}
        found.append((name, set(re.findall(r"(\w+)\s*[=!]", braces)) | around))
    return found


def test_every_metric_and_label_of_a_query_exists() -> None:
    for place, query in QUERIES.items():
        found = selectors(query)
        assert found, place
        for name, labels in found:
            assert name in LABELS, f"{place}: {name} is no metric of ours"
            assert labels - LABELS[name] - TARGET == set(), f"{place}: {name} has no such label"


@pytest.mark.parametrize("query", ["sum by (nope) (workqueue_depth)", "workqueue_deep", 'workqueue_depth{nope="x"}'])
def test_a_query_about_what_does_not_exist_would_be_found(query: str) -> None:
    assert any(name not in LABELS or labels - LABELS[name] - TARGET for name, labels in selectors(query))


def test_a_counter_is_asked_for_its_rate_and_brackets_close() -> None:
    counters = {metric.name for metric in CATALOGUE if metric.type is Type.COUNTER}

    for place, query in QUERIES.items():
        for name in {name for name, _ in selectors(query)} & counters:
            assert re.search(rf"(rate|increase)\({name}\b", query), place
        for opened, closed in ("()", "{}", "[]"):
            assert query.count(opened) == query.count(closed), place


def test_legends_name_labels_that_their_query_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {label for labels in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in labels.split(", ")}
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= kept - {"le"}, panel["title"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells += [(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]

    assert len(ids) == len(set(ids))
    assert len(cells) == len(set(cells))
    assert all(panel["description"].endswith(".") for panel in PANELS)


def test_alerts_are_named_once_and_say_how_bad_and_what_to_do() -> None:
    names = [rule["alert"] for rule in ALERTS]

    assert len(names) == len(set(names))
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) - {"runbook"} == {"summary", "description"}
        kept = {label for labels in re.findall(r"by\s*\(([^)]*)\)", rule["expr"]) for label in labels.split(", ")}
        named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert named <= kept, rule["alert"]
        if "for" in rule:
            assert re.fullmatch(r"[0-9]+[smh]", rule["for"])


def test_objects_are_counted_over_all_shards_and_once_for_all_replicas_of_a_shard_RUN_13() -> None:
    """With --shard, the largest number is that of one shard; without, a sum counts each replica."""
    per_shard = "instances|operations|parents|managed_namespaces"
    counts = {place: query for place, query in QUERIES.items() if re.search(rf"operator_({per_shard})\{{", query)}

    assert len(counts) == 6
    for place, query in counts.items():
        assert re.match(r"sum (by \([^)]*\) )?\(max by \(namespace, shard[,)]", query), place
        assert "* on (job, instance) group_left (shard) vworkspace_operator_shard_info" in query


def test_what_the_specification_asks_for_is_watched_by_the_dashboard() -> None:
    shown = {name.removesuffix("_bucket") for query in QUERIES.values() for name, _ in selectors(query)}

    assert {metric.name for metric in CATALOGUE} - shown == set()
