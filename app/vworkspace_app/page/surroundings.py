"""The reading of one object for the web page, with the objects created for it.

Objects come from the caches alone, except the pods of Helm releases and Jobs. Those are many and change often, so no
informer caches them: they are read from the API server, at most every ten seconds. Objects that are not cached, such as
those that a release installed, are missing: the command `status` reads them. The functions run on the event loop that
owns the caches.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import anyio
import anyio.lowlevel
import attrs

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.errors import Forbidden, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE, POD
from purekube.apimachinery.secret_material import safe
from purekube.composites.composite import Composite
from purekube.controller.decision import Snapshot
from purekube.controller.health import DEFAULT_BOUNDS
from purekube.controller.informer.messages import InformerPhase
from purekube.controller.informer.outline import is_outline
from purekube.controller.informer.store import ObjectStore
from purekube.ports import KubeApi
from purekube.reconcilers.controllers import Feature, features_of
from purekube_run.composites.caches import OWNER
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.reconcilers.passes import ControllerPasses
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.page.recent import Recent
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION, OWN_KINDS
from vworkspace_core.api.labels import INSTANCE_UID
from vworkspace_core.operations.engines import KINDS_ELSEWHERE
from vworkspace_core.overview.pods import PodSelection, pod_selections, summary_of_pod
from vworkspace_core.overview.severity import severity_of, urgency

_TOGETHER = 64
"""The number of objects that are read before other tasks get a turn."""
_UID_LABEL = re.compile(re.escape(INSTANCE_UID).encode() + rb'":\s*"([^"]+)"')
_NOT_MADE = (*OWN_KINDS, NAMESPACE, CUSTOM_RESOURCE_DEFINITION)
KEPT_SECONDS: Final = 10.0
"""The seconds for which an answer is reused, however many browsers show it."""
_PATIENCE: Final = 2.0
"""The seconds after which the page is rendered without pods."""
_LASTING: Final = 3
"""The number of consecutive failures of a list or watch after which the page reports its objects as out of date."""
_STALE: Final = DEFAULT_BOUNDS.stale
_SILENT: Final = "the API server has not answered"
_MOST_ANSWERS: Final = 64
_MOST_PODS: Final = 200
"""The maximum number of pods that are kept for a release or Job: the ones in the worst state."""
_MOST_PAGES: Final = 10


@attrs.frozen
class CachedObject:
    """An object and the objects created for it, from the caches.

    If a box (a declared operator) or a pure reconciler reconciles the object, and the cached objects are complete,
    `composite` describes that controller, and `observed` has what its decision reads; otherwise both are None. `remark`
    describes which objects are missing; it is empty if none are.
    """

    kind: Kind
    manifest: Manifest
    objects: dict[ObjectRef, Manifest] = attrs.field(factory=dict)
    composite: Composite | None = None
    observed: Snapshot | None = None
    remark: str = ""


async def of_own_kind(informers: Informers, kind: Kind, namespace: str | None, name: str) -> CachedObject | None:
    """Return an object of one of the operator's own kinds, with the objects created for it.

    Return None if the object is not cached.
    """
    manifest = informers.store(kind).get(namespace, name)
    if manifest is None:
        return None
    uid = uid_of(manifest)
    marks = [uid.encode()] if uid else []
    if kind == APPLICATION_INSTANCE:
        runs = await _holding(informers.store(OPERATION), namespace, name.encode())
        runs = {ref: run for ref, run in runs.items() if get_path(run, "spec", "targetRef", "name") == name}
        # Objects made by a run carry the run's uid in addition to the instance's, or instead of it.
        marks += [str(metadata(run).get("uid") or "").encode() for run in runs.values()]
    else:
        runs = {}
    found = dict(runs)
    for runner in informers:
        if runner.kind not in _NOT_MADE:
            where = None if runner.kind in KINDS_ELSEWHERE else namespace
            for mark in filter(None, marks):
                found |= await _holding(runner.store, where, mark)
    return CachedObject(kind, manifest, found)


def uid_of(manifest: Manifest) -> str:
    """Return an object's uid in the form in which labels contain it: shortened if it is too long.

    Return an empty string if the object has no uid.
    """
    return bounded_name(str(metadata(manifest).get("uid") or ""))


async def releases_of(informers: Informers, owners: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return the HelmReleases of the instances `owners`, keyed by the uid of the instance."""
    uids, found = {uid_of(owner).encode() for owner in owners} - {b""}, dict[str, Manifest]()
    store = informers.store(HELM_RELEASE)
    for number, (namespace, name) in enumerate(store.names()):
        raw = store.raw(namespace, name)
        label = _UID_LABEL.search(raw) if raw is not None else None
        if label is not None and label[1] in uids and (live := store.get(namespace, name)) is not None:
            found[label[1].decode()] = live
        if number % _TOGETHER == _TOGETHER - 1:
            await anyio.lowlevel.checkpoint()
    return found


