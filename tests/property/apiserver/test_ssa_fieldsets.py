"""Sets of field paths are sets: the algebra, and the fieldsV1 form they live in."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.ssa.field_paths import PathError, iterate, parse_element, path_text
from kubelab.ssa.fieldset import difference, insert, intersection, normalized, recursive_difference, union

Path = tuple[str, ...]
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"n"}', 'v:"x"'])
PATHS = st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple)
SETS = st.sets(PATHS, max_size=8)


def tree(paths: set[Path]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for path in sorted(paths):
        insert(out, path)
    return out


def paths_of(fields: Any) -> set[Path]:
    found = list(iterate(fields))
    assert len(found) == len(set(found))
    return set(found)


@given(SETS)
def test_a_tree_holds_what_was_inserted(paths: set[Path]) -> None:
    assert paths_of(tree(paths)) == paths


@given(SETS, SETS)
@example({("f:a",)}, {("f:a", "f:b")})
@example({("f:a",), ("f:a", "f:b")}, {("f:a",)})
def test_union_intersection_and_difference_are_those_of_sets(left: set[Path], right: set[Path]) -> None:
    assert paths_of(union(tree(left), tree(right))) == left | right
    assert paths_of(intersection(tree(left), tree(right))) == left & right
    assert paths_of(difference(tree(left), tree(right))) == left - right


@given(SETS, SETS)
@example({("f:a",)}, {("f:a", "f:b")})
def test_recursive_difference_takes_everything_below_too(left: set[Path], right: set[Path]) -> None:
    kept = {path for path in left if not any(path[: len(one)] == one for one in right)}
    assert paths_of(recursive_difference(tree(left), tree(right))) == kept


@given(SETS, SETS)
def test_operations_leave_their_arguments_alone(left: set[Path], right: set[Path]) -> None:
    a, b = tree(left), tree(right)
    for operation in (union, intersection, difference, recursive_difference):
        operation(a, b)
    assert (a, b) == (tree(left), tree(right))


@given(SETS)
def test_the_normal_form_has_one_spelling_per_set(paths: set[Path]) -> None:
    plain = tree(paths)
    wordy = {key: node or {".": {}} for key, node in reversed(plain.items())}
    assert list(normalized(wordy)) == sorted(plain)
    assert normalized(wordy) == normalized(plain)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f:a.b/c", "f:a.b/c"),
        ('k:{"port": 80, "name":"n"}', 'k:{"name":"n","port":80}'),
        ('v:"x"', 'v:"x"'),
        ("v:1.0", "v:1"),
        ("v:true", "v:true"),
        ("i:3", "i:3"),
    ],
)
def test_elements_have_one_spelling(text: str, canonical: str) -> None:
    assert parse_element(text) == canonical


@pytest.mark.parametrize("text", ["", "x:a", "a", "k:[]", "k:{", "v:", "i:x"])
def test_what_is_no_element_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_element(text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:a"), ".spec.a"),
        (("f:p", 'k:{"port":80,"protocol":"TCP"}', "f:x"), '.p[port=80,protocol="TCP"].x'),
        (("f:s", 'v:"a"'), '.s[="a"]'),
        (("f:s", "v:7"), ".s[=7]"),
        (("f:l", "i:0"), ".l[0]"),
    ],
)
def test_paths_as_text_S_80(path: Path, text: str) -> None:
    assert path_text(path) == text
