"""Label and field selectors: what they select, and how the server words what it cannot read."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.model.failure import ApiFailure
from kubelab.storage.selectors import parse_fields, parse_labels

KEYS = st.sampled_from(["app", "tier", "example.test/role"])
VALUES = st.sampled_from(["a", "b", "c-1"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


def holds(selector: str, labels: dict[str, str]) -> bool:
    """Whether the selector selects an object with these labels."""
    return all(requirement.holds(labels) for requirement in parse_labels(selector))


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ("", {}, True),
        ("app=a", {"app": "a"}, True),
        ("app==a", {"app": "b"}, False),
        ("app!=a", {}, True),
        ("app!=a", {"app": "a"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("app in (a, b),tier notin (x)", {"app": "b"}, True),
        ("app in (a,b),tier notin (x)", {"app": "b", "tier": "x"}, False),
        ("app=", {"app": ""}, True),
        ("app in ()", {"app": ""}, True),
        ("n>3,n<5", {"n": "4"}, True),
        ("n>3", {"n": "many"}, False),
        ("in", {"in": "x"}, True),
        ("notin notin (x)", {}, True),
    ],
)
def test_a_label_selector_selects_as_kubernetes_does(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert holds(selector, labels) is selected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_a_malformed_label_selector_is_400_in_the_servers_words(selector: str, message: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        parse_labels(selector)
    assert (caught.value.status, caught.value.message) == (400, message)


@given(LABELS, KEYS, st.sets(VALUES, min_size=1))
def test_in_and_notin_split_the_objects_between_them(labels: dict[str, str], key: str, values: set[str]) -> None:
    listed = ",".join(sorted(values))
    assert holds(f"{key} in ({listed})", labels) is not holds(f"{key} notin ({listed})", labels)


@given(LABELS, LABELS)
def test_commas_mean_and(labels: dict[str, str], wanted: dict[str, str]) -> None:
    selector = ",".join(f"{key}={value}" for key, value in wanted.items())
    assert holds(selector, labels) is (wanted.items() <= labels.items())


def refused_with(parse: Callable[[], object]) -> int | None:
    """Status of the refusal, None when it was accepted."""
    try:
        parse()
    except ApiFailure as failure:
        return failure.status
    return None


@given(st.text(max_size=30))
@example("a in (,)")
@example("a in (b")
@example(" , ")
@example("a=b,")
def test_any_text_is_a_selector_or_a_400(text: str) -> None:
    assert refused_with(lambda: holds(text, {})) in (None, 400)


@given(st.text(max_size=30))
@example("a\\")
@example("=,=")
def test_any_text_is_a_field_selector_or_a_400(text: str) -> None:
    assert refused_with(lambda: parse_fields(text, lambda path: True)) in (None, 400)


def test_a_field_selector_knows_names_and_escapes() -> None:
    (one, other) = parse_fields(r"metadata.name!=a\,b,metadata.namespace=x", lambda path: True)
    assert (one.path, one.holds("a,b"), one.holds("c")) == ("metadata.name", False, True)
    assert (other.path, other.holds("x")) == ("metadata.namespace", True)


def test_a_field_that_cannot_be_selected_by_is_400() -> None:
    with pytest.raises(ApiFailure, match=r"field label not supported: spec\.size") as caught:
        parse_fields("spec.size=1", lambda path: path == "metadata.name")
    assert caught.value.status == 400
