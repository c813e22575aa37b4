"""The laws (required properties) of the changes of a release that Operations of the engine helm request (REC-9)."""

from collections.abc import Iterator
from typing import Any

import attrs

from kubelab.model.records import Record
from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube_run.simulation.laws import Unsettled, place_of
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.settled_laws import is_ready
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION


@attrs.define
class _Upgrade:
    """An Operation of the engine helm that has begun: its target, and what the target wanted then.

    `is_overtaken` says that the target has wanted something else since, at least for a while.
    """

    uid: str
    name: str
    target: str
    chart: Any
    values: Any
    has_succeeded: bool = False
    is_overtaken: bool = False


class OverrideLaws:
    """The checks of the laws (required properties) of release overrides in a simulated run, once it has settled."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._world = laws.operator_world
        self._upgrades: dict[str, _Upgrade] = {}
        """The upgrades by uid, in the order in which they began."""
        laws.observe(OPERATION, self._operation)
        laws.observe(APPLICATION_INSTANCE, self._instance)

    def _operation(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        live = None if after is None else after.shared()
        if after is None or get_path(live, "spec", "engine") != "helm":
            return
        key = (str(ref.namespace), str(get_path(live, "spec", "targetRef", "name")))
        target = self._world.server.store.get(place_of(APPLICATION_INSTANCE), key)
        phase = get_path(live, "status", "phase")
        if phase == "Running" and after.uid not in self._upgrades and target is not None:
            chart, values = (get_path(target.shared(), "spec", part) for part in ("chart", "values"))
            self._upgrades[after.uid] = _Upgrade(after.uid, ref.name, target.uid, chart, values)
        elif phase == "Succeeded" and after.uid in self._upgrades:
            self._upgrades[after.uid].has_succeeded = True

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None or not self._upgrades:
            return
        now = [get_path(after.shared(), "spec", part) for part in ("chart", "values")]
        for upgrade in self._upgrades.values():
            if upgrade.target == after.uid and [upgrade.chart, upgrade.values] != now:
                upgrade.is_overtaken = True

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each Ready instance that keeps an upgrade which its spec has overtaken, or lacks the last one.

        After a restore of etcd there is none, since upgrades were forgotten.
        """
        if self._world.was_restored:
            return
        for live in self._world.objects(APPLICATION_INSTANCE):
            is_held = conditions_by_type(live).get("Blocked", {}).get("status") == "True"
            if is_ready(live) and not is_held:
                yield from self._of_instance(live)

    def _of_instance(self, live: Manifest) -> Iterator[Unsettled]:
        meta, ref = metadata(live), str(ref_of(live, APPLICATION_INSTANCE))
        override: Any = get_path(live, "status", "releaseOverride") or {}
        chart, values = (get_path(live, "spec", part) for part in ("chart", "values"))
        standing = self._upgrades.get(str(override.get("uid")))
        if standing is not None:
            kept = [("chart", override.get("version"), standing.chart == chart)]
            kept += [("values", override.get("valuesPatch"), standing.values == values)]
            for part, asked, is_same in kept:
                if asked and not is_same:
                    told = f"spec.{part} has changed since {standing.name} began"
                    yield Unsettled("REC-9", "a newer spec ends an upgrade", ref, told)
        own = [each for each in self._upgrades.values() if each.target == meta["uid"] and each.has_succeeded]
        last = own[-1] if own else None
        if last is not None and not last.is_overtaken and override.get("uid") != last.uid:
            yield Unsettled("REC-9", "a succeeded upgrade stays", ref, f"{last.name} is not in force")