async def _holding(store: ObjectStore, namespace: str | None, text: bytes) -> dict[ObjectRef, Manifest]:
    """Return the objects whose JSON contains `text`, from one namespace, or from all if `namespace` is None.

    The search avoids decoding every object only to read its labels.
    """
    found = dict[ObjectRef, Manifest]()
    for number, (where, name) in enumerate(store.names(namespace)):
        raw = store.raw(where, name)
        if raw is not None and text in raw and (manifest := store.get(where, name)) is not None:
            found[ref_of(manifest, store.kind)] = manifest
        if number % _TOGETHER == _TOGETHER - 1:
            await anyio.lowlevel.checkpoint()
    return found


def of_composite(reconciler: CompositeReconciler, namespace: str | None, name: str) -> CachedObject | None:
    """Return an object of a box or pure reconciler, with the objects that its decision reads.

    Return None if the object is not cached.
    """
    composite = reconciler.composite
    manifest = reconciler.informers.store(composite.kind).get(namespace, name)
    if manifest is None:
        return None
    uid = str(metadata(manifest).get("uid") or "")
    objects: dict[ObjectRef, Manifest] = {
        ref_of(live, kind): live
        for kind in composite.child_kinds
        for live in reconciler.informers.store(kind).indexed(OWNER, uid)
    }
    parent = composite.read(manifest)
    for external, ref in composite.external_refs(parent):
        if external.watch and (live := reconciler.externals.store(ref.kind).get(ref.namespace, ref.name)) is not None:
            objects[ref] = live
    if any(map(is_outline, (manifest, *objects.values()))):
        return CachedObject(composite.kind, manifest, objects)  # an outline lacks the fields that an explanation needs
    missing = frozenset(kind for kind in composite.child_kinds if _is_missing(reconciler.informers, kind))
    observed = Snapshot(None, objects, missing, peers=reconciler.peers(parent))
    return CachedObject(composite.kind, manifest, objects, composite, observed)


def _is_missing(informers: Informers, kind: Kind) -> bool:
    runner = informers.find(kind)
    return runner is not None and runner.missing


async def of_controller(passes: ControllerPasses, namespace: str | None, name: str) -> CachedObject | None:
    """Return an object of a reconciler in Python, with the objects that it owns.

    `passes` is the controller that runs the reconciler.

    Return None if the object is not cached.
    """
    own = passes.watches.own
    manifest = own.store.get(namespace, name)
    if manifest is None:
        return None
    uid, found = str(metadata(manifest).get("uid") or "").encode(), dict[ObjectRef, Manifest]()
    for runner in dict.fromkeys(passes.watches.owned) if uid else ():
        found |= await _holding(runner.store, namespace, uid)
    return CachedObject(own.kind, manifest, found)


def list_informers(components: Components) -> Iterator[InformerRunner]:
    """Yield the informers of the kinds in the page's list of objects.

    These are the operator's own kinds, applied boxes, and kinds whose status this process writes.
    """
    found = [components.informers.find(kind) for kind in OWN_KINDS]
    found += [runner for runner in components.further if runner.kind == OPERATOR_BOX]
    found += [runner for composite in components.composites for runner in composite.parents]
    found += [
        controller.watches.own
        for controller in components.extensions.python
        if Feature.CONDITIONS in features_of(controller.controller)
    ]
    return (runner for runner in found if runner is not None)


