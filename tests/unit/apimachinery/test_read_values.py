"""JSON that is read as values of classes (RES-1, RES-6): what fits, and each problem with its path and words."""

from collections import UserDict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal

import attrs
import pytest
from cattrs import ClassValidationError, IterableValidationError

from purekube.apimachinery.converters import STRICT, reporting_converter, strict_converter
from purekube.apimachinery.fields import CelRule, camel, immutable, schema_field
from purekube.apimachinery.formats import canonical_quantity
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import MOST_PROBLEMS, Place, Problem, ValidationProblems, join, path_of, type_name
from purekube.apimachinery.structuring import (
    read_meta,
    read_own_conditions,
    structure,
    structure_patiently,
    unstructure,
)
from purekube.apimachinery.validation import check, check_parts, violations


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


@attrs.frozen
class Port:
    number: int = schema_field("Number.", schema={"minimum": 1, "maximum": 9})
    name: str = schema_field("Name.", default="web", schema={"minLength": 2, "maxLength": 4})


@attrs.frozen
class Shop:
    host_name: str = schema_field("Host.", schema={"pattern": "^[a-z]+$"})
    ports: tuple[Port, ...] = schema_field("Ports.", default=(), schema={"maxItems": 3})
    names: tuple[str, ...] = schema_field(
        "Names.", default=(), schema={"x-kubernetes-list-type": "set", "items": {"maxLength": 3}}
    )
    labels: Mapping[str, str] = attrs.field(factory=dict)
    free: Mapping[str, Any] = attrs.field(factory=dict)
    sizes: Mapping[str, Size] = attrs.field(factory=dict)
    items: list[int] = attrs.field(factory=list)
    more: Sequence[int] = attrs.field(factory=list)
    size: Size = Size.SMALL
    kind: Literal["a", "b"] = "a"
    either: int | str = 0
    ratio: float = 0.0
    open_: bool = False
    count: int = 0
    port: Port | None = None
    at: str | None = schema_field("Time.", default=None, schema={"format": "date-time"}, rules=[immutable()])
    choice: str = schema_field("Choice.", default="x", schema={"enum": ["x", "y"]})
    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("…", "is odd", holds=lambda new, _: new.count % 2 == 0, field_path=".count"),
        CelRule("oldSelf…", "may not shrink", holds=lambda new, old: new.count >= old.count),
    )


def problems(value: Any, cls: type[Any] = Shop) -> list[str]:
    with pytest.raises(ValidationProblems) as refused:
        structure(cls, value)
    return [str(problem) for problem in refused.value.problems]


GOOD = {"hostName": "web"}


