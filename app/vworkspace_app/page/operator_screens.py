"""The screens of an operator's page, and the parts that they consist of (SEE-3)."""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from datetime import datetime
from heapq import nsmallest
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, metadata, ref_of
from purekube.apimachinery.resources import HELM_RELEASE, POD
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_at
from purekube.controller.informer.messages import InformerPhase
from purekube_run.controller.informer_stats import InformerStats
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.page.drawing import graph_part
from vworkspace_app.page.lanes import lanes_part
from vworkspace_app.page.screens import PageContent, ScreenPart
from vworkspace_app.page.surroundings import CachedObject
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OWN_KINDS
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.jobs.state import JobState
from vworkspace_core.overview.lanes import Lane, LaneQuery, job_lane, lane_of, lane_view
from vworkspace_core.overview.object_graph import graph_of_parent, graph_of_tree, walk
from vworkspace_core.overview.object_list import ListView
from vworkspace_core.overview.origin import origin_of
from vworkspace_core.overview.severity import Severity, severity_of
from vworkspace_core.overview.summary import redacted_summary, summary_of
from vworkspace_core.overview.timeline import MOST, TimelineEntry, entries_of, last_entries
from vworkspace_core.overview.tree import tree_of

LANES_EVERY: Final = 10.0
"""The seconds after which a timeline is rendered again, since its time axis has moved visibly."""
_OUTCOMES: Final = {
    "succeeded": Severity.GOOD,
    "noop": Severity.QUIET,
    "conflict": Severity.BAD,
    "failed": Severity.BAD,
}
_CONNECTIONS: Final = {
    Connectivity.CONNECTED: Severity.GOOD,
    Connectivity.UNKNOWN: Severity.QUIET,
    Connectivity.UNREACHABLE: Severity.BAD,
    Connectivity.REJECTED: Severity.BAD,
}


def list_screen(view: ListView) -> PageContent:
    """Return the screen of the list of objects: filters with counts, and the rows of the page `view` of the list."""
    rows = tuple(
        (f"row:{row.ref.kind.crd_name}:{row.ref.namespace or ''}:{row.ref.name}", {"row": row}) for row in view.rows
    )
    form = "list_dense" if view.query.dense else "list_row"
    return PageContent(
        "Fleet",
        "fleet",
        (
            ScreenPart("headline", "list_headline.html", {"headline": view.headline, "query": view.query}),
            ScreenPart("states", "list_states.html", {"view": view}),
            ScreenPart("filters", "list_filters.html", {"view": view}),
            ScreenPart("rows", f"{form}s.html", {"found": view.found, "total": view.total}, f"{form}.html", rows),
            ScreenPart("pages", "list_pages.html", {"view": view}),
        ),
        every=LANES_EVERY,  # no change of an object tells that the API server has fallen silent
        tab_title=view.headline.text,
        severity=view.headline.severity,
        has_heading=True,
    )


def gaps_part(gaps: Sequence[str]) -> ScreenPart:
    """Return the part of a screen with `gaps`, sentences about what the page does not see. It is hidden if empty."""
    return ScreenPart("gaps", "gaps.html", {"gaps": gaps})


