"""The web page of an operator: the list of objects, one object, a timeline, and the operator itself (SEE-3).

Everything is read from the caches of the operator's informers, except pods, which are read from the API server.

The rows of the list of objects follow changes while the page is open, and are dropped afterwards: if it is not open, a
change costs one comparison. This runs on the event loop that owns the caches.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import unquote

import anyio
import anyio.lowlevel
import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.controller.informer.changes import CacheChange
from purekube.controller.shard import WHOLE
from purekube.ports import Clock
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informer import InformerRunner
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.page.lanes import lane_query, lanes_part
from vworkspace_app.page.loops import OtherLoop
from vworkspace_app.page.operator_screens import (
    LANES_EVERY,
    gaps_part,
    job_entries,
    job_lanes,
    list_screen,
    object_screen,
    operator_parts,
    timeline_part,
)
from vworkspace_app.page.screens import Extent, Heard, PageContent, ScreenPart, Tab, list_query
from vworkspace_app.page.surroundings import (
    CachedObject,
    PodReader,
    gaps_of,
    list_informers,
    of_composite,
    of_controller,
    of_own_kind,
    releases_of,
    uid_of,
)
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.overview.lanes import Lane, LaneQuery, lane_of, lane_view
from vworkspace_core.overview.object_list import Headline, ListRow, headline_of, list_view, row_of
from vworkspace_core.overview.page_paths import CLUSTER_SCOPED, OBJECT
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.summary import summary_of
from vworkspace_core.overview.timeline import MOST, TimelineEntry, entries_of, last_entries

_TOGETHER: Final = 32
"""The number of rows that are made before other tasks get a turn."""
IDLE_SECONDS: Final = 300.0
_TABS: Final = (
    Tab("fleet", "Fleet", ""),
    Tab("timeline", "Timeline", "timeline"),
    Tab("operator", "Operator", "operator"),
)
_EVERY: Final = 2.0


class ListIndex:
    """The rows of the page's list of objects, one for each object in `informers`. They are built at the first request.

    `is_watched` reports whether a browser has the page open. If none has for `idle` seconds, the rows are dropped.
    """

    def __init__(
        self, informers: Iterable[InformerRunner], is_watched: Callable[[], bool], idle: float = IDLE_SECONDS
    ) -> None:
        self._informers: defaultdict[Kind, list[InformerRunner]] = defaultdict(list)
        self._is_watched = is_watched
        self._idle = idle
        self._rows: dict[ObjectRef, ListRow] | None = None
        self._stale: dict[ObjectRef, None] = {}
        self._turn = anyio.Lock()
        self._sleep: asyncio.TimerHandle | None = None
        self.add(informers)

    def add(self, informers: Iterable[InformerRunner]) -> None:
        """Add the objects of further informers to the list.

        There may be several informers of one kind if each of them covers another namespace.
        """
        for runner in informers:
            self._informers[runner.kind].append(runner)
            runner.subscribe(self._changed)
            if self._rows is not None:
                self._stale |= dict.fromkeys(_refs(runner))

    def remove(self, informers: Iterable[InformerRunner]) -> None:
        """Remove the objects of these informers from the list."""
        for runner in informers:
            self._informers[runner.kind].remove(runner)
            runner.unsubscribe(self._changed)
            if self._rows is not None:
                self._stale |= dict.fromkeys(_refs(runner))

    async def rows(self) -> tuple[ListRow, ...]:
        """Return the rows of all objects that are in the caches now."""
        async with self._turn:
            if self._rows is None:
                self._rows = {}
                every = (runner for informers in self._informers.values() for runner in informers)
                self._stale = {ref: None for runner in every for ref in _refs(runner)}
            rows = self._rows
            while self._stale:
                for _ in range(min(_TOGETHER, len(self._stale))):
                    self._take(rows, self._stale.popitem()[0])
                await anyio.lowlevel.checkpoint()
            self._put_off_sleep()
            return tuple(rows.values())

    def _take(self, rows: dict[ObjectRef, ListRow], ref: ObjectRef) -> None:
        found = (runner.store.get(ref.namespace, ref.name) for runner in self._informers[ref.kind])
        manifest = next((each for each in found if each is not None), None)
        if manifest is None:
            rows.pop(ref, None)
        else:
            rows[ref] = row_of(ref.kind, manifest)

    def _changed(self, change: CacheChange) -> None:
        if self._rows is not None:
            self._stale[change.ref] = None

    def _put_off_sleep(self) -> None:
        if self._sleep is not None:
            self._sleep.cancel()
        self._sleep = asyncio.get_running_loop().call_later(self._idle, self._fall_asleep)

    def _fall_asleep(self) -> None:
        self._sleep = None
        if self._is_watched():
            self._put_off_sleep()
        else:
            self._rows, self._stale = None, {}


def _refs(runner: InformerRunner) -> list[ObjectRef]:
    return [ObjectRef(runner.kind, namespace or None, name) for namespace, name in runner.store.names()]


@attrs.define(eq=False)
class _Attached:
    """The data of an attached page: the components, their event loop (`ask`), and the rows of the list of objects."""

    components: Components
    clock: Clock
    ask: OtherLoop
    index: ListIndex
    pods: PodReader | None


class OperatorPage:
    """The content of the page of one operator process: its objects, queues and jobs, read from its caches.

    Until `attach` brings these caches, the page shows that the process is starting.
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
        """The heading of the page, which names the part of the cluster that this process shows."""
        return Extent("nothing yet") if self._attached is None else extent_of(self._attached.components)

    def attach(self, components: Components, clock: Clock) -> None:
        """Show the objects, queues and jobs of `components`, the parts of the process, from now on.

        The parts are informers, worker pools, the job agent and so on. It is called once on their event loop, before
        any of them runs.
        """
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
        """Call `heard` with the changed namespace when a cache changes, until the returned function is called."""
        self._heard = [*self._heard, heard]

        def end() -> None:
            self._heard = [one for one in self._heard if one is not heard]

        return end

    def _tell(self, change: CacheChange) -> None:
        for heard in self._heard:
            heard(change.ref.namespace)

    # --- screens -------------------------------------------------------------------------------------------------

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent | None:
        """Return the screen of the list of objects, of one object, of the timeline or of the operator; None for other
        paths.
        """
        is_known = path in ("/", "/timeline", "/operator") or path.startswith(OBJECT)
        if not is_known:
            return None
        if self._attached is None:
            return PageContent("Starting", "", (ScreenPart("starting", "starting.html"),), every=_EVERY)
        match path:
            case "/":
                return await self._fleet(self._attached, query)
            case "/timeline":
                return await self._timeline(self._attached, lane_query(query))
            case "/operator":
                return await self._operator(self._attached)
            case _:
                return await self._object(self._attached, path, lane_query(query))

    async def _fleet(self, at: _Attached, query: Mapping[str, str]) -> PageContent:
        async def look() -> tuple[tuple[ListRow, ...], tuple[str, ...]]:
            return await at.index.rows(), gaps_of(at.components)

        rows, gaps = await at.ask(look)
        return list_screen(list_view(rows, list_query(query), gaps))

    async def _timeline(self, at: _Attached, query: LaneQuery) -> PageContent:
        now = at.clock.now()

        async def look() -> tuple[Headline, list[Lane], list[TimelineEntry], frozenset[Kind]]:
            rows = await at.index.rows()
            latest = sorted(rows, key=lambda row: (row.needs_person, row.moved is not None, row.moved), reverse=True)
            found = [live for row in latest[:MOST] if (live := _live(at.components, row))]
            releases = await releases_of(at.components.informers, [manifest for _, manifest in found])
            lanes = [lane_of(summary_of(kind, live), live, now, releases.get(uid_of(live))) for kind, live in found]
            lanes += job_lanes(at.components.agent, now, only_failed=True)
            entries = [entry for kind, live in found for entry in entries_of(kind, live)]
            entries += job_entries(at.components.agent)
            headline = headline_of(rows, gaps_of(at.components))
            return headline, lanes, entries, await _linked(at.components)

        headline, lanes, entries, linked = await at.ask(look)
        if query.problems:
            entries = [entry for entry in entries if entry.severity in (Severity.BAD, Severity.WAITING)]
        parts = (
            gaps_part(headline.gaps),
            lanes_part(lane_view(lanes, query, now), linked),
            timeline_part(last_entries(entries), linked),
        )
        title = f"{headline.text} · Timeline"
        return PageContent(
            "Timeline", "timeline", parts, every=LANES_EVERY, tab_title=title, severity=headline.severity
        )

    async def _object(self, at: _Attached, path: str, query: LaneQuery) -> PageContent | None:
        parts = [unquote(part) for part in path.removeprefix(OBJECT).split("/")]
        if len(parts) != 3:
            return None
        resource, namespace, name = parts
        where = None if namespace == CLUSTER_SCOPED else namespace

        found = await at.ask(partial(_with_pods, at, resource, where, name))
        (linked, gaps), now = await at.ask(partial(_linked_and_gaps, at.components)), at.clock.now()
        if found is None:
            return None
        about = ref_of(found.manifest, found.kind)
        jobs = job_lanes(at.components.agent, now, about=str(about))
        return object_screen(found, linked, now, jobs=jobs, query=query, gaps=gaps)

    async def _operator(self, at: _Attached) -> PageContent:
        async def look() -> tuple[ScreenPart, ...]:
            return tuple(operator_parts(at.components))

        return PageContent("Operator", "operator", await at.ask(look), every=_EVERY)


def _live(components: Components, row: ListRow) -> tuple[Kind, Manifest] | None:
    """Return the object of a list row from the caches, with its kind; None if the object is no longer cached."""
    for runner in list_informers(components):
        if runner.kind == row.ref.kind and (live := runner.store.get(row.ref.namespace, row.ref.name)) is not None:
            return row.ref.kind, live
    return None


async def _linked(components: Components) -> frozenset[Kind]:
    """Return the kinds whose objects have pages of their own."""
    return frozenset(runner.kind for runner in list_informers(components))


async def _linked_and_gaps(components: Components) -> tuple[frozenset[Kind], tuple[str, ...]]:
    return await _linked(components), gaps_of(components)


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
    """Return the heading of the page, which names what it shows: the whole cluster, or one shard.

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
