"""Laws (required properties) of controllers, tried on one object: with and without faults, restarts and deletions."""

import json
from collections.abc import Sequence
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, Manifest, content_hash
from purekube.reconcilers import Object, Resource
from purekube_kit.cluster import Definition
from purekube_run.simulation.extensions.runnables import Runnable, resource_of
from purekube_run.simulation.extensions.trial import BrokenLaw, Outside, Trial

_MOST_LINES: Final = 40
_FIRST: Final = 8


class LawBroken(AssertionError):
    """The failure of a test in which a law was broken, with law, breach, object, and the way to reproduce it."""


def hold(
    controller: Runnable,
    given: Object[Any, Any] | Manifest,
    *,
    outside: Outside | None = None,
    serves: Sequence[Definition] = (),
    keeps: Sequence[Kind] = (),
    by_hand: bool = True,
    within: float = 600.0,
    seed: int | None = None,
) -> None:
    """Try all laws on the object `given`. Raises LawBroken.

    The laws:

    * A pure reconciler returns the same when it is called twice.
    * The object comes to rest within `within` seconds, with a Ready condition that does not flap. Then there are no
      more writes, not even after a restart.
    * After a minute of faults, everything is as without faults. The faults are requests without responses, kills, late
      events, expired watches, pods that do not start and, if `by_hand` is True, children that users delete.
    * Whenever the object is deleted, it is removed together with everything that the controller created for it, except
      objects of the kinds `keeps`.

    Each law is tried in a new cluster in memory, with a deep copy of the controller. If the controller uses a service
    outside of the cluster, `outside` takes the copy and returns the state of a fake of that service. The state must
    become the same in all clusters; after a deletion it must be as before the creation. `serves` are further kinds that
    the clusters serve. The faults depend only on the object, or on `seed` if it is given.
    """
    definitions = [each.crd() if isinstance(each, Resource) else each for each in serves]
    drawn, manifest = _seed_of(given) if seed is None else seed, _manifest_of(controller, given)
    try:
        Trial(controller, manifest, drawn, definitions, outside, keeps, by_hand, within).run()
    except BrokenLaw as broken:
        raise LawBroken(_failure_text(broken, manifest, drawn)) from broken.__cause__


def _manifest_of(controller: Runnable, given: Object[Any, Any] | Manifest) -> Manifest:
    if not isinstance(given, Object):
        return given
    if (resource := resource_of(controller)) is None:
        raise TypeError("the object of a box is a manifest, as objects_of(box.crd) draws it")
    return {key: value for key, value in resource.manifest(given).items() if key != "status"}


def _seed_of(given: Object[Any, Any] | Manifest) -> int:
    manifest = {"name": given.metadata.name, "spec": repr(given.spec)} if isinstance(given, Object) else given
    return int(content_hash(manifest), 16) % 1_000_000


def _failure_text(broken: BrokenLaw, manifest: Manifest, seed: int) -> str:
    timeline = broken.timeline
    lines = [
        f"the law “{broken.law}” does not hold: {broken.told}",
        "on this object:",
        *(f"  {line}" for line in json.dumps(manifest, indent=2).splitlines()),
        f"again: laws.hold(controller, object, seed={seed})",
        "timeline:",
        *(timeline if len(timeline) <= _MOST_LINES else (*timeline[:_FIRST], "…", *timeline[_FIRST - _MOST_LINES :])),
    ]
    return "\n".join(lines)