def object_screen(
    cached_object: CachedObject,
    linked: Set[Kind],
    now: datetime,
    *,
    jobs: Sequence[Lane],
    query: LaneQuery,
    gaps: Sequence[str] = (),
) -> PageContent:
    """Return the screen of one object: its state, its graph (also as a list), and its timeline.

    Objects of the `linked` kinds link to their own pages. The lanes (rows of the timeline) are in the order of cause
    and effect: first `jobs`, then the object, then the objects created for it. `query` has the timeline's options from
    the URL: the time range, and whether only problems are shown. `gaps` are sentences about what the page does not see.
    """
    kind, manifest = cached_object.kind, cached_object.manifest
    summary, origin = redacted_summary(summary_of(kind, manifest)), origin_of(manifest)
    if cached_object.composite is not None and cached_object.observed is not None:
        object_graph = graph_of_parent(cached_object.composite, manifest, cached_object.observed, now)
    else:
        object_graph = graph_of_tree(tree_of(kind, manifest, cached_object.objects), origin)
    ref = ref_of(manifest, kind)
    entries = [*entries_of(kind, manifest)]
    entries += [
        entry
        for other, live in cached_object.objects.items()
        if other.kind != POD  # each reports four conditions, of which three are no news
        for entry in entries_of(other.kind, live)
    ]
    tree = tree_of(kind, manifest, cached_object.objects)
    releases = [live for other, live in cached_object.objects.items() if other.kind == HELM_RELEASE]
    release = releases[0] if kind == APPLICATION_INSTANCE and releases else None
    below = ((child.summary, cached_object.objects.get(child.summary.ref)) for child in tree.children)
    lanes = [*jobs, lane_of(summary, manifest, now, release)]
    lanes += [lane_of(child, live, now) for child, live in below if live is not None]
    namespaces = {one.namespace or "" for one in (ref, *cached_object.objects)}
    head = {
        "summary": summary,
        "severity": severity_of(summary.state),
        "origin": safe(str(origin)),
        "generation": metadata(manifest).get("generation"),
    }
    return PageContent(
        f"{kind.kind} {ref.name}",
        "fleet",
        (
            gaps_part(gaps),
            ScreenPart("head", "object_head.html", head),
            graph_part(object_graph, linked, cached_object.remark),
            lanes_part(lane_view(lanes, query, now, keep_order=True), linked),
            ScreenPart("nodes", "object_nodes.html", {"nodes": list(walk(object_graph)), "linked": linked}),
            timeline_part(last_entries(entries), linked),
        ),
        every=LANES_EVERY,
        scope=frozenset(namespaces) if "" not in namespaces else None,
        tab_title=f"{ref.name}: {summary.state_text}",
        severity=severity_of(summary.state),
    )


def timeline_part(entries: Sequence[TimelineEntry], linked: Set[Kind]) -> ScreenPart:
    """Return the part of a screen with a timeline of the entries, the newest first.

    Objects of the `linked` kinds link to their own pages.
    """
    days: dict[str, list[TimelineEntry]] = {}
    for entry in entries:
        days.setdefault(entry.at.strftime("%Y-%m-%d"), []).append(entry)
    filled = {"days": days, "most": MOST, "count": len(entries), "linked": linked}
    return ScreenPart("timeline", "timeline.html", filled)


def job_lanes(agent: Agent | None, now: datetime, *, about: str = "", only_failed: bool = False) -> list[Lane]:
    """Return a lane (a row with a timeline) for each job that recently got a result, then for each open job.

    Without an `agent` there is none. With `about`, an object's name, only jobs on that object are included; with
    `only_failed`, only failed jobs.
    """
    if agent is None:
        return []
    settled = [
        job_lane(job.id, job.created, job.at, job.outcome, _OUTCOMES.get(job.outcome, Severity.QUIET), now)
        for job in reversed(agent.settled)
        if about in ("", job.about)
    ]
    if only_failed:
        return [lane for lane in settled if lane.severity is Severity.BAD]
    ids = {lane.name for lane in settled}
    return settled + [
        job_lane(job.id, time_at(dict(job.raw), "createdAt"), None, job.stage.value, Severity.MOVING, now)
        for job in sorted(agent.state.jobs.values(), key=lambda job: job.arrival)
        if job.id not in ids and about in ("", str(job.ref))
    ]


def job_entries(agent: Agent | None) -> Iterator[TimelineEntry]:
    """Yield an entry of the timeline for each job to which the agent recently gave a result.

    Without an agent, yield none.
    """
    for job in agent.settled if agent is not None else ():
        severity = _OUTCOMES.get(job.outcome, Severity.QUIET)
        yield TimelineEntry(
            job.at, safe(f"job {job.id}: {job.outcome}"), severity, safe(f"{job.about} {job.error}".strip())
        )


