"""Decisions per second of processor time: of a settled instance, of many in turn, and of a fresh one.

    python -m bench.decisions

The same copy again is what a reconcile gets while Flux reports on one request: results that depend on the spec alone
are cached. Many in turn are more than the cache holds, so each is decided as after a restart.
"""

import time
from collections.abc import Callable
from itertools import cycle

from bench.machine import describe, line
from purekube.controller.decision import Decision
from tests.support.instance_worlds import (
    CONTEXT,
    NAMESPACE,
    Scene,
    deployed,
    instance_manifest,
    scene,
    with_meta,
    written,
)
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.intent import REMEMBERED
from vworkspace_core.instances.reconcile import reconcile

MANY = 2 * REMEMBERED


def rate(decide: Callable[[], Decision], seconds: float) -> float:
    """Return the calls per second of this process's processor time, measured over at least `seconds` of it."""
    calls, start = 0, time.process_time()
    while (used := time.process_time() - start) < seconds:
        for _ in range(20):
            decide()
        calls += 20
    return calls / used


def samples(decide: Callable[[], Decision], count: int = 101) -> list[float]:
    """Return many short measurements, after one to warm up: other load on the machine spoils some of them."""
    rate(decide, 0.2)
    return [rate(decide, 0.02) for _ in range(count)]


def settled_scene(name: str) -> Scene:
    """Return the scene of an instance of that name for which there is nothing left to do."""
    first = scene(deployed(), manifest=with_meta(instance_manifest(), name=name, uid=f"uid-of-{name}"))
    return Scene(written(first.manifest, first.decide()), first.observed)


def main() -> None:
    """Measure and print."""
    print(describe())
    settled = settled_scene("nextcloud-myteam")
    source = settled.source
    assert reconcile(source, settled.observed, CONTEXT).is_empty
    print(line("settled", samples(lambda: reconcile(source, settled.observed, CONTEXT)), "decisions/s", "20,000"))
    many = cycle([(each.source, each.observed) for each in map(settled_scene, (f"shop-{at}" for at in range(MANY)))])
    assert all(reconcile(*next(many), CONTEXT).is_empty for _ in range(MANY))
    print(line("settled, many in turn", samples(lambda: reconcile(*next(many), CONTEXT)), "decisions/s"))
    fresh, nothing = read_application_instance(instance_manifest()), InstanceObserved(NAMESPACE)
    assert len(reconcile(fresh, nothing, CONTEXT).applies) == 2
    print(line("fresh", samples(lambda: reconcile(fresh, nothing, CONTEXT)), "decisions/s", "5,000"))


if __name__ == "__main__":
    main()
