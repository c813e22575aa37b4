"""The trial of a new revision of a box on objects of its kind: passes with dry runs, before it is rolled out (PH-10).

A pass is one reconcile of an object. The API server refuses dry runs as it would refuse the writes: admission,
immutable fields, conflicts with other field managers. The trial simulates what a dry run cannot do: writes of the
parent (the object of the box's kind), deletions, and writes that depend on earlier writes of the same pass. An example
is a child whose namespace does not exist yet, because the pass itself would create it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.apimachinery.errors import NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, merge_patch
from purekube.boxes.rollouts.judgement import AGAIN_SECONDS, DryRunResult, Judgement, interruption_of, refusal_of
from purekube.boxes.rollouts.members import BoxParent
from purekube.boxes.rollouts.revisions import record_of
from purekube.composites.composite import Composite
from purekube.composites.parent import Parent
from purekube.controller.decision import Decision, Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from purekube.ports import KubeApi, KubeRequest, KubernetesEvent, KubeVerb, Send
from purekube_run.composites.controller import CompositeReconciler

_DRY: Final = {"dryRun": "All"}
_AT_ONCE: Final = 50
"""The maximum number of parents on which one pass over an OperatorBox tries a revision."""


@attrs.define
class TrialApi:
    """A middleware of the API client for a trial pass over the parent `ref`: no write of the pass has a lasting effect.

    A pass is one reconcile of the parent, which is an object of a box's kind. Writes are sent as dry runs. Deletes are
    only recorded, and patches of the parent are only applied to `source`, its manifest. `known` are the objects that
    existed before the pass. `created`, `changed` and `deleted` collect the objects that the pass would write.
    """

    ref: ObjectRef
    source: Manifest
    known: frozenset[ObjectRef]
    created: set[ObjectRef] = attrs.field(factory=set)
    changed: set[ObjectRef] = attrs.field(factory=set)
    deleted: set[ObjectRef] = attrs.field(factory=set)

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Answer a request of the pass as if the earlier writes of the pass had taken effect."""
        if request.ref == self.ref:
            return self._of_source(request)
        if request.verb is KubeVerb.DELETE:
            self.deleted.add(request.ref)
            return {}
        if request.verb is KubeVerb.GET and request.ref in self.deleted:
            raise NotFound(f"{request.ref} would be deleted")
        return await self._written(request, send) if request.writes else await send(request)

    def _of_source(self, request: KubeRequest) -> Manifest:
        if request.verb is KubeVerb.PATCH:
            self.source = merge_patch(self.source, request.body)
        return self.source

    async def _written(self, request: KubeRequest, send: Send) -> Manifest:
        ref = request.ref
        answer = await self._dry_run(request, send)
        (self.changed if ref in self.known else self.created).add(ref)
        return answer

    async def _dry_run(self, request: KubeRequest, send: Send) -> Manifest:
        """Send a write as a dry run, and return the server's answer.

        The request's body is returned instead if the pass has already deleted the object, or if the server answers
        NotFound: an earlier write of the pass may create what is missing. A NotFound for a patch is raised, however.
        """
        body = request.body if isinstance(request.body, dict) else {}
        if request.ref in self.deleted:
            return body
        try:
            return await send(attrs.evolve(request, params={**request.params, **_DRY}))
        except NotFound:
            if request.verb is KubeVerb.PATCH:
                raise
            return body


class NoEvents:
    """An `EventSink` that drops all Events."""

    async def emit(self, event: KubernetesEvent) -> None:
        """Drop one Event."""


class _Placeholder:
    """A replacement for the generator of secrets in trial passes, whose objects are never created."""

    def text(self, length: int, alphabet: str) -> str:
        """Return a string of `length` equal letters: the first letter of `alphabet`, repeated."""
        return alphabet[0] * length


@attrs.define
class _Watched:
    """A wrapper around the rules of a pass that remembers the arguments of the last decision: parent and snapshot.

    The trial finds in that snapshot which requests of the pass failed.
    """

    rules: PassRules[Parent, Snapshot]
    parent: Parent
    last: Snapshot = attrs.field(factory=Snapshot)

    def decide(self, parent: Parent, observed: Snapshot) -> Decision:
        self.parent, self.last = parent, observed
        return self.rules.decide(parent, observed)


