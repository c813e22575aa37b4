"""Whatever becomes of a box's file, `check` ends in problems with a place, never in a traceback (hostile boxes)."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdProblem, CrdVersions, Schemas
from purekube_run.boxes.document import read_marked
from purekube_run.boxes.load import load_text
from tests.support.effort import effort

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
NAMES = ("webapp", "registry")
DOCUMENTS = {name: read_marked(str(EXAMPLES / f"{name}.yaml"))[0].value for name in NAMES}
CRDS = {name: read_marked(str(EXAMPLES / f"{name}-crd.yaml"))[0].value for name in NAMES}
KNOWN = {name: CrdVersions.of(CRDS[name]) for name in NAMES}

VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**18, "", "a", "${", "${}", "${self}", "${self.spec}", "${[self]}", "$${x}", "a${1}b"),
    *("${children}", "${children.deployment[*]}", "${web.status}", "${hash(self)}", "${1/0}", "${self.spec.?host}"),
    *(
        [],
        [[]],
        {},
        {"": ""},
        {"a": {"b": [1]}},
        [{"id": "x"}],
        ["${" + "(" * 80],
        "${" + "a." * 300 + "b}",
        "x" * 5000,
    ),
    *("${tls.data.x}", "${password.data}", "self", "a\x00b", "${'\u2028'}", "${c}", "${key}", "[*]"),
]


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*path, key))


PATHS = {name: list(paths_of(DOCUMENTS[name])) for name in NAMES}
CRD_PATHS = {name: list(paths_of(CRDS[name])) for name in NAMES}
HOW = st.sampled_from(["replace", "remove", "rename", "double"])


def changed(document: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    document = copy.deepcopy(document)
    around = document
    for step in path[:-1]:
        around = around[step]
    last = path[-1]
    if how == "replace":
        around[last] = copy.deepcopy(value)
    elif how == "remove":
        del around[last]
    elif how == "rename" and isinstance(around, dict):
        around[value if isinstance(value, str) else "x"] = around.pop(last)
    elif isinstance(around, list):
        around.append(copy.deepcopy(around[last]))
    return document


def judged(document: Any, crd: CrdVersions) -> None:
    """The box is compiled, or every problem says where."""
    try:
        model = read_box(document)
    except ValidationProblems:
        return  # which is never raised without problems
    found = examine(model, crd, Schemas([crd]))
    assert (found.box is None) == bool(found.problems)
    assert all(problem.place.path and problem.message for problem in found.problems)


@settings(max_examples=effort(2))
@given(st.sampled_from(NAMES), st.data())
def test_box_with_any_field_changed_is_judged(name: str, data: st.DataObject) -> None:
    document = DOCUMENTS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PATHS[name]))
        try:
            document = changed(document, path, data.draw(HOW), data.draw(st.sampled_from(VALUES)))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took it away
    judged(document, KNOWN[name])


def test_box_with_every_value_at_every_place_is_judged() -> None:
    for at, path in enumerate(PATHS["registry"]):
        judged(changed(DOCUMENTS["registry"], path, "replace", VALUES[at % len(VALUES)]), KNOWN["registry"])


@given(st.sampled_from(NAMES), st.data())
def test_box_beside_any_crd_is_judged(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(CRD_PATHS[name]))
    try:
        crd = CrdVersions.of(changed(CRDS[name], path, data.draw(HOW), data.draw(st.sampled_from(VALUES))))
    except CrdProblem:
        return
    judged(DOCUMENTS[name], crd)


def test_box_beside_a_schema_with_keywords_of_other_types_is_refused() -> None:
    """Found by the law above."""
    path = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "required")
    with pytest.raises(CrdProblem, match="required"):
        CrdVersions.of(changed(CRDS["registry"], path, "replace", [[]]))


SIGNS = st.text("{}[]:#&*!|>'\"%@`\t\n -?,ax$0\u00e9\x07", max_size=5)


@settings(max_examples=effort(2))
@given(st.sampled_from(NAMES), st.integers(0, 4_000), st.integers(0, 40), SIGNS)
@example("webapp", 0, 10_000, "")
def test_box_of_any_text_ends_in_places(name: str, at: int, length: int, instead: str) -> None:
    path = EXAMPLES / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    loaded = load_text(str(path), text[:at] + instead + text[at + length :])
    assert (loaded.box is None) == bool(loaded.problems)
    assert all(problem.place.file and problem.message for problem in loaded.problems)
