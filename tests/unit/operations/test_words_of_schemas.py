"""OPS-2: each rule of a JSON Schema in exact words and with its path, and which schemas are none."""

from typing import Any

import pytest

from purekube.apimachinery.problems import MOST_PROBLEMS, Problem
from vworkspace_core.operations.parameter_schemas import (
    ARGUMENT,
    CRON,
    DURATION,
    list_schema,
    mapped,
    record,
    with_description,
)
from vworkspace_core.operations.schema_violations import schema_problems, violations_of

STRING = {"type": "string"}
PLAIN = {"pattern": "^a$"}
TOLD = {"pattern": "^a$", "examples": ["a", "b"], "description": "The letter."}

WORDS: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "string"}, 1, "must be a string, not a number"),
    ({"type": ["array", "object"]}, "x", "must be a list or an object, not a string"),
    ({"type": ["integer", "null"]}, True, "must be an integer or null, not a boolean"),
    ({"type": ["number", "boolean"]}, "x", "must be a number or true or false, not a string"),
    ({"enum": ["a", 1]}, "b", "must be one of a, 1, not 'b'"),
    ({"enum": ["a", 1]}, 2, "must be one of a, 1, not a number"),
    ({"enum": ["a"]}, ["a"], "must be one of a, not a list"),
    ({"const": "a"}, "b", "must be a, not 'b'"),
    ({"minimum": 2}, 1, "must be at least 2, not 1"),
    ({"maximum": 2}, 3, "must be at most 2, not 3"),
    ({"minLength": 1}, "", "must not be empty"),
    ({"minLength": 2}, "a", "must have at least 2 characters, not 1"),
    ({"minItems": 1}, [], "must not be empty"),
    ({"minItems": 2}, [1], "must have at least 2 items, not 1"),
    ({"minProperties": 1}, {}, "must not be empty"),
    ({"minProperties": 2}, {"a": 1}, "must have at least 2 entries, not 1"),
    ({"minProperties": 1, "properties": {"b": {}, "a": {}}}, {}, "must give at least one of a, b"),
    ({"minProperties": 2, "properties": {"b": {}, "a": {}}}, {"a": 1}, "must give at least 2 of a, b"),
    ({"maxLength": 2}, "abc", "must have at most 2 characters, not 3"),
    ({"maxItems": 1}, [1, 2], "must have at most 1 items, not 2"),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 entries, not 2"),
    ({"uniqueItems": True}, [1, 1], "must not hold the same item twice"),
    (PLAIN, "b", "does not have the form that the template asks for"),
    (TOLD, "b", "does not have the form that the template asks for, such as 'a': The letter."),
    ({"pattern": "^a$", "description": "It."}, "b", "does not have the form that the template asks for: It."),
    ({"pattern": "^a$", "examples": []}, "b", "does not have the form that the template asks for"),
    ({"multipleOf": 2}, 3, "is not what the template allows"),
    ({"multipleOf": 2, "description": "It."}, 3, "is not what the template allows: It."),
    ({"not": {}}, 3, "is not what the template allows"),
    ({"additionalProperties": {"type": "string"}, "maxProperties": 1}, {"a": 1, "b": 1},
     "must have at most 1 entries, not 2"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "message"), WORDS)
def test_each_rule_is_told_in_its_words(schema: dict[str, Any], value: Any, message: str) -> None:
    assert violations_of(schema, value, "p") == (Problem("p", message),)
    assert violations_of({"properties": {"x": schema}}, {"x": value}, "p") == (Problem("p.x", message),)
    assert violations_of({"items": schema}, [value], "p") == (Problem("p[0]", message),)
    assert violations_of(False, value, "p")[0].message == "is not what the template allows"  # type: ignore[arg-type]


