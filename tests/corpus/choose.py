"""Chooses worlds for the corpus: `python -m tests.corpus.choose all harvest.jsonl …` writes `worlds/*.jsonl`.

Of what `harvest.py` collected, a small set is taken that runs through every branch of the code that any of it runs
through, and that shows every condition, reason and effect. The result is data; nothing here is needed to compare.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tests.corpus.corpus import FOLDER, read_lines
from tests.corpus.neutral import Json, canonical
from tests.corpus.play import play

MOST = {"instance": 70, "operation": 60, "jobs": 25, "credential": 15, "lease": 16, "informer": 15, "cluster": 20}
"""How many worlds of each at most."""


def choose(found: Iterable[Mapping[str, Any]], taken: int) -> Iterator[Mapping[str, Any]]:
    """At most `taken` worlds, the best first."""
    left = [(world, shown(world)) for world in found]
    seen: set[object] = set()
    for _ in range(taken):
        scored = [(_worth(things - seen, world), at) for at, (world, things) in enumerate(left)]
        best, at = max(scored, default=(0.0, -1))
        if best <= 0:
            return
        world, things = left.pop(at)
        seen |= things
        yield {"of": world["of"], "given": world["given"]}


def _worth(news: set[object], world: Mapping[str, Any]) -> float:
    size = len(canonical(world["given"]))
    return len(news) / (size + 3000.0)


def shown(world: Mapping[str, Any]) -> set[object]:
    """Branches of the core that `world` runs through, and what is seen from outside; empty for one that plays anew."""
    things: set[object] = set()

    def step(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if "vworkspace_core" not in code.co_filename or "/cel/" in code.co_filename:
            return None
        last = [0]

        def line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                things.add((code.co_filename, last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            return line

        return line

    sys.settrace(step)
    try:
        result = play(world)
    except Exception as error:
        sys.settrace(None)
        print("does not play:", world["of"], type(error).__name__, str(error)[:200])
        return set()
    finally:
        sys.settrace(None)
    if canonical(result) != canonical(world["result"]):
        print("plays otherwise:", world["of"])
        return set()
    return things | set(_outside(result))


def _outside(result: Json) -> Iterator[object]:
    """Conditions, reasons, tags and kinds in what came of it."""
    if isinstance(result, Mapping):
        if {"type", "status", "reason"} <= result.keys():
            yield "condition", result["type"], result["status"], result["reason"]
        for key, value in result.items():
            if key in ("~", "reason", "pace", "finalizer", "outcome", "object", "level"):
                yield key, str(value).split(" ")[0] if key == "object" else str(value)
            yield from _outside(value)
    elif isinstance(result, list):
        for value in result:
            yield from _outside(value)


def main() -> None:
    """Write the chosen ones, a file for each that is played."""
    worlds: dict[str, list[Mapping[str, Any]]] = {}
    only, *paths = sys.argv[1:]
    for path in paths:
        for world in read_lines(Path(path)):
            if only not in ("all", world["of"]):
                continue
            worlds.setdefault(world["of"], []).append(world)
    for about, found in sorted(worlds.items()):
        lines = [canonical(world) for world in choose(found, MOST.get(about, 8))]
        (FOLDER / "worlds").mkdir(exist_ok=True)
        (FOLDER / "worlds" / f"{about.replace(' ', '-')}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(about, len(found), "harvested,", len(lines), "taken,", sum(map(len, lines)), "characters")


if __name__ == "__main__":
    main()