def gaps_of(components: Components) -> tuple[str, ...]:
    """Return a sentence for each kind in the page's list of objects whose cache lacks objects, or may be out of date.

    A short failure is not a gap: an API server that restarts closes every watch.
    """
    gaps = (_gap_of(runner) for runner in list_informers(components))
    return tuple(dict.fromkeys(filter(None, gaps)))


def _gap_of(runner: InformerRunner) -> str:
    stats, (trouble, failures), kind = runner.stats(), runner.trouble(), runner.kind.kind
    why = f": {safe(trouble)}" if trouble else ""
    if stats.phase is InformerPhase.MISSING:
        return f"{kind}: the API server does not serve this kind" if runner.kind in OWN_KINDS else ""
    if not stats.has_synced:
        return f"{kind}: its objects are not listed yet{why}"
    if failures >= _LASTING and trouble:
        return f"{kind}: may be out of date{why}"
    silent = stats.contact_age
    return f"{kind}: may be out of date, for nothing was heard for {silent:.0f} s" if silent > _STALE else ""


@attrs.frozen
class _Answer:
    at: float
    pods: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    problem: str = ""


class PodReader:
    """A reader of pods from the API server, with the operator's rights. It caches answers; `monotonic` is its clock.

    The reads for one object are given up after `patience` seconds.
    """

    def __init__(self, api: KubeApi, monotonic: Callable[[], float], patience: float = _PATIENCE) -> None:
        self._api = api
        self._patience = patience
        self._monotonic = monotonic
        self._answers = Recent[PodSelection, _Answer](_MOST_ANSWERS)
        self._turn = anyio.Lock()

    async def below(self, objects: Mapping[ObjectRef, Manifest]) -> tuple[dict[ObjectRef, Manifest], str]:
        """Return the pods of the releases and Jobs among `objects`, and the reason why pods are missing ("" if none
        are).

        All reads together take at most `patience` seconds: a page that waits longer shows nothing at all.
        """
        answers = dict[PodSelection, _Answer | None].fromkeys(pod_selections(objects))
        with anyio.move_on_after(self._patience):
            for selection in answers:
                answers[selection] = await self._answer(selection)
        found, problems = dict[ObjectRef, Manifest](), dict[str, None]()
        for selection, answer in answers.items():
            if answer is None:
                answer = _Answer(self._monotonic(), problem=_SILENT)
                self._answers[selection] = answer  # the next viewers do not wait for it again
            found |= answer.pods
            problems |= {answer.problem: None} if answer.problem else {}
        return found, "; ".join(problems)

    async def _answer(self, selection: PodSelection) -> _Answer:
        async with self._turn:
            known = self._answers.get(selection)
            if known is None or self._monotonic() - known.at >= KEPT_SECONDS:
                known = await self._ask(selection)
            self._answers[selection] = known
            return known

    async def _ask(self, selection: PodSelection) -> _Answer:
        where = selection.namespace
        kept, number, token, problem = list[Manifest](), 0, "", ""
        try:
            for _ in range(_MOST_PAGES):
                page = await self._api.list(
                    POD,
                    namespace=where,
                    label_selector=selection.selector,
                    limit=_MOST_PODS,
                    continue_token=token,
                )
                number, token = number + len(page.items), page.continue_token
                kept = sorted([*kept, *page.items], key=_pod_urgency)[:_MOST_PODS]
                if not token:
                    break
        except Forbidden:
            problem = f"the operator may not list pods in namespace {where}"
        except OperatorError as error:
            problem = safe(error.message)
        pods = {ref_of(pod, POD): pod for pod in kept}
        return _Answer(self._monotonic(), pods, problem or _left_out(selection, len(pods), number, is_whole=not token))


def _pod_urgency(pod: Manifest) -> int:
    return urgency(severity_of(summary_of_pod(pod).state))


def _left_out(selection: PodSelection, shown: int, number: int, *, is_whole: bool) -> str:
    """Return the words for the pods that are not among the `shown` ones, or "" if there are none.

    `number` pods were read. `is_whole` is False if there are more than these.
    """
    if not number:
        return f"no pod has the label {selection.selector}"
    if is_whole and shown == number:
        return ""
    rest = "" if is_whole else ", and all later ones"
    return f"the {number - shown} healthiest of {number} with the label {selection.selector}{rest}"
