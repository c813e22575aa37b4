"""RES-6: values are checked by the schemas and rules of classes whose checks are prepared anew, each at its path."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import attrs

from purekube.apimachinery.fields import CelRule, immutable, schema_field
from purekube.apimachinery.problems import MOST_PROBLEMS
from purekube.apimachinery.validation import check, check_parts


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


def classes() -> tuple[type[Any], type[Any]]:
    """A class with another inside, made anew: their checks are prepared when they are first used."""

    @attrs.frozen
    class Part:
        CEL_RULES: ClassVar = (
            CelRule("self.low <= self.high", "low is above high", lambda new, _: new.low <= new.high, ".low"),
            CelRule("self.low >= oldSelf.low", "low may not fall", lambda new, old: new.low >= old.low),
        )
        low: int = schema_field("Low.", default=0, schema={"minimum": 0})
        high: int = schema_field("High.", default=9, schema={"maximum": 9})

    @attrs.frozen
    class Whole:
        name: str = schema_field("Name.", schema={"minLength": 1, "maxLength": 3}, rules=[immutable()])
        size: Size = schema_field("Size.", default=Size.SMALL)
        part: Part | None = schema_field("Part.", default=None)
        parts: tuple[Part, ...] = schema_field("Parts.", default=(), schema={"maxItems": 2})
        words_of_it: tuple[str, ...] = schema_field(
            "Words.", default=(), schema={"items": {"maxLength": 2}, "x-kubernetes-list-type": "set"}
        )
        free: Mapping[str, Any] | None = schema_field("Free.", default=None)

    return Whole, Part


def told(value: Any, old: Any = None, path: str = "") -> list[str]:
    return [str(problem) for problem in check(value, old, path)]


def test_each_part_is_checked_at_its_path() -> None:
    whole, part = classes()

    assert told(whole("abc", part=part(1, 2), parts=(part(),), words_of_it=("a", "b"))) == []
    assert told(whole("")) == ["name: must not be empty"]
    assert told(whole("abcd"), path="spec") == ["spec.name: must have at most 3 characters, not 4"]
    assert told(whole("a", part=part(-1, 10))) == ["part.low: must be at least 0", "part.high: must be at most 9"]
    assert told(whole("a", part=part(3, 2)), path="spec") == ["spec.part.low: low is above high"]
    assert told(part(3, 2)) == ["low: low is above high"]
    assert told(whole("a", parts=(part(), part(3, 2)))) == ["parts[1].low: low is above high"]
    assert told(whole("a", parts=(part(3, 2),) * 3)) == ["parts: must have at most 2 items, not 3"]
    assert told(whole("a", words_of_it=("a", "b", "a", "abc"))) == [
        "wordsOfIt[2]: is there twice",
        "wordsOfIt[3]: must have at most 2 characters, not 3",
    ]


def test_a_rule_of_a_change_is_asked_where_there_is_a_value_before() -> None:
    whole, part = classes()
    before = whole("a", part=part(2))

    assert told(whole("b", part=part(1)), before) == ["name: is immutable", "part: low may not fall"]
    assert told(whole("a", part=part(2)), before) == told(whole("a"), before) == []
    assert told(whole("a", part=part(1)), whole("a")) == [], "there was no part before"
    assert told(whole("a", parts=(part(1),)), whole("a", parts=(part(2),))) == [], "items have no value before"


def test_no_more_problems_of_a_list_are_told_than_anybody_reads() -> None:
    whole, _ = classes()

    assert len(told(whole("a", words_of_it=tuple(f"{at:03}" for at in range(1000))))) == MOST_PROBLEMS


def test_the_message_of_a_rule_may_name_the_value() -> None:
    rule = CelRule("self != 'x'", "is x", lambda new, _: new != "x", message_of=lambda value: f"is {value}, not y")

    @attrs.frozen
    class Named:
        name: str = schema_field("Name.", rules=[rule])

    assert told(Named("x")) == ["name: is x, not y"]
    assert told(Named("y")) == []


def test_of_an_unreadable_object_each_readable_part_is_checked() -> None:
    whole, _ = classes()
    body = {"name": "abcd", "size": 7, "part": {"low": "x", "high": 10}, "wordsOfIt": ["abc"], "free": None, "odd": 1}

    assert [str(problem) for problem in check_parts(whole, body, "spec")] == [
        "spec.name: must have at most 3 characters, not 4",
        "spec.part.high: must be at most 9",
        "spec.wordsOfIt[0]: must have at most 2 characters, not 3",
    ]
    assert list(check_parts(whole, {}, "spec")) == []
    assert list(check_parts(whole, {"parts": [{"low": "x"}], "part": "odd"}, "spec")) == []