GOOD: list[tuple[dict[str, Any], Any]] = [
    ({"minimum": 2}, 2),
    ({"maximum": 2}, 2),
    ({"minLength": 2}, "ab"),
    ({"maxLength": 2}, "ab"),
    ({"minItems": 1}, [1]),
    ({"maxItems": 1}, [1]),
    ({"minProperties": 1}, {"a": 1}),
    ({"maxProperties": 1}, {"a": 1}),
    ({"pattern": "^a$"}, "a"),
    ({"pattern": "a"}, "bab"),
    ({"pattern": "^a$"}, 1),
    ({"pattern": r"^a\$"}, "a$"),
    ({"enum": ["a", 1]}, 1),
    ({"const": 1}, 1),
]


@pytest.mark.parametrize(("schema", "value"), GOOD)
def test_what_fits_at_the_bound_is_no_violation(schema: dict[str, Any], value: Any) -> None:
    assert violations_of(schema, value, "p") == ()


@pytest.mark.parametrize("text", ["a\n", "\na", "b\na"])
def test_a_pattern_ends_at_the_end_of_the_text(text: str) -> None:
    assert len(violations_of(PLAIN, text, "p")) == 1
    assert len(violations_of({"pattern": r"^\d$"}, "٣", "p")) == 1, "digits are of ASCII"


def test_missing_and_unknown_keys_are_told_each() -> None:
    schema = record(("a", "b"), a={}, b={}, c={})

    assert violations_of(schema, {"c": 1}, "p") == (Problem("p.a", "is required"), Problem("p.b", "is required"))
    known = "unknown key: known are a, b, c"
    assert violations_of(schema, {"a": 1, "b": 1, "z": 1, "y": 1}, "p") == (
        Problem("p.y", known),
        Problem("p.z", known),
    )
    assert violations_of(record(), {"z": 1}, "p") == (Problem("p.z", "unknown key: known are none"),)
    many = {f"k{number}": 1 for number in range(9)}
    assert [problem.path for problem in violations_of(record(), many, "p")] == [f"p.k{number}" for number in range(8)]


def test_a_wrong_key_is_told_as_a_key() -> None:
    schema = mapped({"pattern": "^a$"}, {"type": "string"})

    assert violations_of(schema, {"b": "x"}, "p") == (
        Problem("p", "the key 'b' does not have the form that the template asks for"),
    )
    assert violations_of(mapped({"enum": ["a"]}, {}), {"b": 1}, "p") == (Problem("p", "the key 'b' must be one of a"),)
    assert violations_of(mapped({"maxLength": 1}, {}), {"bc": 1}, "p") == (
        Problem("p", "the key 'bc' must have at most 1 characters, not 2"),
    )
    assert violations_of(schema, {"a": 1}, "p") == (Problem("p.a", "must be a string, not a number"),)


@pytest.mark.parametrize("name", ["password", "accessToken", "secret"])
def test_a_value_that_may_be_secret_is_not_repeated(name: str) -> None:
    for schema in ({"enum": ["a"]}, {"const": "a"}, DURATION):
        (told,) = violations_of(record((), **{name: schema}), {name: "hunter22"}, "p")
        assert "hunter22" not in told.message
        (shown,) = violations_of(record((), plain=schema), {"plain": "hunter22"}, "p")
        assert "'hunter22'" in shown.message
    (argument,) = violations_of(ARGUMENT, "a\nhunter22", "p")
    assert argument.message == "must be one line without {{, such as daily"


def test_a_known_form_is_told_with_its_example() -> None:
    assert violations_of(DURATION, "3 weeks", "p") == (
        Problem(
            "p", "must be a duration of days, hours, minutes and seconds, such as 30d, 720h or 1d12h, not '3 weeks'"
        ),
    )


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        ({"items": {"type": "string"}}, 1024),
        (list_schema({"type": "string"}), 64),
        (list_schema({"type": "string"}, 2), 2),
    ],
)
def test_a_list_of_too_many_is_told_as_a_whole_RUN_11(schema: dict[str, Any], most: int) -> None:
    assert violations_of(schema, ["x"] * most, "p") == ()
    message = f"must have at most {most} items, not {most + 1}"
    assert violations_of(schema, [1] * (most + 1), "p") == (Problem("p", message),)


