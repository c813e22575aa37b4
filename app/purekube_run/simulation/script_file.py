"""The JSON file of a simulation script: the users' actions and the faults of a run, one per line (SIM-3).

A file is validated completely before its script is run.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from purekube_run.simulation.input_file import (
    BadFile,
    Bounds,
    check_bounds,
    check_known,
    converted,
    decoded,
    read_bytes,
)
from purekube_run.simulation.script import Act, Incident, SimulationScript

FORMAT: Final = "vworkspace.io/simulation/v1"
_LARGEST: Final = 32 * 1024 * 1024
_MOST_STEPS: Final = 200_000
_LONGEST_RUN: Final = 86_400.0
_BOUNDS: Final = {
    "seed": Bounds(-(2**63), 2**63 - 1),
    "replicas": Bounds(1, 20),
    "shards": Bounds(1, 10),
    "replica": Bounds(0, 199),
    "seconds": Bounds(0, _LONGEST_RUN),
    "at": Bounds(0, _LONGEST_RUN),
    "choice": Bounds(0, 1),
    "number": Bounds(0, 10**9),
}
_NAME: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,40}[a-z0-9])?-[0-9]{1,6}")
_STEPS: Final = ("acts", "incidents")
_HEAD: Final = ("format", *(field.name for field in attrs.fields(SimulationScript)), "broken")


def script_text(script: SimulationScript, broken: Mapping[str, Any] | None = None) -> str:
    """Return a script (the actions and faults of a simulated run) as the text of its JSON file.

    `broken` is stored with it. It describes the law (required property) that the script breaks: the law's name, the
    object and the observation. It is None if the script breaks no law.
    """
    fields = attrs.asdict(script, filter=lambda field, value: field.name not in _STEPS and not _is_absent(value))
    head = {"format": FORMAT, **fields, **({"broken": broken} if broken else {})}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    for name, steps in (("acts", script.acts), ("incidents", script.incidents)):
        rows = ",\n".join("    " + json.dumps(attrs.asdict(step)) for step in steps)
        lines.append(f'  "{name}": [\n{rows}\n  ]{"," if name == "acts" else ""}')
    return "{\n" + "\n".join(lines) + "\n}\n"


def _is_absent(value: object) -> bool:
    """Report whether a field with this value is left out of a file."""
    return value == () or value is False


def read_script(path: Path, deeds: Collection[str], faults: Collection[str]) -> SimulationScript:
    """Return the script (the users' actions and the faults of a simulated run) in a file.

    Raises BadFile if the file cannot be read or is malformed, or if it has an action that is not in `deeds` or a fault
    that is not in `faults`, the names that are permitted.
    """
    return script_in(path, read_bytes(path, _LARGEST), deeds, faults)


def script_in(path: Path, raw: bytes, deeds: Collection[str], faults: Collection[str]) -> SimulationScript:
    """Return the script (the users' actions and the faults of a simulated run) in `raw`, the content of a file.

    `path` is only for messages. Raises BadFile if the content is malformed, or if it has an action that is not in
    `deeds` or a fault that is not in `faults`, the names that are permitted.
    """
    data = decoded(path, raw)
    if not isinstance(data, dict):
        raise BadFile(path, "$: is no saved run: it is no JSON object")
    if data.get("format") != FORMAT:
        raise BadFile(path, f"$.format: {str(data.get('format'))[:60]!r} is not {FORMAT}: another version saved it")
    if unknown := [name for name in data if name not in _HEAD]:
        raise BadFile(path, f"$.{unknown[0]}: is unknown; there are {', '.join(_HEAD)}")
    for name, into in (("acts", Act), ("incidents", Incident)):
        _check_steps(path, data.get(name), into, f"$.{name}")
    script: SimulationScript = converted(path, {**data, "broken": None}, SimulationScript)
    check_bounds(path, script, _BOUNDS, "$.")
    _check_script(path, script, deeds, faults)
    members = {str(deed): deed for deed in reversed([*deeds])}  # a workload may tell them apart by identity
    return attrs.evolve(script, acts=tuple(attrs.evolve(act, do=members[act.do]) for act in script.acts))


def _check_steps(path: Path, steps: Any, into: type, place: str) -> None:
    if not isinstance(steps, list):
        raise BadFile(path, f"{place}: is no list")
    if len(steps) > _MOST_STEPS:
        raise BadFile(path, f"{place}: holds {len(steps):,} entries, at most {_MOST_STEPS:,} can be run")
    for number, step in enumerate(steps):
        if isinstance(step, dict):
            check_known(path, step, into, f"{place}[{number}].")


def _check_script(path: Path, script: SimulationScript, deeds: Collection[str], faults: Collection[str]) -> None:
    for name, steps in (("acts", script.acts), ("incidents", script.incidents)):
        for number, step in enumerate(steps):
            check_bounds(path, step, _BOUNDS, f"$.{name}[{number}].")
    for number, act in enumerate(script.acts):
        if not _NAME.fullmatch(act.name):
            raise BadFile(path, f"$.acts[{number}].name: {act.name[:60]!r} is no name such as app-0")
        if act.do not in deeds:
            raise BadFile(path, f"$.acts[{number}].do: there is no act {act.do[:60]!r}")
    for number, incident in enumerate(script.incidents):
        if incident.fault not in faults:
            raise BadFile(path, f"$.incidents[{number}].fault: there is no fault {incident.fault[:60]!r}")
