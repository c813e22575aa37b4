"""The cost of expressions: a pass of 33 over six new objects, next to Google's C++ library if it is installed.

python -m bench.expressions
"""

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bench.machine import describe
from purekube.cel import Budget, CelError, Environment, compile_expression
from purekube.cel.types import DYN

EXPRESSIONS = [
    "self.spec.replicas",
    "self.spec.replicas * 2",
    "self.metadata.name + '-web'",
    "has(self.spec.host)",
    "self.spec.tier == 'gold' ? 3 : 1",
    "web.status.readyReplicas == web.spec.replicas",
    "web.status.observedGeneration == web.metadata.generation",
    "web.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
    "pods.items.all(p, p.status.phase == 'Running')",
    "service.status.loadBalancer.ingress[0].ip",
    "job.status.succeeded > 0",
] * 3
"""Expressions like those in gates, status fields and templates of a box of five resources."""

WORST = "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0))))"


def objects() -> dict[str, bytes]:
    """Return six objects as they are received, 13 KB."""
    pad = {"annotations": {"note": "x" * 700}}
    pods = [
        {"metadata": {"name": f"web-{at}", **pad}, "status": {"phase": "Running", "conditions": []}} for at in range(10)
    ]
    found: dict[str, Any] = {
        "self": {"metadata": {"name": "shop"}, "spec": {"replicas": 3, "host": "shop.example.com", "tier": "gold"}},
        "web": {
            "metadata": {"generation": 2, **pad},
            "spec": {"replicas": 3},
            "status": {
                "observedGeneration": 2,
                "readyReplicas": 3,
                "conditions": [{"type": "Progressing", "status": "True"}, {"type": "Available", "status": "True"}],
            },
        },
        "pods": {"items": pods},
        "service": {"metadata": pad, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
        "job": {"metadata": pad, "status": {"succeeded": 1}},
        "database": {"metadata": pad, "status": {"readyReplicas": 1}},
    }
    return {name: msgspec.json.encode(value) for name, value in found.items()}


def ours(raw: dict[str, bytes]) -> Callable[[], object]:
    """Return a function that runs a pass with our evaluator, decoding included."""
    environment = Environment(dict.fromkeys(raw, DYN))
    programs = [compile_expression(text, environment) for text in EXPRESSIONS]

    def run() -> object:
        values = {name: msgspec.json.decode(text) for name, text in raw.items()}
        budget = Budget(steps=1_000_000)
        return [program.evaluate(values, budget) for program in programs]

    return run


def googles(raw: dict[str, bytes]) -> Callable[[], object] | None:
    """Return the same with Google's library, None if it is not installed (`pip install cel-expr-python`)."""
    try:
        cel = importlib.import_module("cel_expr_python.cel")
    except ImportError:
        return None
    env = cel.NewEnv(variables=dict.fromkeys(raw, cel.Type.DYN))
    programs = [env.compile(text) for text in EXPRESSIONS]

    def run() -> object:
        values = {name: msgspec.json.decode(text) for name, text in raw.items()}
        return [program.eval(data=values).value() for program in programs]

    return run


def timed(run: Callable[[], object], times: int = 500) -> float:
    """Return the median time of a call in microseconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found[times // 5 :]) * 1e6


def worst() -> float:
    """Return the seconds that the most expensive expression takes until its limit ends it."""
    program = compile_expression(WORST, Environment({"l": DYN}))
    began = time.perf_counter()
    try:
        program.evaluate({"l": list(range(30))})
    except CelError:
        return time.perf_counter() - began
    raise SystemExit("the dearest expression was not ended")


def main() -> None:
    """Measure and print."""
    print(describe())
    raw = objects()
    print(f"{len(EXPRESSIONS)} expressions on {len(raw)} fresh objects of {sum(map(len, raw.values()))} bytes")
    here, there = ours(raw), googles(raw)
    mine = timed(here)
    print(f"  ours      {mine:8.0f} µs")
    if there is None:
        print("  Google's  not installed (pip install cel-expr-python)")
    else:
        theirs = timed(there)
        print(f"  Google's  {theirs:8.0f} µs   ratio {mine / theirs:.2f}")
    print(f"the dearest expression is ended after {worst():.3f} s")
    began = time.perf_counter()
    environment = Environment(dict.fromkeys(raw, DYN))
    for text in (EXPRESSIONS * 7)[:200]:
        compile_expression(text, environment)
    print(f"200 expressions are compiled and checked in {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    main()