@pytest.mark.parametrize(
    ("body", "name", "value"),
    [
        ({}, "ports", ()),
        ({"ports": [{"number": 1}, {"number": 2, "name": "ab"}]}, "ports", (Port(1), Port(2, "ab"))),
        ({"ports": None}, "ports", ()),
        ({"names": ["a"]}, "names", ("a",)),
        ({"labels": {"a": "b"}}, "labels", {"a": "b"}),
        ({"free": {"a": {"b": [1]}}}, "free", {"a": {"b": [1]}}),
        ({"sizes": {"a": "large"}}, "sizes", {"a": Size.LARGE}),
        ({"items": [1, 2]}, "items", [1, 2]),
        ({"more": [1, 2]}, "more", [1, 2]),
        ({"size": "large"}, "size", Size.LARGE),
        ({"kind": "b"}, "kind", "b"),
        ({"either": "b"}, "either", "b"),
        ({"either": 3}, "either", 3),
        ({"ratio": 1.5}, "ratio", 1.5),
        ({"open": True}, "open_", True),
        ({"count": 3.0}, "count", 3),
        ({"port": None}, "port", None),
        ({"port": {"number": 3}}, "port", Port(3)),
        ({"unknown": 3}, "count", 0),
    ],
)
def test_what_fits_is_read(body: dict[str, Any], name: str, value: Any) -> None:
    found = getattr(structure(Shop, {**GOOD, **body}), name)

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"hostName": None}, "hostName: is required"),
        ({"hostName": 5}, "hostName: must be a string, not a number"),
        ({"ports": {}}, "ports: must be a list, not an object"),
        ({"ports": [{}]}, "ports[0].number: is required"),
        ({"ports": [{"number": 1}, "x"]}, "ports[1]: must be an object, not a string"),
        ({"names": [None]}, "names[0]: must be a string, not null"),
        ({"labels": {"a": 1}}, "labels: must be an object of strings; one value is, not a number"),
        ({"labels": [1]}, "labels: must be an object, not a list"),
        ({"free": 1}, "free: must be an object, not a number"),
        ({"sizes": {"a": "huge", "b.c": 1}}, "sizes.a: must be one of small, large, not 'huge'"),
        ({"sizes": {"b.c": 1}}, "sizes['b.c']: must be one of small, large, not a number"),
        ({"sizes": 1}, "sizes: must be an object, not a number"),
        ({"items": [1, True]}, "items[1]: must be an integer, not a boolean"),
        ({"items": 1}, "items: must be a list, not a number"),
        ({"more": ["a"]}, "more[0]: must be an integer, not a string"),
        ({"size": "huge"}, "size: must be one of small, large, not 'huge'"),
        ({"size": 1}, "size: must be one of small, large, not a number"),
        ({"kind": "c"}, "kind: must be one of a, b, not 'c'"),
        ({"either": True}, "either: must be an integer or a string, not a boolean"),
        ({"either": [1]}, "either: must be an integer or a string, not a list"),
        ({"ratio": True}, "ratio: must be a number, not a boolean"),
        ({"ratio": "1"}, "ratio: must be a number, not a string"),
        ({"open": 1}, "open: must be a boolean, not a number"),
        ({"count": 1.5}, "count: must be an integer, not a number"),
        ({"count": "1"}, "count: must be an integer, not a string"),
        ({"count": True}, "count: must be an integer, not a boolean"),
        ({"port": {"number": "x"}}, "port.number: must be an integer, not a string"),
    ],
)
def test_what_does_not_fit_is_named(body: dict[str, Any], problem: str) -> None:
    assert problems({**GOOD, **body})[0] == problem


def test_all_problems_are_named_at_once_in_the_order_of_their_paths_up_to_a_bound() -> None:
    assert problems({"count": "x", "size": 1, "ports": [{}, 3]}) == [
        "count: must be an integer, not a string",
        "hostName: is required",
        "ports[0].number: is required",
        "ports[1]: must be an object, not a number",
        "size: must be one of small, large, not a number",
    ]
    assert problems("x") == ["must be an object, not a string"]
    many = problems({**GOOD, "items": ["x"] * 40})
    assert sorted(many) == sorted(f"items[{at}]: must be an integer, not a string" for at in range(MOST_PROBLEMS))
    many = problems({**GOOD, "sizes": {f"k{at:02}": 1 for at in range(40)}})
    assert [text[:9] for text in many] == [f"sizes.k{at:02}" for at in range(MOST_PROBLEMS)]


def test_the_strict_converter_names_unknown_fields() -> None:
    with pytest.raises(ValidationProblems) as refused:
        structure_patiently(STRICT, Shop, {**GOOD, "b": 1, "a.b": 2, "port": {"number": 1, "c": 2}, "free": {"d": 3}})

    assert [str(problem) for problem in refused.value.problems] == [
        "['a.b']: unknown field",
        "b: unknown field",
        "port.c: unknown field",
    ]


