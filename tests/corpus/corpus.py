"""The corpus as files: worlds, and what came of them when they were recorded.

`worlds/*.jsonl` holds one world a line; `golden/*.jsonl` a line for each: the hash of the world, and what came of it.
`golden/pass-*.jsonl` holds a line for each write and message of a story (`passes.py`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.corpus.neutral import Json, canonical

FOLDER: Final = Path(__file__).parent


def read_lines(path: Path) -> Iterator[Any]:
    """The JSON of each line."""
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        yield json.loads(line)


def write_lines(path: Path, lines: Iterable[Json]) -> None:
    """One line for each."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{canonical(line)}\n" for line in lines), encoding="utf-8")


def worlds() -> dict[str, list[Mapping[str, Any]]]:
    """Every world, by the name of its file."""
    return {path.stem: list(read_lines(path)) for path in sorted((FOLDER / "worlds").glob("*.jsonl"))}


def fingerprint(world: Mapping[str, Any]) -> str:
    """Which world an outcome belongs to."""
    return hashlib.sha256(canonical(world).encode()).hexdigest()[:16]


def golden(name: str) -> Path:
    """Where outcomes are kept."""
    return FOLDER / "golden" / f"{name}.jsonl"


def pass_name(story: str) -> str:
    """The name of a story's file."""
    return "pass-" + "".join(letter if letter.isalnum() else "-" for letter in story)