@pytest.mark.parametrize(
    ("schema", "most"),
    [({"propertyNames": {"maxLength": 5}}, 1024), (mapped({}, {}), 64), (mapped({}, {}, 2), 2)],
)
def test_an_object_of_too_many_is_told_as_a_whole_RUN_11(schema: dict[str, Any], most: int) -> None:
    given = {str(number): 1 for number in range(most + 1)}
    message = f"must have at most {most} entries, not {most + 1}"

    assert violations_of(schema, given, "p") == (Problem("p", message),)
    del given["0"]
    assert violations_of(schema, given, "p") == ()


def test_problems_are_sorted_and_bounded_RUN_11() -> None:
    found = violations_of({"items": {"type": "string"}}, [1] * 100, "p")

    assert len(found) == MOST_PROBLEMS
    assert list(found) == sorted(found)
    assert violations_of({"$ref": "#"}, {}, "p") == (
        Problem("p", "is nested too deeply, or the template's schema refers to itself without end"),
    )


ELSEWHERE = "has no place in a template: references are to this schema alone"


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "strong"}, "p.type", "is no JSON Schema of draft 2020-12: "),
        ({"items": [{"minimum": "x"}]}, "p.items", "is no JSON Schema of draft 2020-12: "),
        ({"$ref": "#/$defs/a"}, "p.$ref", "leads to nothing inside this schema"),
        ({"$ref": "https://example.com/x"}, "p.$ref", "leads to nothing inside this schema"),
        ({"allOf": [{}, {"$dynamicRef": "#nowhere"}]}, "p.allOf[1].$dynamicRef", "leads to nothing inside this schema"),
        ({"properties": {"a": {"$id": "x"}}}, "p.properties.a.$id", ELSEWHERE),
    ],
)
def test_a_schema_that_is_none_is_told_with_its_path(schema: Any, path: str, words: str) -> None:
    (problem,) = schema_problems(schema, "p")

    assert problem.path == path
    assert problem.message.startswith(words)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"const": {"$ref": "#/no"}},
        {"enum": [{"$ref": "#/no"}]},
        {"default": {"$id": "x"}},
        {"examples": [{"$id": "x"}]},
        {"properties": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_refers_to_itself_alone_is_one(schema: Any) -> None:
    assert schema_problems(schema, "p") == ()


def test_pieces_of_schemas_say_what_they_allow() -> None:
    assert list_schema({"type": "string"}) == {"type": "array", "items": {"type": "string"}, "maxItems": 64}
    assert mapped({"a": 1}, {"b": 2}, 3) == {
        "type": "object",
        "propertyNames": {"a": 1},
        "additionalProperties": {"b": 2},
        "maxProperties": 3,
    }
    assert mapped({}, {})["maxProperties"] == 64
    assert record(("a",), a={}) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["a"],
        "properties": {"a": {}},
    }
    assert with_description("It.", {"type": "string"}) == {"type": "string", "description": "It."}


@pytest.mark.parametrize(
    "schedule", ["0 3 * * *", "*/15 0-5 1,15 1/2 0", "59 23 31 12 6", "05 08 01 09 1-5", "@weekly"]
)
def test_what_volsync_takes_as_a_schedule_is_taken_OPS_10(schedule: str) -> None:
    assert violations_of(CRON, schedule, "schedule") == ()


@pytest.mark.parametrize(
    "schedule",
    [
        "0 3 * * 7",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 13 *",
        "0 3 * * MON",
        "*/0 * * * *",
        "@reboot",
        "@dailyly",
        "0 3 * *",
        "0-59/15 * * * *",
        "- , / * 1",
    ],
)
def test_a_schedule_by_which_volsync_would_never_sync_again_is_refused_OPS_10(schedule: str) -> None:
    """It makes one sync at once, and then stays in an error: Succeeded=True would be all that a reader sees."""
    assert violations_of(CRON, schedule, "schedule") != ()