def test_what_is_empty_or_null_is_not_written() -> None:
    assert unstructure(Shop("web", sizes={"a": Size.LARGE}, free={"b": None}, port=Port(3))) == {
        "hostName": "web",
        "sizes": {"a": "large"},
        "free": {"b": None},
        "size": "small",
        "kind": "a",
        "open": False,
        "port": {"number": 3, "name": "web"},
        "choice": "x",
    }


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ({}, "an object"),
        ([], "a list"),
        ((), "a list"),
        (b"", "a bytes"),
    ],
)
def test_a_type_of_json_has_a_name(value: Any, name: str) -> None:
    assert type_name(value) == name


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"minLength": 1}, "", "must not be empty"),
        ({"minLength": 2}, "a", "must have at least 2 characters"),
        ({"minLength": 2}, "ab", None),
        ({"minLength": 1}, "a", None),
        ({"maxLength": 2}, "abc", "must have at most 2 characters, not 3"),
        ({"maxLength": 2}, "ab", None),
        ({"pattern": "^a$"}, "b", "does not have the form that is asked for: 'b'"),
        ({"pattern": "^a$"}, "a", None),
        ({"enum": ["a", "b"]}, "c", "must be one of a, b"),
        ({"enum": ["a", "b"]}, "b", None),
        ({"minimum": 2}, 1, "must be at least 2"),
        ({"minimum": 2}, 2, None),
        ({"maximum": 2}, 3, "must be at most 2"),
        ({"maximum": 2}, 2, None),
        ({"maxItems": 1}, (1, 2), "must have at most 1 items, not 2"),
        ({"maxItems": 1}, (1,), None),
        ({"format": "int64", "description": "x"}, 5, None),
        *(
            ({"format": "date-time"}, text, None)
            for text in (
                "2030-01-31T12:00:00Z",
                "2030-01-31t23:59:59.5z",
                "2030-01-31T00:00:00+01:00",
                "2030-01-31T09:08:07-23:59",
            )
        ),
        *(
            ({"format": "date-time"}, text, "must be an RFC 3339 time such as 2030-01-31T12:00:00Z")
            for text in (
                "2030-01-31",
                "20300131T12:00:00Z",
                "2030-W05-4T12:00:00Z",
                "2030-02-30T12:00:00Z",
                "2030-01-31T24:00:00Z",
                "2030-01-31T12:60:00Z",
                "2030-01-31T12:00:60Z",
                "2030-01-31T12:00:00",
                "2030-01-31 12:00:00Z",
                "x",
            )
        ),
    ],
)
def test_each_keyword_has_its_bound_and_its_words(schema: dict[str, Any], value: Any, problem: str | None) -> None:
    assert list(violations(value, schema)) == ([] if problem is None else [problem])


def test_every_broken_keyword_is_named() -> None:
    assert list(violations("abc", {"maxLength": 2, "pattern": "^b", "enum": ["b"]})) == [
        "must have at most 2 characters, not 3",
        "does not have the form that is asked for: 'abc'",
        "must be one of b",
    ]


@pytest.mark.parametrize(
    ("shop", "old", "found"),
    [
        (Shop("web"), None, []),
        (Shop("Web", count=1), None, ["count: is odd", "hostName: does not have the form that is asked for: 'Web'"]),
        (
            Shop("web", ports=(Port(0), Port(10, "a"))),
            None,
            [
                "ports[0].number: must be at least 1",
                "ports[1].name: must have at least 2 characters",
                "ports[1].number: must be at most 9",
            ],
        ),
        (Shop("web", ports=(Port(0),) * 4), None, ["ports: must have at most 3 items, not 4"]),
        (
            Shop("web", names=("a", "b", "a", "long")),
            None,
            ["names[2]: is there twice", "names[3]: must have at most 3 characters, not 4"],
        ),
        (Shop("web", port=Port(0)), None, ["port.number: must be at least 1"]),
        (Shop("web", choice="z"), None, ["choice: must be one of x, y"]),
        (Shop("web", at="2030-01-31T12:00:00Z"), Shop("web", at="2031-01-31T12:00:00Z"), ["at: is immutable"]),
        (Shop("web", at="2030-01-31T12:00:00Z"), Shop("web"), []),
        (Shop("web", at="soon"), None, ["at: must be an RFC 3339 time such as 2030-01-31T12:00:00Z"]),
        (Shop("web", count=2), Shop("web", count=4), ["may not shrink"]),
        (Shop("web", count=4), Shop("web", count=2), []),
    ],
)
def test_a_value_is_checked_by_its_keywords_and_rules(shop: Shop, old: Shop | None, found: list[str]) -> None:
    assert sorted(map(str, check(shop, old))) == found
    below = [str(problem) for problem in sorted(check(shop, old, "spec"))]
    assert below == [f"spec: {text}" if ": " not in text else f"spec.{text}" for text in found]