def operator_parts(components: Components) -> Iterator[ScreenPart]:
    """Yield the parts of the screen about the operator itself.

    They show its connection to the control plane, Leases, jobs, worker pools and informers.
    """
    agent = components.agent
    yield ScreenPart(
        "connection", "operator_connection.html", {"connection": _connection(agent), "severities": _CONNECTIONS}
    )
    yield ScreenPart("leases", "operator_leases.html", {"leases": components.leases(), "shard": str(components.shard)})
    yield jobs_part(None if agent is None else agent.state.jobs.values(), job_entries(agent))
    yield ScreenPart(
        "pools", "operator_pools.html", {"pools": [_pool(name, pool) for name, pool in components.worker_pools.items()]}
    )
    informers = _informers(components)
    watched = [informer for informer in informers if not informer["missing"]]
    absent = [informer["kind"] for informer in informers if informer["missing"]]
    yield ScreenPart("informers", "operator_informers.html", {"informers": watched, "absent": absent})


def _connection(agent: Agent | None) -> dict[str, Any] | None:
    if agent is None:
        return None
    report = agent.report()
    state, pending = report.connection, report.pending
    return {
        "state": state.connectivity,
        "since": None if state.since is None else state.since.wall,
        "error": safe(state.error),
        "answers": pending.results,
        "statuses": pending.statuses,
        "events": pending.events,
        "dropped": pending.dropped,
        "apart": safe(report.apart),
        "open": len(agent.state.jobs),
    }


def _pool(name: str, pool: Any) -> dict[str, Any]:
    stats, vitals = pool.stats(), pool.vitals(name)
    return {
        "name": name,
        "ready": sum(stats.queue.ready.values()),
        "delayed": stats.queue.delayed,
        "running": vitals.running,
        "workers": vitals.workers,
        "active": vitals.active,
        "retries": stats.queue.retries,
        "results": stats.results,
    }


def _informers(components: Components) -> list[dict[str, Any]]:
    found = []
    runners = (*components.informers, *components.further)
    for runner in sorted(runners, key=lambda one: (not one.trouble()[0], one.kind.kind, one.kind.group)):
        stats, (trouble, failures) = runner.stats(), runner.trouble()
        is_missing = stats.phase is InformerPhase.MISSING
        found.append(
            {
                "kind": runner.kind.kind,
                "group": runner.kind.group or "core",
                "missing": is_missing,
                "synced": stats.has_synced,
                "objects": stats.objects,
                "kilobytes": stats.bytes // 1024,
                "trouble": "" if is_missing else safe(trouble),  # an engine that is not installed is no trouble
                "failures": failures,
                "severity": _severity_of(stats, bool(trouble)),
            }
        )
    return found


def _severity_of(stats: InformerStats, in_trouble: bool) -> Severity:
    if stats.phase is InformerPhase.MISSING:
        return Severity.QUIET
    if in_trouble:
        return Severity.BAD
    return Severity.GOOD if stats.has_synced else Severity.MOVING


def jobs_part(jobs: Collection[JobState] | None, settled: Iterable[TimelineEntry]) -> ScreenPart:
    """Return the part with the open jobs, the oldest first, and the settled ones. `jobs` is None without an agent."""
    oldest = nsmallest(MOST, jobs or (), key=lambda job: job.arrival)
    rows = [
        {
            "id": safe(job.id, 120),
            "ref": job.ref if job.ref is not None and job.ref.kind in OWN_KINDS else None,
            "about": safe(str(job.ref) if job.ref is not None else "", 200),
            "stage": job.stage.value,
            "expires": job.expires_at,
        }
        for job in oldest
    ]
    shown = {"jobs": rows, "left_out": len(jobs or ()) - len(rows), "settled": list(settled)}
    return ScreenPart("jobs", "operator_jobs.html", {**shown, "has_agent": jobs is not None})
