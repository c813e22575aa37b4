"""`box check`: everything that is wrong with boxes, at once."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from vworkspace_app.boxes.load import LoadedBox, as_json, load_boxes
from vworkspace_app.process.errors import FAILURE
from vworkspace_core.boxes.box import Box


def check_boxes(files: Sequence[str], crds: Sequence[Path], output: str) -> int:
    """Print what was found, and return the exit status. Raises CommandError for files that cannot be read."""
    loaded = load_boxes(files, crds)
    print(_json(loaded) if output == "json" else "\n".join(line for one in loaded for line in _lines(one)))
    return FAILURE if any(one.problems for one in loaded) else 0


def _lines(one: LoadedBox) -> Iterable[str]:
    yield from map(str, one.problems)
    for warning in one.warnings:
        yield f"{warning.place}: warning: {warning.message}"
    if one.box is None:
        yield f"{one.file}: {_count(len(one.problems), 'error')}, {_count(len(one.warnings), 'warning')}"
        return
    typed = f"{_count(one.examination.expressions, 'expression')} typed"
    yield f"{one.file}: ok: {summary(one.box)}, {typed}{waves(one.box)}"
    unchecked, untyped = one.examination.unchecked, one.examination.untyped
    yield f"  not checked: {', '.join(unchecked) or 'none'}; kinds without a schema: {', '.join(untyped) or 'none'}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def summary(box: Box) -> str:
    """How much there is in a box."""
    drains = sum(map(len, box.drains))
    parts = [_count(len(box.nodes), "resource")]
    parts += [_count(len(box.externals), "external")] if box.externals else []
    parts += [_count(drains, "drain")] if drains else []
    return ", ".join(parts)


def waves(box: Box) -> str:
    """The ids wave by wave, in the order in which they are applied."""
    numbers = sorted({node.wave for node in box.nodes})
    named = [" ".join(node.id for node in box.nodes if node.wave == number) for number in numbers]
    return f"; waves {' | '.join(named)}" if named else ""


def _json(loaded: Sequence[LoadedBox]) -> str:
    return json.dumps([_found(one) for one in loaded], indent=2)


def _found(one: LoadedBox) -> dict[str, Any]:
    told = [as_json(problem, "error") for problem in one.problems]
    told += [as_json(warning, "warning") for warning in one.warnings]
    return {
        "file": one.file,
        "ok": one.box is not None,
        "problems": told,
        "expressions": one.examination.expressions,
        "unchecked": list(one.examination.unchecked),
        "kindsWithoutSchema": list(one.examination.untyped),
    }
