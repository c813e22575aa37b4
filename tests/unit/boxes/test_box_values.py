"""Templates as values: what they render, what fits a schema, and what a box's status says (PH-4, PH-6)."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import ConditionStatus
from purekube.boxes.box import Box
from purekube.boxes.compiler.template_compiler import misfits, mismatch
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.decision.evaluation import Evaluation, hold_of, report, when_test, with_faults
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.templates import TextPart, compile_template, renders, text_parts, whole_expression
from purekube.cel import BOOL, DYN, INT, STRING, CelSyntaxError, CelType, list_of, optional_of
from purekube.cel.limits import Budget
from purekube.cel.types import Field
from purekube.cel.values import ABSENT
from purekube.controller.decision import Snapshot
from purekube.graph.node import Child, Hold, HoldCause, NodeChildren, NodeKnowledge, Scope
from purekube.schema import compile_schema
from purekube.schema.node import Schema
from tests.support import boxes
from tests.support.boxes import config, crd, deployment, examined

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FREE = {**boxes.SPEC, "required": ["image", "parts", "free"]}


def box_of(*resources: Any, **spec: Any) -> Box:
    """A box whose parents always have the field free, which may be anything."""
    return boxes.box_of(*resources, kind=crd(FREE), **spec)


def shop(free: Any = None, **spec: Any) -> Manifest:
    meta = {"name": "shop", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T11:59:00Z"}
    given = {"image": "i", "parts": [], "replicas": 2, "free": free, **spec}
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": meta, "spec": given}


# --- texts with expressions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", [("a", 0, False)]),
        ("${a}", [("a", 2, True)]),
        ("x${a}yz${b}", [("x", 0, False), ("a", 3, True), ("yz", 5, False), ("b", 9, True)]),
        ("$${a}", [("${a}", 0, False)]),
        ("a$${b}c${d}", [("a${b}c", 0, False), ("d", 9, True)]),
        ("$a$", [("$a$", 0, False)]),
        ("$$$${a}", [("$$${a}", 0, False)]),
        ("${a}$${b}", [("a", 2, True), ("${b}", 4, False)]),
        ("${{'a': {}}}b", [("{'a': {}}", 2, True), ("b", 12, False)]),
    ],
)
def test_a_text_has_its_parts_at_their_places(text: str, parts: list[tuple[str, int, bool]]) -> None:
    assert text_parts(text) == [TextPart(part, at, is_expression) for part, at, is_expression in parts]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("ab ${c", 4, "${ without its }; write $${ for a ${ that is plain text"),
        ("${a} ${{}", 6, "${ without its }; write $${ for a ${ that is plain text"),
        ("ab ${'c}", 6, "a text without an end"),
    ],
)
def test_an_expression_without_an_end_is_told_at_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(CelSyntaxError) as raised:
        text_parts(text)
    assert (raised.value.line, raised.value.column, raised.value.problem) == (1, column, message)


def test_a_text_that_cannot_be_parsed_stays_unchanged_beside_the_others() -> None:
    raw = {"x": "a ${b", "${c": "d", "y": ["e", "${'f"], "z": 1}
    template, problems = compile_template(raw, "spec", lambda path, piece, in_text: None)

    assert template.render({}) == raw
    assert [problem.path for problem in problems] == ["spec.x", "spec.${c", "spec.y[1]"]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("${a}", "a"),
        ("${a}\n", "a"),
        ("${a}\n\n", None),
        (" ${a}", None),
        ("${a}${b}", None),
        ("a", None),
        ("", None),
        ("$${a}", None),
    ],
)
def test_a_whole_expression_has_nothing_beside_it(text: str, expression: str | None) -> None:
    found = whole_expression(text)
    assert (None if found is None else found.text) == expression


@pytest.mark.parametrize(
    ("data", "free", "expected"),
    [
        ({"x": "a ${self.spec.image} b"}, None, {"x": "a i b"}),
        ({"x": "$${a}"}, None, {"x": "${a}"}),
        ({"x": "$a"}, None, {"x": "$a"}),
        ({"x": "${self.spec.?host}", "y": "z"}, None, {"y": "z"}),
        ({"a-${self.spec.image}": "${self.spec.?host}", "b": "c"}, None, {"b": "c"}),
        ({"a-${self.spec.image}": "x", "b": "c"}, None, {"a-i": "x", "b": "c"}),
        ({"${self.spec.image}": "x"}, None, {"i": "x"}),
        ({"x": "${b'a'}"}, None, {"x": "YQ=="}),
        ({}, None, {}),
    ],
)
def test_a_template_renders_its_expressions_and_leaves_out_what_is_absent(data: Any, free: Any, expected: Any) -> None:
    template = box_of(config("a", data=data)).nodes[0].template
    first, second = (template.render({"self": shop(free)}) for _ in range(2))
    assert first["data"] == second["data"] == expected
    assert first is not second
    assert first["data"] is not second["data"] or not template.expressions


def test_a_template_of_one_expression_may_be_absent_and_is_any_value() -> None:
    status = {"fields": {"address": "${self.spec.?host}", "ready": "${size(self.spec.parts)}"}}
    fields = box_of(config("a"), status=status).status_fields
    assert fields["address"].render({"self": shop()}) is ABSENT
    assert fields["address"].render({"self": shop(host="h")}) == "h"
    assert fields["ready"].render({"self": shop(parts=[{"name": "a"}])}) == 1


@pytest.mark.parametrize(
    ("text", "free", "is_missing", "message"),
    [
        ("a ${dyn(self.spec.free)}", 3, False, "text is made of texts, not of int: write string(…)"),
        ("a ${dyn(self.spec.free)}", [], False, "text is made of texts, not of list: write string(…)"),
        ("${self.spec.free.x}", {}, True, "no such key: x"),
        ("${string(1 / self.spec.free)}", 0, False, "division by zero"),
    ],
)
def test_a_template_that_cannot_be_rendered_fails_at_its_place(
    text: str, free: Any, is_missing: bool, message: str
) -> None:
    box = box_of(config("a", data={"x": text}))
    with pytest.raises(ExpressionFailure) as raised:
        box.nodes[0].template.render({"self": shop(free)})
    failure = raised.value
    path = "spec.resources[0].template.data.x"
    assert (failure.is_missing, failure.problem, failure.place.path) == (is_missing, message, path)
    assert str(failure) == f"{path}: {message}"
    cause = HoldCause.MISSING if is_missing else HoldCause.FAULT
    assert hold_of(failure) == Hold(cause, message, failure.place)


def doubled(times: int) -> str:
    """An expression whose value, written out, has two to the power of `times` items."""
    names = ["1", *(f"v{at}" for at in range(times))]
    binds = "".join(f"cel.bind({name},[{before},{before}]," for before, name in pairwise(names))
    return f"{binds}{names[-1]}{')' * times}"


@pytest.mark.parametrize("form", ["dyn({})", "hash({})", "json({})", "yaml({})"])
def test_a_value_that_contains_another_very_often_takes_too_much_and_does_not_hang_PH_6(form: str) -> None:
    def rendered(times: int) -> Any:
        box = box_of(config("one", data={"a": f"${{{form.format(doubled(times))}}}"}))
        return box.nodes[0].template.render({"self": shop()}, Budget(5_000))["data"]["a"]

    assert rendered(3)
    with pytest.raises(ExpressionFailure, match="too many steps"):
        rendered(40)


def test_data_that_is_nested_too_deeply_is_told_at_its_place_PH_6() -> None:
    deep: Any = "x"
    for _ in range(3_000):
        deep = [deep]
    box = box_of(config("one", data={"a": "${dyn(self.spec.free)}"}))
    with pytest.raises(ExpressionFailure, match="nested too deeply"):
        box.nodes[0].template.render({"self": shop(deep)})


def test_a_failure_of_an_expression_about_a_secret_repeats_nothing() -> None:
    box = box_of(boxes.secret("s"), boxes.secret("t", {"x": "${string(int(s.data.y))}"}))
    with pytest.raises(ExpressionFailure) as raised:
        box.nodes[1].template.render({"self": shop(), "s": {"data": {"y": "secret!"}}})
    assert raised.value.problem == "it cannot be evaluated, and what it reads is secret"
    with pytest.raises(ExpressionFailure) as raised:
        box.nodes[1].template.render({"self": shop(), "s": {"data": {}}})
    assert raised.value.is_missing
    assert raised.value.problem == "it cannot be evaluated, and what it reads is secret"


@pytest.mark.parametrize(
    ("raw", "path", "is_rendered"),
    [
        ({"a": {"b": 1}}, "a.b", True),
        ({"a": {"b": 1}}, "a", True),
        ({"a": {"b": 1}}, "a.c", False),
        ({"a": {"b": 1}}, "a.b.c", False),
        ({"a": "${x}"}, "a.b.c", True),
        ({"a": "x ${x}"}, "a.b", False),
        ({"a": "x"}, "a.b", False),
        ({"a": "${"}, "a.b", False),
        ({"a": [1]}, "a.0.b", True),
        ({"a": None}, "a.b", False),
        ({}, "a", False),
    ],
)
def test_a_template_sets_what_it_names_and_all_below_an_expression(raw: Any, path: str, is_rendered: bool) -> None:
    assert renders(raw, path.split(".")) is is_rendered


# --- what fits a schema ----------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "flag": {"type": "boolean"},
    "port": {"x-kubernetes-int-or-string": True},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "nullable": {"type": "string", "nullable": True},
    "list": {"type": "array", "items": {"type": "integer"}},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "object": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    },
    "short": {"type": "string", "maxLength": 2},
}
SCHEMA = compile_schema({"type": "object", "properties": FIELDS})


def of(name: str) -> Schema:
    return SCHEMA.properties[name]


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("text", "a", []),
        ("text", 1, [(".", "expected string, found a number; quote it")]),
        ("text", None, [(".", "expected string, found null")]),
        ("text", {}, [(".", "expected string, found an object")]),
        ("text", [], [(".", "expected string, found a list")]),
        ("text", "${x}", []),
        ("text", "a ${x}", []),
        ("integer", "${x}", []),
        ("integer", "a ${x}", [(".", "expected integer, found text")]),
        ("integer", "a", [(".", "expected integer, found a string")]),
        ("integer", 1.5, [(".", "expected integer, found a number")]),
        ("number", 1.5, []),
        ("flag", True, []),
        ("flag", 1, [(".", "expected boolean, found a number")]),
        ("port", 1, []),
        ("port", "a", []),
        ("port", "a ${x}", []),
        ("port", True, [(".", "expected integer or string, found a boolean")]),
        ("port", {}, [(".", "expected integer or string, found an object")]),
        ("port", [], [(".", "expected integer or string, found a list")]),
        ("any", {"a": [1, {"b": None}]}, []),
        ("nullable", None, []),
        ("list", [1, 2], []),
        (
            "list",
            [1, "a", "${x}", True],
            [("[1]", "expected integer, found a string"), ("[3]", "expected integer, found a boolean")],
        ),
        ("list", {}, [(".", "expected array, found an object")]),
        ("list", "${x}", []),
        ("map", {"a": "b", "c": 1}, [("c", "expected string, found a number; quote it")]),
        ("map", {"${x}": 1}, [("${x}", "expected string, found a number; quote it")]),
        ("object", {"name": "a"}, []),
        ("object", {}, [("name", "is required")]),
        ("object", {"${x}": 1}, []),
        ("object", {"name": "a", "siz": 1}, [("siz", "undefined field; did you mean size?")]),
        ("object", {"name": "a", "zzz": 1}, [("zzz", "undefined field")]),
        ("object", [], [(".", "expected object, found a list")]),
        ("short", "abc", [(".", "Too long: may not be more than 2 bytes")]),
    ],
)
def test_a_literal_that_a_schema_refuses_is_told_at_its_place(name: str, raw: Any, expected: Any) -> None:
    found = [(problem.path or ".", problem.message) for problem in misfits(raw, of(name))]
    assert found == expected
    below = {problem.path for problem in misfits(raw, of(name), "x")}
    assert below == {"x" if at == "." else f"x{at}" if at[0] == "[" else f"x.{at}" for at, _ in expected}


MAP = CelType("map", (STRING, INT))


@pytest.mark.parametrize(
    ("cel_type", "name", "message"),
    [
        (STRING, "text", None),
        (CelType("timestamp"), "text", None),
        (CelType("bytes"), "text", None),
        (INT, "text", "expected string, found int: write string(…)"),
        (BOOL, "text", "expected string, found bool: write string(…)"),
        (list_of(INT), "text", "expected string, found list(int)"),
        (INT, "integer", None),
        (CelType("uint"), "integer", None),
        (CelType("double"), "integer", "expected integer, found double: write int(…)"),
        (STRING, "integer", "expected integer, found string: write int(…)"),
        (BOOL, "integer", "expected integer, found bool"),
        (CelType("double"), "number", None),
        (STRING, "number", "expected number, found string"),
        (BOOL, "flag", None),
        (STRING, "flag", "expected boolean, found string"),
        (INT, "port", None),
        (STRING, "port", None),
        (BOOL, "port", "expected integer or string, found bool"),
        (DYN, "text", None),
        (CelType("null_type"), "text", "null is no value of it"),
        (CelType("null_type"), "nullable", None),
        (optional_of(INT), "text", "expected string, found int: write string(…)"),
        (optional_of(STRING), "text", None),
        (CelType("quantity"), "text", "a value of type quantity cannot be written: make a string of it"),
        (CelType("type"), "any", "a value of type type cannot be written: make a string of it"),
        (list_of(INT), "list", None),
        (list_of(DYN), "list", None),
        (list_of(STRING), "list", "[*]: expected integer, found string: write int(…)"),
        (INT, "list", "expected array, found int"),
        (MAP, "map", "[*]: expected string, found int: write string(…)"),
        (CelType("map", (STRING, STRING)), "map", None),
        (MAP, "any", None),
        (INT, "object", "expected object, found int"),
        (MAP, "object", None),
    ],
)
def test_a_type_of_which_no_value_fits_is_told(cel_type: CelType, name: str, message: str | None) -> None:
    problem = mismatch(cel_type, of(name))
    told = None if problem is None else f"{problem.path}: {problem.message}" if problem.path else problem.message
    assert told == message


@pytest.mark.parametrize(("levels", "is_told"), [(12, True), (13, False)])
def test_types_are_compared_down_to_a_depth_since_schemas_may_be_recursive(levels: int, is_told: bool) -> None:
    cel_type, schema = INT, dict[str, Any](type="string")
    for _ in range(levels):
        cel_type = CelType("map", fields={"a": Field(cel_type)})
        schema = {"type": "object", "properties": {"a": schema}}

    problem = mismatch(cel_type, compile_schema(schema))

    assert (problem is not None) is is_told


def test_an_object_with_known_fields_fits_where_each_of_them_does() -> None:
    """The type of `self.spec.parts[0]` has the fields `name` and `replicas`."""
    named: dict[str, Any] = {"name": {"type": "string"}}
    for item, expected in (
        ({**named, "replicas": {"type": "integer"}}, []),
        (named, ["replicas: undefined field (self.spec.parts[0])"]),
        (
            {**named, "replicas": {"type": "string"}},
            ["replicas: expected string, found int: write string(…) (self.spec.parts[0])"],
        ),
    ):
        status = {
            "type": "object",
            "properties": {**boxes.STATUS["properties"], "part": {"type": "object", "properties": item}},
        }
        found = examined(config("a"), status={"fields": {"part": "${self.spec.parts[0]}"}}, kind=crd(status=status))
        assert [problem.message for problem in found.problems] == expected


# --- the status ------------------------------------------------------------------------------------------------------


def reported(conditions: list[Any], free: Any = None, fields: Any = None) -> Any:
    box = box_of(config("a"), status={"fields": fields or {}, "conditions": conditions})
    return report(box, Evaluation(box, shop(free)), Scope())


@pytest.mark.parametrize(
    ("said", "free", "expected", "faults"),
    [
        ({"status": "${true}"}, None, ("True", "Open", ""), ()),
        ({"status": "${false}", "reason": "Why", "message": "so"}, None, ("False", "Why", "so"), ()),
        ({"status": "${dyn(self.spec.free)}"}, "x", ("False", "Open", ""), ()),
        ({"status": "${self.spec.free.x == 1}", "message": "so"}, {}, ("Unknown", "NoValueYet", "so"), ()),
        ({"status": "${self.spec.free.x == 1}"}, {}, ("Unknown", "NoValueYet", "no such key: x"), ()),
        (
            {"status": "${1 / self.spec.free == 1}"},
            0,
            ("Unknown", "NoValueYet", "division by zero"),
            ("spec.status.conditions[0].status: division by zero",),
        ),
        (
            {"status": "${true}", "reason": "${self.spec.free.x}", "message": "${self.spec.free.x}"},
            {},
            ("True", "Open", ""),
            (),
        ),
        (
            {"status": "${true}", "reason": "${dyn(self.spec.free)}", "message": "${dyn(self.spec.free)}"},
            3,
            ("True", "Open", ""),
            (),
        ),
    ],
)
def test_a_condition_says_what_its_expressions_give(said: Any, free: Any, expected: Any, faults: Any) -> None:
    found = reported([{"type": "Open", **said}], free)
    status, reason, message = expected
    assert found.conditions == (DesiredCondition("Open", ConditionStatus(status), reason, message),)
    assert found.faults == faults


def test_a_field_that_fails_is_told_and_does_not_touch_another() -> None:
    fields = {"address": "${string(1 / self.spec.free)}", "ready": "${size(self.spec.parts)}"}
    found = reported([], 0, fields)
    assert found.fields == {"ready": 0}
    assert found.faults == ("spec.status.fields.address: division by zero",)
    assert reported([], {}, {"address": "${self.spec.free.x}"}).faults == ()


def conditions(ready: str | None, *more: str) -> list[DesiredCondition]:
    found = [DesiredCondition(kind, ConditionStatus.FALSE, "R", "m") for kind in more]
    return found if ready is None else [*found, DesiredCondition("Ready", ConditionStatus(ready), "R", "m")]


def test_a_fault_of_the_status_stalls_a_parent_that_would_be_ready() -> None:
    for given in (
        conditions("True", "Stalled"),
        conditions("False"),
        conditions(None, "Stalled"),
        conditions("Unknown"),
    ):
        assert with_faults(given, ()) == tuple(given)
    for given in (conditions("False"), conditions(None, "Stalled"), conditions("Unknown")):
        assert with_faults(given, ("f",)) == tuple(given)
    assert with_faults(conditions("True", "Stalled", "Open"), ("first", "second")) == (
        DesiredCondition("Ready", ConditionStatus.FALSE, "ExpressionFailed", "first"),
        DesiredCondition("Open", ConditionStatus.FALSE, "R", "m"),
        DesiredCondition("Stalled", ConditionStatus.TRUE, "ExpressionFailed", "first"),
    )


# --- gates -----------------------------------------------------------------------------------------------------------


def asked(*when: Any, free: Any = None, **entries: Any) -> tuple[Any, float | None]:
    """What the gates of a resource say, and in how many seconds they are asked again."""
    box = box_of(deployment("web"), config("a", when=list(when), **entries))
    found = box.node("a")
    assert found is not None
    evaluation = Evaluation(box, shop(free), NOW, Snapshot())
    web = {"web": NodeChildren(NodeKnowledge.RENDERED, (Child("", None, {"spec": {"replicas": 1}}),))}
    answer = when_test(found.when_conditions)(Scope(evaluation.scope().values, web))
    due = evaluation.due
    return answer, None if due is None else (due - NOW).total_seconds()


def closed(cause: HoldCause, message: str, path: str) -> tuple[HoldCause, str, str]:
    return cause, message, path


AT = "spec.resources[1].when[0]"


@pytest.mark.parametrize(
    ("gate", "free", "expected", "due"),
    [
        ("${true}", None, True, None),
        ("${self.spec.image == 'x'}", None, (HoldCause.NO, "waits until self.spec.image == 'x'", AT), None),
        ("${self.spec.free.x == 1}", {}, (HoldCause.NO, "waits until self.spec.free.x == 1", AT), None),
        ("${1 / self.spec.free == 1}", 0, (HoldCause.FAULT, "division by zero", AT), None),
        ({"after": "60s"}, None, True, None),
        ({"after": "59s"}, None, True, None),
        (
            {"after": "61s"},
            None,
            (
                HoldCause.NO,
                "waits until 61s have passed since metadata.creationTimestamp, at 2026-01-01T12:00:01Z",
                f"{AT}.field",
            ),
            1.0,
        ),
        (
            {"after": "61s", "field": "spec.free.at"},
            {},
            (HoldCause.NO, "waits until 61s have passed since spec.free.at", f"{AT}.field"),
            None,
        ),
        (
            {"after": "61s", "field": "${dyn(self.spec.free)}"},
            None,
            (HoldCause.NO, "waits until 61s have passed since ${dyn(self.spec.free)}", f"{AT}.field"),
            None,
        ),
        ({"after": "10s", "field": "spec.free.at"}, {"at": "2026-01-01T11:00:00Z"}, True, None),
        (
            {"after": "10s", "field": "${string(1 / self.spec.free)}"},
            0,
            (HoldCause.FAULT, "division by zero", f"{AT}.field"),
            None,
        ),
    ],
)
def test_a_gate_is_open_or_says_what_it_waits_for(gate: Any, free: Any, expected: Any, due: float | None) -> None:
    answer, again = asked(gate, free=free)
    if isinstance(answer, Hold):
        answer = (answer.cause, answer.message, answer.place.path)
    assert (answer, again) == (expected, due)


ANY = "spec.resources[1].any"


@pytest.mark.parametrize(
    ("entries", "free", "expected", "due"),
    [
        (["${self.spec.image == 'x'}", "${true}"], None, True, None),
        (["${self.spec.image == 'x'}", {"after": "9s"}], None, True, None),
        (["${true}", {"after": "2m"}], None, True, None),
        (["${1 / self.spec.free == 1}", {"after": "9s"}], 0, True, None),
        (["${1 / self.spec.free == 1}", {"after": "2m"}], 0, (HoldCause.FAULT, "division by zero"), None),
        (["${1 / self.spec.free == 1}", "${true}"], 0, True, None),
        (
            ["${self.spec.free.x == 1}", {"after": "3m"}, {"after": "2m"}],
            {},
            (
                HoldCause.NO,
                "waits until self.spec.free.x == 1 or 3m have passed since metadata.creationTimestamp or 2m have "
                "passed since metadata.creationTimestamp, at 2026-01-01T12:01:00Z",
            ),
            60.0,
        ),
    ],
)
def test_any_of_several_gates_opens(entries: list[Any], free: Any, expected: Any, due: float | None) -> None:
    answer, again = asked(free=free, any=entries)
    if isinstance(answer, Hold):
        assert answer.place.path == ANY or answer.place.path.startswith(ANY)
        answer = (answer.cause, answer.message)
    assert (answer, again) == (expected, due)


def test_the_first_closed_gate_is_told_and_that_of_a_phase_with_its_name() -> None:
    answer, _ = asked("${true}", "${false}", "${1 / 0 == 1}")
    assert (answer.message, answer.place.path) == ("waits until false", "spec.resources[1].when[1]")
    box = box_of(phases=[{"name": "late", "when": ["${false}"], "resources": [config("a")]}])
    gates = box.nodes[0].when_conditions
    told = when_test(gates)(Evaluation(box, shop(), NOW).scope())
    assert isinstance(told, Hold)
    assert (told.cause, told.message) == (HoldCause.NO, "gate of phase late: waits until false")


def test_the_earliest_time_of_a_gate_is_when_the_parent_is_looked_at_again() -> None:
    evaluation = Evaluation(box_of(config("a")), shop(), NOW)
    for minutes, earliest in ((5, 5), (9, 5), (2, 2)):
        evaluation.look_again(NOW + timedelta(minutes=minutes))
        assert evaluation.due == NOW + timedelta(minutes=earliest)
    parent = composite_of(box_of(config("a", when=[{"after": "90s"}]))).read(shop())
    decision = composite_of(box_of(config("a", when=[{"after": "90s"}]))).decide(parent, Snapshot(), NOW)
    assert decision.requeue.after == 30.0