def test_a_long_list_is_checked_up_to_the_bound_of_a_report() -> None:
    assert [str(problem) for problem in check(Shop("web", names=("long",) * 40))][:2] == [
        "names[0]: must have at most 3 characters, not 4",
        "names[1]: is there twice",
    ]
    assert MOST_PROBLEMS <= len(list(check(Shop("web", names=("long",) * 400)))) <= MOST_PROBLEMS + 1


def test_the_readable_parts_of_what_cannot_be_read_are_checked_all_the_same() -> None:
    body = {"hostName": "Web", "count": "x", "names": ["long"], "port": {"number": "x", "name": "a"}, "at": None}

    assert [str(problem) for problem in check_parts(Shop, body, "spec")] == [
        "spec.hostName: does not have the form that is asked for: 'Web'",
        "spec.names[0]: must have at most 3 characters, not 4",
        "spec.port.name: must have at least 2 characters",
    ]


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), ""),
        (("a", "b"), "a.b"),
        (("a", 0, "b", 1), "a[0].b[1]"),
        ((0,), "[0]"),
        (("a.b", "c"), "['a.b'].c"),
        (("a", ""), "a['']"),
        (("a", "b c"), "a['b c']"),
        (("a", "it's"), 'a["it\'s"]'),
        (("a", "b" * 64), "a." + "b" * 64),
        (("a", "b" * 65), "a." + "b" * 63 + "…"),
        (("a", "b/c"), "a.b/c"),
        (("a\n",), "['a\\n']"),
        (("a[0]",), "['a[0]']"),
        (('a"',), "['a\"']"),
        (("a]",), "['a]']"),
    ],
)
def test_a_path_has_its_steps(steps: tuple[str | int, ...], path: str) -> None:
    assert path_of(steps) == path
    assert join("x", "y") == "x.y"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place(), ""),
        (Place("a"), "a"),
        (Place("a", "f"), "f: a"),
        (Place("a", "f", 3), "f:3: a"),
        (Place("a", "f", 3, 4), "f:3:4: a"),
        (Place("", "f", 3, 4), "f:3:4"),
        (Place("a", "", 3, 4), "3:4: a"),
    ],
)
def test_a_place_is_shown_as_compilers_show_it(place: Place, text: str) -> None:
    assert str(place) == text


def test_the_problems_of_an_error_are_sorted_distinct_and_bounded() -> None:
    error = ValidationProblems([Problem("b", "x"), Problem("a", "y"), Problem("b", "x"), Problem("", "z")])

    assert str(error) == "z; a: y; b: x"
    assert len(ValidationProblems(Problem(f"p{at:02}", "x") for at in range(40)).problems) == MOST_PROBLEMS


@pytest.mark.parametrize(
    ("name", "json_name"),
    [
        ("a", "a"),
        ("host_name", "hostName"),
        ("a_b_c", "aBC"),
        ("open_", "open"),
        ("api_version", "apiVersion"),
        ("x1_y2", "x1Y2"),
    ],
)
def test_an_attribute_has_its_name_in_json(name: str, json_name: str) -> None:
    assert camel(name) == json_name


def test_metadata_is_read_without_what_cannot_be_read() -> None:
    meta = read_meta(
        {"metadata": {"name": "a", "labels": {"b": 1}, "generation": "x", "finalizers": ["f"], "uid": "u"}}
    )

    assert (meta.name, dict(meta.labels), meta.generation, meta.finalizers, meta.uid) == ("a", {}, 0, ("f",), "u")
    assert read_meta({}).name == ""
    assert read_meta({"metadata": "x"}).name == ""
    assert read_meta({"metadata": {"name": 3}}).name == ""


def test_conditions_are_read_without_those_that_cannot_be_read() -> None:
    def of(*conditions: Any) -> dict[str, Any]:
        return {"status": {"conditions": list(conditions)}}

    ready = {"type": "Ready", "status": "True", "reason": "Done"}
    found = read_own_conditions(of(ready, {"type": "Ready"}, "x", {**ready, "type": "Other"}), {"Ready"})
    assert [(one.type, str(one.status), one.reason) for one in found] == [("Ready", "True", "Done")]
    assert read_own_conditions({"status": {"conditions": {"a": ready}}}, {"Ready"}) == ()
    assert read_own_conditions({}, {"Ready"}) == ()