async def tried(
    composite: Composite, api: KubeApi, ref: ObjectRef, manifest: Manifest, observed: Snapshot, now: datetime
) -> DryRunResult:
    """Run a trial pass (one reconcile) over the parent `ref` with dry runs, and return the verdict.

    `composite` is the box's revision to try. The verdict has the numbers of objects that would be created, changed and
    deleted, and the reason if a write would be refused. `manifest` is the parent. `observed` has its children, and the
    other objects that the box reads. Raises Unavailable if the pass fails for a reason that does not depend on the
    box's revision, such as a lost connection.
    """
    trial = TrialApi(ref, manifest, frozenset(observed.objects))
    rules, parent = composite.pass_rules(lambda: now, _Placeholder()), composite.read(manifest)
    watched = _Watched(rules, parent)
    watching = attrs.evolve(rules, decide=watched.decide)
    result = await run_pass(watching, parent, observed, api.through(trial), NoEvents())
    errors = [failure.error for failure in watched.last.failures]
    refused = refusal_of(result.decision, watched.last.failures)
    if not refused and (interrupted := interruption_of([*errors, *([result.error] if result.error else [])])):
        raise Unavailable(interrupted)
    later = composite.deletes_afterwards(watched.parent, watched.last, now, trial.deleted)
    counts = (len(trial.created - trial.known), len(trial.changed), len(trial.deleted), len(later))
    return DryRunResult(ref, *counts, refused)


@attrs.define
class Judge:
    """A component that tries a new revision on a box's parents by dry runs, before the parents get that revision.

    Parents are the objects of the box's kind. The verdict on a parent is cached until the parent's generation or the
    revision changes. A verdict that refuses the revision is also renewed after some time.
    """

    reconciler: CompositeReconciler
    _known: dict[str, tuple[str, int, datetime, DryRunResult]] = attrs.field(factory=dict)

    async def judge(
        self, parents: Sequence[BoxParent], manifests: Mapping[ObjectRef, Manifest], revision: str, now: datetime
    ) -> Judgement:
        """Try a revision by dry runs on at most 50 of the `parents`: those without a current verdict in the cache.

        Return all verdicts on `revision` that are known so far, and the number of parents that are still to be tried.
        `manifests` contains every parent. If an error interrupts the trials, the result names it.
        """
        due, obstacle = [*self._due(parents, revision, now)], ""
        for parent in due[:_AT_ONCE]:
            try:
                verdict = await self._verdict(parent, manifests[parent.ref], revision, now)
            except OperatorError as error:
                obstacle = f"{parent.ref}: {error.message}"
                break
            self._known[parent.metadata.uid] = (revision, parent.metadata.generation, now, verdict)
        known = {parent.ref: self._known.get(parent.metadata.uid) for parent in parents}
        verdicts = tuple(each[-1] for each in known.values() if each is not None and each[0] == revision)
        return Judgement(revision, verdicts, len([*self._due(parents, revision, now)]), obstacle)

    def _due(self, parents: Sequence[BoxParent], revision: str, now: datetime) -> Iterator[BoxParent]:
        for parent in parents:
            judged, generation, since, verdict = self._known.get(parent.metadata.uid, ("", 0, now, None))
            is_old = (now - since).total_seconds() >= AGAIN_SECONDS
            if (judged, generation) != (revision, parent.metadata.generation) or (
                verdict is not None and verdict.refused and is_old
            ):
                yield parent

    async def _verdict(self, parent: BoxParent, manifest: Manifest, revision: str, now: datetime) -> DryRunResult:
        composite, ref = self.reconciler.composite, parent.ref
        whole = await self.reconciler.informers.whole(ref, manifest)
        moved = merge_patch(whole or manifest, {"metadata": {"annotations": {BROUGHT_TO: record_of(revision, now)}}})
        observed = await self.reconciler.observe(ref, composite.read(moved))
        return await tried(composite, self.reconciler.api, ref, moved, observed, now)
