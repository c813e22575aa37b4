"""The overview as plain data, for `-o json` and for pages."""

from collections.abc import Iterable
from typing import Any

from purekube.apimachinery.timestamps import format_time
from vworkspace_core.overview.replicas import AtWork
from vworkspace_core.overview.summary import Summary
from vworkspace_core.overview.tree import Branch


def summary_data(summary: Summary) -> dict[str, Any]:
    """Return one object's data; unknown values are left out."""
    ref = summary.ref
    said = {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "state": summary.state.value,
        "reason": summary.reason,
        "message": summary.message,
        "suspended": summary.is_suspended,
        "wantedVersion": summary.wanted,
        "deployedVersion": summary.deployed,
        "since": None if summary.since is None else format_time(summary.since),
        "nextLook": summary.next_look,
        "remedies": list(summary.remedies),
        "advice": summary.advice,
    }
    return {name: value for name, value in said.items() if value}


def branch_data(branch: Branch) -> dict[str, Any]:
    """Return the data of one object and of everything below it."""
    children = [branch_data(child) for child in branch.children]
    more = {"node": branch.node, "deployed": branch.runs, "waitsFor": list(branch.waits_for), "children": children}
    return {**summary_data(branch.summary), **{name: value for name, value in more.items() if value}}


def shard_data(one: AtWork) -> dict[str, Any]:
    """Return who leads one shard; unknown values are left out."""
    heard = None if one.heard is None else format_time(one.heard)
    said = {"shard": str(one.shard), "holder": one.holder, "heard": heard}
    return {name: value for name, value in said.items() if value}


def state_counts(summaries: Iterable[Summary]) -> dict[str, int]:
    """Return the number of objects in each state, the most frequent state first, then by name."""
    number: dict[str, int] = {}
    for summary in summaries:
        number[summary.state.value] = number.get(summary.state.value, 0) + 1
    return dict(sorted(number.items(), key=lambda each: (-each[1], each[0])))
