"""Decisions per second of the pure function on one core: a settled instance, and a fresh one.

python bench/decisions.py
"""

import time
from collections.abc import Callable

from bench.machine import describe, line
from tests.support.instance_worlds import CONTEXT, NAMESPACE, Scene, deployed, instance_manifest, scene, written
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.controller.decision import Decision
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.reconcile import reconcile


def rate(decide: Callable[[], Decision], seconds: float = 0.5) -> float:
    """Calls per second, over at least `seconds`."""
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(100):
            decide()
        calls += 100
    return calls / elapsed


def samples(decide: Callable[[], Decision], count: int = 7) -> list[float]:
    """Several measurements, after one to warm up."""
    rate(decide, 0.2)
    return [rate(decide) for _ in range(count)]


def main() -> None:
    """Measure and print."""
    print(describe())
    first = scene(deployed())
    settled = Scene(written(first.manifest, first.decide()), first.observed)
    source = settled.source
    assert reconcile(source, settled.observed, CONTEXT).is_empty
    print(line("settled", samples(lambda: reconcile(source, settled.observed, CONTEXT)), "decisions/s", "20,000"))
    fresh, nothing = read_application_instance(instance_manifest()), InstanceObserved(NAMESPACE)
    assert len(reconcile(fresh, nothing, CONTEXT).applies) == 2
    print(line("fresh", samples(lambda: reconcile(fresh, nothing, CONTEXT)), "decisions/s", "5,000"))


if __name__ == "__main__":
    main()
