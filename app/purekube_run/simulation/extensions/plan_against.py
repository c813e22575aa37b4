"""The plans of a box for every object of its kind in a cluster. They read the cluster and never write to it.

A box is an operator that is defined in YAML. Its plan for an object is the writes that the next reconcile would make.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import attrs

from purekube.apimachinery.errors import KindMissing
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.problems import amount
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.composites.composite import Composite
from purekube.composites.observe import observe_live
from purekube.ports import KubeApi
from purekube_run.boxes.installed import installed_definitions
from purekube_run.controller.lookups import all_of, find
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.plan import BoxPlan, plan_box


@attrs.frozen
class PlanAgainst:
    """The plans of a box for all its parents (the objects of its kind) in a cluster, by namespace and name.

    A plan is the writes that the next reconcile of a parent would make. `unfit` lists the parents for which no plan can
    be made, each with the reason.
    """

    plans: tuple[BoxPlan, ...]
    unfit: tuple[tuple[str, str], ...] = ()

    @property
    def writes(self) -> dict[str, int]:
        """The number of writes by verb, not counting status writes."""
        counts: dict[str, int] = {}
        for verb, count in ((verb, count) for plan in self.plans for verb, count in plan.writes.items()):
            if verb != "status":
                counts[verb] = counts.get(verb, 0) + count
        return counts

    @property
    def refused(self) -> int:
        """The number of writes that the API server would refuse."""
        return sum(plan.refused for plan in self.plans)

    @property
    def summary(self) -> str:
        """The number of parents, what would be written over all of them, and how many have no plan, in one line."""
        count = len(self.plans) + len(self.unfit)
        writes = [f"{number} {verb}" for verb, number in self.writes.items()]
        unfit = [f"{len(self.unfit)} without a plan"] if self.unfit else []
        refused = f"; {self.refused} refused" if self.refused else ""
        return f"{amount(count, 'object')}: {', '.join([*writes, *unfit]) or 'nothing'}{refused}"

    @property
    def changed(self) -> tuple[BoxPlan, ...]:
        """The plans that would write anything other than the status, or in which a write would be refused."""
        return tuple(plan for plan in self.plans if plan.changes or plan.refused)


async def plan_against(api: KubeApi, box: Box, definitions: Iterable[Manifest], now: datetime) -> PlanAgainst:
    """Read a cluster, and return the plan of the box's next pass over every object of its kind.

    `definitions` are CRDs of further kinds. `now` is the time at which the pass would run. Raises OperatorError if a
    read fails, and CommandError if the cluster serves the kind, but not in the version that the box reads.
    """
    await _refuse_unserved(api, box)
    composite, parents = composite_of(box), await all_of(api, box.kind)
    definitions = await _with_former_kinds(api, composite, parents, [*definitions])
    asks = composite.asks_namespaces or composite.namespaces
    namespaces = {str(metadata(each)["name"]): each for each in (await all_of(api, NAMESPACE) if asks else ())}
    plans: list[BoxPlan] = []
    unfit: list[tuple[str, str]] = []
    for manifest in parents:
        observed = await observe_live(api, composite, composite.read(manifest))
        used = {metadata(manifest).get("namespace"), *observed.peers}
        near = [each for name, each in namespaces.items() if name in used]
        others = [
            *observed.objects.values(),
            *(each for each in near if ref_of(each, NAMESPACE) not in observed.objects),
        ]
        try:
            plans.append(plan_box(box, manifest, _in_order(others), definitions, now))
        except CommandError as error:
            unfit.append((str(ref_of(manifest, box.kind)), error.message))
    return PlanAgainst(tuple(plans), tuple(unfit))


async def _with_former_kinds(
    api: KubeApi, composite: Composite, parents: Iterable[Manifest], definitions: Sequence[Manifest]
) -> Sequence[Manifest]:
    """Return `definitions`, and the cluster's CRDs of kinds of which only an earlier definition of the box made
    objects: without them no plan could say that these objects are deleted.
    """
    kinds = {kind for manifest in parents for kind in composite.observed_kinds(composite.read(manifest))}
    former = {kind.crd_name for kind in kinds if kind.group and kind not in composite.child_kinds}
    known = {metadata(definition).get("name") for definition in definitions}
    return [*definitions, *(crd.manifest for crd in await installed_definitions(api, sorted(former - known)))]


async def _refuse_unserved(api: KubeApi, box: Box) -> None:
    """Raise CommandError if the kind's objects are served in other versions only: a list would be empty."""
    try:
        await api.list(box.kind, limit=1)
    except KindMissing:
        name = str(box.kind.crd_name)
        crd = await find(api, ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name))
        if crd is not None:
            served = ", ".join(each["name"] for each in crd["spec"]["versions"] if each["served"])
            raise CommandError(
                f"the cluster serves {name} in {served}, not in {box.kind.version}, which the box reads: apply the CRD "
                "first, with both versions"
            ) from None


def _in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the objects sorted by kind and name, so that equal clusters give equal plans."""
    return sorted(manifests, key=lambda each: (str(each.get("kind")), str(metadata(each).get("name"))))
