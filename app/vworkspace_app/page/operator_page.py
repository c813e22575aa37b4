"""The page of an operator: the list of objects, one object, a timeline, and the operator itself (SEE-3).

Everything is read from the caches of its informers, except pods, which are read from the API server.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, metadata, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, POD
from purekube.apimachinery.secret_material import safe
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.messages import InformerPhase
from purekube.controller.shard import WHOLE
from purekube.ports import Clock
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informer_stats import InformerStats
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.page.drawing import graph_part
from vworkspace_app.page.lanes import lane_query, lanes_part
from vworkspace_app.page.loops import OtherLoop
from vworkspace_app.page.object_index import ListIndex
from vworkspace_app.page.pods import PodReader
from vworkspace_app.page.screens import Extent, Heard, Screen, ScreenPart, Tab, list_query
from vworkspace_app.page.surroundings import (
    CachedObject,
    list_informers,
    of_composite,
    of_controller,
    of_own_kind,
    releases_of,
    uid_of,
)
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OWN_KINDS
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.overview.lanes import Lane, LaneQuery, job_lane, lane_of, lane_view
from vworkspace_core.overview.object_graph import graph_of_parent, graph_of_tree, walk
from vworkspace_core.overview.object_list import Headline, ListRow, ListView, headline_of, list_view, redacted_summary
from vworkspace_core.overview.page_paths import CLUSTER_SCOPED, OBJECT
from vworkspace_core.overview.severity import Severity, severity_of
from vworkspace_core.overview.summary import summary_of, time_at
from vworkspace_core.overview.timeline import MOST, TimelineEntry, entries_of, last_entries
from vworkspace_core.overview.tree import origin_of, tree_of

_TABS: Final = (
    Tab("fleet", "Fleet", ""),
    Tab("timeline", "Timeline", "timeline"),
    Tab("operator", "Operator", "operator"),
)
_EVERY: Final = 2.0
_LANES_EVERY: Final = 10.0
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


@attrs.define(eq=False)
class _Attached:
    """The data of an attached page: the components, their event loop (`ask`), and the rows of the list of objects."""

    components: Components
    clock: Clock
    ask: OtherLoop
    index: ListIndex
    pods: PodReader | None


class OperatorPage:
    """The content of the page of one operator process.

    Until `attach` is called, it shows that the process is starting.
    """

    def __init__(self) -> None:
        self._attached: _Attached | None = None
        self._heard: list[Heard] = []

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs of the navigation."""
        return _TABS

    @property
    def extent(self) -> Extent:
        """The words that name the part of the cluster that this process shows."""
        return Extent("nothing yet") if self._attached is None else extent_of(self._attached.components)

    def attach(self, components: Components, clock: Clock) -> None:
        """Show these components from now on. It is called once on their event loop, before any of them runs."""
        followed = {informer for each in components.composites for informer in (*each.informers, *each.externals)}
        listed = (runner for runner in list_informers(components) if runner not in followed)
        index = ListIndex(listed, is_watched=lambda: bool(self._heard))
        components.follow_composites(partial(self._follow, index))
        pods = None if components.api is None else PodReader(components.api, clock.monotonic)
        self._attached = _Attached(components, clock, OtherLoop(), index, pods)
        for runner in (*components.informers, *components.further):
            if runner.kind != CUSTOM_RESOURCE_DEFINITION and runner not in followed:
                runner.subscribe(self._tell)

    def _follow(self, index: ListIndex, composite: CompositeReconciler, is_loaded: bool) -> None:
        """Add the objects of a composite (a box or pure reconciler) to the page, or remove them if `is_loaded` is
        False.
        """
        if not is_loaded:
            index.remove(composite.parents)
            return
        index.add(composite.parents)
        for runner in (*composite.informers, *composite.externals):
            runner.subscribe(self._tell)

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Call `heard` when a cache changes, until the returned function is called."""
        self._heard = [*self._heard, heard]

        def end() -> None:
            self._heard = [one for one in self._heard if one is not heard]

        return end

    def _tell(self, change: CacheChange) -> None:
        for heard in self._heard:
            heard(change.ref.namespace)

    # --- screens -------------------------------------------------------------------------------------------------

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """Return the screen of the list of objects, of one object, of the timeline or of the operator; None for other
        paths.
        """
        is_known = path in ("/", "/timeline", "/operator") or path.startswith(OBJECT)
        if not is_known:
            return None
        if self._attached is None:
            return Screen("Starting", "", (ScreenPart("starting", "starting.html"),), every=_EVERY)
        match path:
            case "/":
                return await self._fleet(self._attached, query)
            case "/timeline":
                return await self._timeline(self._attached, lane_query(query))
            case "/operator":
                return await self._operator(self._attached)
            case _:
                return await self._object(self._attached, path, lane_query(query))

    async def _fleet(self, at: _Attached, query: Mapping[str, str]) -> Screen:
        view = list_view(await at.ask(at.index.rows), list_query(query))
        return list_screen(view)

    async def _timeline(self, at: _Attached, query: LaneQuery) -> Screen:
        now = at.clock.now()

        async def look() -> tuple[Headline, list[Lane], list[TimelineEntry], frozenset[Kind]]:
            rows = await at.index.rows()
            found = [
                live for row in sorted(rows, key=_moved, reverse=True)[:MOST] if (live := _live(at.components, row))
            ]
            releases = await releases_of(at.components.informers, [manifest for _, manifest in found])
            lanes = [lane_of(summary_of(kind, live), live, now, releases.get(uid_of(live))) for kind, live in found]
            lanes += job_lanes(at.components.agent, now, only_failed=True)
            entries = [entry for kind, live in found for entry in entries_of(kind, live)]
            entries += _job_entries(at.components.agent)
            return headline_of(rows), lanes, entries, await _linked(at.components)

        headline, lanes, entries, linked = await at.ask(look)
        if query.problems:
            entries = [entry for entry in entries if entry.severity in (Severity.BAD, Severity.WAITING)]
        parts = (lanes_part(lane_view(lanes, query, now), linked), timeline_part(last_entries(entries), linked))
        title = f"{headline.text} · Timeline"
        return Screen("Timeline", "timeline", parts, every=_LANES_EVERY, tab_title=title, severity=headline.severity)

    async def _object(self, at: _Attached, path: str, query: LaneQuery) -> Screen | None:
        parts = [unquote(part) for part in path.removeprefix(OBJECT).split("/")]
        if len(parts) != 3:
            return None
        resource, namespace, name = parts
        where = None if namespace == CLUSTER_SCOPED else namespace

        found = await at.ask(partial(_with_pods, at, resource, where, name))
        linked, now = await at.ask(partial(_linked, at.components)), at.clock.now()
        if found is None:
            return None
        about = ref_of(found.manifest, found.kind)
        jobs = job_lanes(at.components.agent, now, about=str(about))
        return object_screen(found, linked, now, jobs=jobs, query=query)

    async def _operator(self, at: _Attached) -> Screen:
        async def look() -> tuple[ScreenPart, ...]:
            return tuple(_parts_of_operator(at.components))

        return Screen("Operator", "operator", await at.ask(look), every=_EVERY)


def _moved(row: ListRow) -> tuple[bool, bool, Any]:
    return (row.needs_person, row.moved is not None, row.moved)


def _live(components: Components, row: ListRow) -> tuple[Kind, Manifest] | None:
    """Return the object of a list row from the caches, with its kind; None if the object is no longer cached."""
    for runner in list_informers(components):
        if runner.kind == row.ref.kind and (live := runner.store.get(row.ref.namespace, row.ref.name)) is not None:
            return row.ref.kind, live
    return None


async def _linked(components: Components) -> frozenset[Kind]:
    """Return the kinds whose objects have pages of their own."""
    return frozenset(runner.kind for runner in list_informers(components))


async def _with_pods(at: _Attached, resource: str, namespace: str | None, name: str) -> CachedObject | None:
    """Return an object with the objects created for it; None if the object is not cached.

    For the operator's own kinds, pods of the release and of Jobs are included.
    """
    found = await _cached(at.components, resource, namespace, name)
    if found is None or at.pods is None or found.kind not in OWN_KINDS:
        return found
    pods, missing = await at.pods.below(found.objects)
    remark = f"Pods are not shown: {missing}." if missing else ""
    return attrs.evolve(found, objects=found.objects | pods, remark=remark)


async def _cached(components: Components, resource: str, namespace: str | None, name: str) -> CachedObject | None:
    for kind in OWN_KINDS:
        if kind.crd_name == resource and components.informers.find(kind) is not None:
            return await of_own_kind(components.informers, kind, namespace, name)
    for reconciler in components.composites:
        if reconciler.composite.kind.crd_name == resource:
            return of_composite(reconciler, namespace, name)
    for passes in components.extensions.python:
        if passes.watches.own.kind.crd_name == resource:
            return await of_controller(passes, namespace, name)
    for runner in list_informers(components):
        if runner.kind.crd_name == resource and (manifest := runner.store.get(namespace, name)) is not None:
            return CachedObject(runner.kind, manifest)
    return None


def extent_of(components: Components) -> Extent:
    """Return the words that name the part of the cluster that the page shows: all of it, or one shard.

    The shard that pulls the jobs of the control plane shows the operator's own kinds of all shards.
    """
    shard = components.shard
    if shard == WHOLE:
        return Extent("the whole cluster, every namespace")
    others = f"each of the {shard.count} shards has a page of its own"
    if components.agent is None:
        return Extent(f"only shard {shard}, its share of the namespaces ({others})", f"shard {shard}")
    kinds = "instances, Operations and Clusters of every namespace"
    return Extent(f"{kinds}, and what was made of them in shard {shard} ({others})", f"shard {shard}")


# --- the parts of screens --------------------------------------------------------------------------------------------


def list_screen(view: ListView) -> Screen:
    """Return the screen of the list of objects: filters with counts, and one page of rows."""
    rows = tuple(
        (f"row:{row.ref.kind.crd_name}:{row.ref.namespace or ''}:{row.ref.name}", {"row": row}) for row in view.rows
    )
    form = "list_dense" if view.query.dense else "list_row"
    return Screen(
        "Fleet",
        "fleet",
        (
            ScreenPart("headline", "list_headline.html", {"headline": view.headline, "query": view.query}),
            ScreenPart("states", "list_states.html", {"view": view}),
            ScreenPart("filters", "list_filters.html", {"view": view}),
            ScreenPart("rows", f"{form}s.html", {"found": view.found, "total": view.total}, f"{form}.html", rows),
            ScreenPart("pages", "list_pages.html", {"view": view}),
        ),
        tab_title=view.headline.text,
        severity=view.headline.severity,
        has_heading=True,
    )


def object_screen(
    cached_object: CachedObject, linked: Set[Kind], now: datetime, *, jobs: Sequence[Lane], query: LaneQuery
) -> Screen:
    """Return the screen of one object: its state, its graph (also as a list), and its timeline.

    The lanes are in the order of cause and effect: first `jobs`, then the object, then the objects created for it.
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
    return Screen(
        f"{kind.kind} {ref.name}",
        "fleet",
        (
            ScreenPart("head", "object_head.html", head),
            graph_part(object_graph, linked, cached_object.remark),
            lanes_part(lane_view(lanes, query, now, keep_order=True), linked),
            ScreenPart("nodes", "object_nodes.html", {"nodes": list(walk(object_graph)), "linked": linked}),
            timeline_part(last_entries(entries), linked),
        ),
        every=_LANES_EVERY,
        scope=frozenset(namespaces) if "" not in namespaces else None,
        tab_title=f"{ref.name}: {summary.state_text}",
        severity=severity_of(summary.state),
    )


