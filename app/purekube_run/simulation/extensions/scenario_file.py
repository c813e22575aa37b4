"""The reader of scenario files, which hold tests of boxes in YAML. Each error names file, line and field (PH-6).

A box is an operator that a YAML file declares.
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Never

import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.problems import index, join
from purekube.boxes.model import API_VERSION
from purekube_run.boxes.document import MarkedDocument, read_marked
from purekube_run.process.command_line import CommandError

KIND: Final = "BoxScenario"
_LIMIT: Final = "10m"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
STEPS: Final[Mapping[str, str]] = {
    "until": "within",
    "expect": "",
    "gone": "",
    "change": "refused",
    "create": "refused",
    "delete": "refused",
    "fault": "",
    "restart": "",
    "after": "",
}
"""The actions that a scenario's step may have, each with the one further field that is allowed next to it, or ""."""
QUALIFIERS: Final = ("within", "refused")
_OF_OBJECTS: Final = ("expect", "gone", "change", "create", "delete")


@attrs.frozen
class ScenarioStep:
    """One step of a scenario (a test of a box): an action `verb` (a key of `STEPS`) with its `value`, and the step's
    place in the file.

    If `refused` is not empty, the API server must refuse the write with a message that contains this text. `within` is
    the time limit of the action `until` in seconds.
    """

    verb: str
    value: Any
    within: float
    place: str
    refused: str = ""

    @property
    def objects(self) -> Sequence[Manifest]:
        """The value of the action as a list of objects, even if the file has only one object there."""
        return self.value if isinstance(self.value, list) else [self.value]


@attrs.frozen
class Scenario:
    """A test of one box: the objects that exist at the start (`given`), then steps.

    The object under test is the first given object of the box's kind.
    """

    name: str
    place: str
    given: tuple[Manifest, ...]
    steps: tuple[ScenarioStep, ...]


def read_scenarios(paths: Sequence[str]) -> list[Scenario]:
    """Return every scenario (a test of a box) in the files `paths`.

    Raises CommandError for an invalid scenario; the message has the problem with its file and line.
    """
    return [_scenario(document) for path in paths for document in read_marked(path)]


def _scenario(document: MarkedDocument) -> Scenario:
    raw = document.value
    if document.problems:
        raise CommandError(str(document.problems[0]))
    if get_path(raw, "apiVersion") != API_VERSION or get_path(raw, "kind") != KIND:
        _refuse(document, "", f"a scenario has apiVersion: {API_VERSION} and kind: {KIND}")
    name, spec = get_path(raw, "metadata", "name"), get_path(raw, "spec")
    if not isinstance(name, str) or not isinstance(spec, Mapping):
        _refuse(document, "", "metadata.name and spec are required")
    _check_words(document, "spec", spec, ("given", "steps"), "a scenario")
    given, steps = spec.get("given"), spec.get("steps")
    if not isinstance(given, list) or not given or not all(isinstance(each, Mapping) for each in given):
        _refuse(document, "spec.given", "must be a list of objects")
    if not isinstance(steps, list) or not steps:
        _refuse(document, "spec.steps", f"must be a list of {', '.join(STEPS)}")
    read = (_step(document, index("spec.steps", number), step) for number, step in enumerate(steps))
    return Scenario(name, str(document.at("")), tuple(given), tuple(read))


def _step(document: MarkedDocument, path: str, raw: Any) -> ScenarioStep:
    if not isinstance(raw, Mapping):
        _refuse(document, path, f"must be one of {', '.join(STEPS)}, with a value")
    _check_words(document, path, raw, (*STEPS, *QUALIFIERS), "a step")
    verbs = [word for word in raw if word in STEPS]
    if len(verbs) != 1:
        _refuse(document, path, f"has {' and '.join(verbs) or 'no action'}: must be exactly one of {', '.join(STEPS)}")
    verb = verbs[0]
    for word in QUALIFIERS:
        if word in raw and STEPS[verb] != word:
            _refuse(
                document, join(path, word), f"belongs to {', '.join(each for each in STEPS if STEPS[each] == word)}"
            )
    place, refused = str(document.at(path)), raw.get("refused", "")
    if "refused" in raw and (not isinstance(refused, str) or not refused):
        _refuse(document, join(path, "refused"), "must be a part of the message with which the API server refuses it")
    step = ScenarioStep(verb, raw[verb], seconds_of(raw.get("within", _LIMIT), place), place, refused)
    if verb == "after":
        seconds_of(raw[verb], place)
    if verb in _OF_OBJECTS and not all(isinstance(each, Mapping) for each in step.objects):
        _refuse(document, join(path, verb), "must be an object, or a list of objects")
    return step


def _check_words(document: MarkedDocument, path: str, raw: Mapping[str, Any], known: Collection[str], of: str) -> None:
    """Raise CommandError for the first key of `raw` that is not in `known`.

    `of` is the part of the file, for the message.
    """
    for word in raw:
        if word not in known:
            near = get_close_matches(word, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            _refuse(document, join(path, word), f"is unknown to {of}; {hint}")


def _refuse(document: MarkedDocument, path: str, problem: str) -> Never:
    raise CommandError(f"{document.at(path)}: {problem}")


def seconds_of(text: Any, place: str = "") -> float:
    """Return a duration such as `90s`, `2m` or `1h` in seconds.

    Raises CommandError for any other value; its message begins with `place`.
    """
    unit = next((unit for unit in _UNITS if isinstance(text, str) and text.removesuffix(unit).isdecimal()), "")
    if not unit:
        raise CommandError(f"{place}: {text!r} is no duration such as 90s, 2m or 1h")
    return int(text.removesuffix(unit)) * _UNITS[unit]
