"""The trial of a new revision of a box: passes over its objects with dry runs, before the objects move to it (PH-10).

Refusals are the API server's own: admission, immutable fields, conflicts with other field managers. The trial itself
answers what a dry run cannot: writes of the parent, deletions, and children of objects that are not created yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.apimachinery.errors import NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, merge_patch
from purekube.boxes.judgement import AGAIN_SECONDS, Judgement, Verdict, interruption_of, refusal_of
from purekube.boxes.members import BoxParent
from purekube.boxes.revisions import record_of
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
class Trial:
    """A layer around the API client that turns the writes of one pass over the parent `ref` into dry runs.

    `source` is the parent's manifest. Patches of the parent are not sent, but applied to `source`. `known` are the
    objects that existed before the pass.
    """

    ref: ObjectRef
    source: Manifest
    known: frozenset[ObjectRef]
    created: set[ObjectRef] = attrs.field(factory=set)
    changed: set[ObjectRef] = attrs.field(factory=set)
    deleted: set[ObjectRef] = attrs.field(factory=set)

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Answer a request as if the earlier writes of the pass had taken effect."""
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
        """Return the server's answer to a dry run of a write.

        If an earlier write of the pass would delete the object, return the body of the request instead. The same is
        done if the server answers NotFound, since an earlier write of the pass may create what is missing. For a merge
        or JSON patch NotFound is raised.
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


class _NoEvents:
    async def emit(self, event: KubernetesEvent) -> None:
        """Drop one Event."""


class _Placeholder:
    """A source of texts that are not random, for objects that are never created."""

    def text(self, length: int, alphabet: str) -> str:
        """Return a text of this length that is not random."""
        return alphabet[0] * length


@attrs.define
class _Watched:
    """A wrapper around the rules of a pass that remembers the arguments of the last decision: parent and snapshot."""

    rules: PassRules[Parent, Snapshot]
    parent: Parent
    last: Snapshot = attrs.field(factory=Snapshot)

    def decide(self, parent: Parent, observed: Snapshot) -> Decision:
        self.parent, self.last = parent, observed
        return self.rules.decide(parent, observed)


async def tried(
    composite: Composite, api: KubeApi, ref: ObjectRef, manifest: Manifest, observed: Snapshot, now: datetime
) -> Verdict:
    """Run a pass over the parent `ref` with dry runs. Return the verdict: how many objects the pass would write, and
    why a write would be refused.

    `manifest` is the parent, and `observed` the snapshot at the beginning of the pass. Raises Unavailable if an error
    that does not depend on the box's revision ends the pass, such as a lost connection.
    """
    trial = Trial(ref, manifest, frozenset(observed.objects))
    rules, parent = composite.pass_rules(lambda: now, _Placeholder()), composite.read(manifest)
    watched = _Watched(rules, parent)
    watching = attrs.evolve(rules, decide=watched.decide)
    result = await run_pass(watching, parent, observed, api.through(trial), _NoEvents())
    errors = [failure.error for failure in watched.last.failures]
    refused = refusal_of(result.decision, watched.last.failures)
    if not refused and (interrupted := interruption_of([*errors, *([result.error] if result.error else [])])):
        raise Unavailable(interrupted)
    later = composite.deletes_afterwards(watched.parent, watched.last, now, trial.deleted)
    counts = (len(trial.created - trial.known), len(trial.changed), len(trial.deleted), len(later))
    return Verdict(ref, *counts, refused)


@attrs.define
class Judge:
    """A judge of a box's new revisions, which tries each revision on the box's parents by passes with dry runs.

    A verdict on a parent is kept until the parent's generation or the revision changes. A verdict that refuses is also
    tried again after some time.
    """

    reconciler: CompositeReconciler
    _known: dict[str, tuple[str, int, datetime, Verdict]] = attrs.field(factory=dict)

    async def judge(
        self, parents: Sequence[BoxParent], manifests: Mapping[ObjectRef, Manifest], revision: str, now: datetime
    ) -> Judgement:
        """Try the revision `revision` on a limited number of parents whose verdict is missing or outdated.

        Return all verdicts on the revision that are known so far. `manifests` contains every parent.
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

    async def _verdict(self, parent: BoxParent, manifest: Manifest, revision: str, now: datetime) -> Verdict:
        composite, ref = self.reconciler.composite, parent.ref
        whole = await self.reconciler.informers.whole(ref, manifest)
        moved = merge_patch(whole or manifest, {"metadata": {"annotations": {BROUGHT_TO: record_of(revision, now)}}})
        observed = await self.reconciler.observe(ref, composite.read(moved))
        return await tried(composite, self.reconciler.api, ref, moved, observed, now)