def test_a_report_shows_a_count_of_zero() -> None:
    @attrs.frozen
    class Status:
        count: int = 0
        text: str = ""
        flag: bool = False
        names: tuple[str, ...] = ()

    assert reporting_converter().unstructure(Status()) == {"count": 0, "flag": False}
    assert unstructure(Status()) == {"flag": False}
    assert unstructure(Status(1, "a", True, ("b",))) == {"count": 1, "text": "a", "flag": True, "names": ["b"]}


@pytest.mark.parametrize(
    ("annotation", "good", "read", "bad"),
    [
        (tuple[int, ...], [1, 2], (1, 2), {"a": 1}),
        (tuple[int, ...], (1, 2), (1, 2), [True]),
        (list[int], [1, 2], [1, 2], "ab"),
        (list[int], (1, 2), [1, 2], ["a"]),
        (Sequence[int], (1, 2), [1, 2], ["a"]),
        (Mapping[str, int], UserDict({"a": 1}), {"a": 1}, {"a": "b"}),
        (dict[str, int], {"a": 1}, {"a": 1}, [1]),
        (Mapping[str, str], {"a": "b"}, {"a": "b"}, {"a": 1}),
        (Mapping[str, Any], UserDict({"a": [1]}), UserDict({"a": [1]}), [1]),
        (int | None, None, None, "a"),
        (int | None, 3, 3, True),
        (Port, UserDict({"number": 3, "name": "ab"}), Port(3, "ab"), []),
        (Port | None, {"number": 3}, Port(3), 3),
        (bool, False, False, 0),
        (bool, True, True, 1),
        (float, 1.5, 1.5, True),
        (int | str, "a", "a", 1.5),
        (int | str | None, None, None, 1.5),
        (int | str | None, 3, 3, True),
        (Literal["a", "b"], "b", "b", "c"),
        (Size, "large", Size.LARGE, "huge"),
        (str, "a", "a", None),
    ],
)
def test_a_new_converter_reads_each_type(annotation: Any, good: Any, read: Any, bad: Any) -> None:
    for converter in (strict_converter(), reporting_converter()):
        found = converter.structure(good, annotation)

        assert (found, type(found)) == (read, type(read))
        with pytest.raises((TypeError, ValueError, IterableValidationError)):
            converter.structure(bad, annotation)


def test_the_strict_converter_alone_refuses_unknown_fields_but_not_those_of_metadata() -> None:
    body = {"number": 3, "other": 4}

    assert reporting_converter().structure(body, Port) == Port(3)
    with pytest.raises(ClassValidationError):
        strict_converter().structure(body, Port)
    assert strict_converter().structure({"name": "a", "selfLink": "x"}, ObjectMeta).name == "a"


@pytest.mark.parametrize(
    ("annotation", "value"), [(list[int], ["x"] * 40), (Mapping[str, int], {str(at): "x" for at in range(40)})]
)
def test_a_converter_stops_at_the_bound_of_a_report(annotation: Any, value: Any) -> None:
    with pytest.raises(IterableValidationError) as refused:
        strict_converter().structure(value, annotation)

    assert len(refused.value.exceptions) == MOST_PROBLEMS
    assert refused.value.message in ("list", "mapping")


def test_maps_of_texts_and_of_any_json_are_shared_and_not_copied() -> None:
    labels = {"a": "b"}

    assert unstructure(ObjectMeta("shop", labels=labels))["labels"] is labels


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *(("1.0Ki", "1Ki"), ("1000.0", "1k"), ("0.5Ki", "512"), ("1.0e3", "1e3"), ("0.0", "0")),
        *(("1" * 31, "1" * 31), ("1" * 23, "1" * 23), ("x", None)),
    ],
)
def test_a_quantity_has_the_form_that_kubernetes_gives_it(text: str, canonical: str | None) -> None:
    assert canonical_quantity(text) == canonical