def timeline_part(entries: Sequence[TimelineEntry], linked: Set[Kind]) -> ScreenPart:
    """Return the part of a screen with a timeline of the entries, the newest first."""
    days: dict[str, list[TimelineEntry]] = {}
    for entry in entries:
        days.setdefault(entry.at.strftime("%Y-%m-%d"), []).append(entry)
    filled = {"days": days, "most": MOST, "count": len(entries), "linked": linked}
    return ScreenPart("timeline", "timeline.html", filled)


def job_lanes(agent: Agent | None, now: datetime, *, about: str = "", only_failed: bool = False) -> list[Lane]:
    """Return a lane (a row with a timeline) for each settled and each open job of this process.

    With `about`, an object's name, only jobs on that object are included; with `only_failed`, only failed jobs.
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


def _job_entries(agent: Agent | None) -> Iterator[TimelineEntry]:
    for job in agent.settled if agent is not None else ():
        severity = _OUTCOMES.get(job.outcome, Severity.QUIET)
        yield TimelineEntry(
            job.at, safe(f"job {job.id}: {job.outcome}"), severity, safe(f"{job.about} {job.error}".strip())
        )


def _parts_of_operator(components: Components) -> Iterator[ScreenPart]:
    agent = components.agent
    yield ScreenPart(
        "connection", "operator_connection.html", {"connection": _connection(agent), "severities": _CONNECTIONS}
    )
    yield ScreenPart("leases", "operator_leases.html", {"leases": components.leases(), "shard": str(components.shard)})
    yield ScreenPart(
        "jobs",
        "operator_jobs.html",
        {"jobs": _jobs(agent), "settled": list(_job_entries(agent)), "has_agent": agent is not None},
    )
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


def _jobs(agent: Agent | None) -> list[dict[str, Any]]:
    jobs = sorted(agent.state.jobs.values(), key=lambda job: job.arrival) if agent is not None else []
    return [
        {
            "id": safe(job.id, 120),
            "ref": job.ref if job.ref is not None and job.ref.kind in OWN_KINDS else None,
            "about": safe(str(job.ref) if job.ref is not None else "", 200),
            "stage": job.stage.value,
            "expires": job.expires_at,
        }
        for job in jobs[:MOST]
    ]
