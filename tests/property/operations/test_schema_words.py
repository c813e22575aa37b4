"""U7, U8: a mistake is told by the value, what is allowed and an example; no pattern, no code of a rule."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vworkspace_core
from purekube.apimachinery.fields import CelRule
from purekube.apimachinery.formats import FORMS, Form
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.validation import violations
from tests.support.instance_worlds import instance_manifest
from tests.support.mutations import judged_by_crd
from tests.support.violations import ADMISSION, CRD, instance
from vworkspace_core.api.admission import admit
from vworkspace_core.api.classes import CLASSES
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.parameter_schemas import PARAMETER_FORMS
from vworkspace_core.operations.schema_violations import violations_of

# What nobody but a machine reads: anchors, classes and groups of patterns, our rules' names, JSON Schema's keywords.
_MACHINE = re.compile(
    r"\^|\\[dswSDWbZAx.]|\(\?|\[[a-zA-Z0-9]-[a-zA-Z0-9]|\]\*|\)\*|\$\)|\$$|\b(?:RES|REC|OPS|PULL|RUN|SEE)-\d"
    r"|\b(?:minProperties|maxProperties|minItems|maxItems|minLength|maxLength|additionalProperties|anyOf|oneOf)\b"
)
_ABSURD: list[Any] = [
    "",
    "latest",
    "^x$",
    " ",
    "a" * 5000,
    "é\n",
    0,
    -1,
    10**12,
    1.5,
    True,
    [],
    [1],
    {},
    {"?": 1},
    None,
]


def is_for_people(text: str) -> bool:
    return not _MACHINE.search(text)


def unquoted(text: str) -> str:
    """Without what somebody wrote."""
    return re.sub(r"'(?:[^'\\]|\\.)*'", "''", text)


def rules(cls: type[Any]) -> Iterator[CelRule]:
    yield from getattr(cls, "CEL_RULES", ())
    for field in attrs.fields(cls):
        yield from field.metadata.get("rules", ())
        for inner in (field.type, *getattr(field.type, "__args__", ())):
            if attrs.has(inner):
                yield from rules(inner)


@pytest.mark.parametrize("message", sorted({rule.message for cls in CLASSES for rule in rules(cls)}))
def test_every_rule_of_a_crd_is_told_in_words(message: str) -> None:
    assert is_for_people(message)


def nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def test_no_crd_shows_a_pattern_to_who_breaks_it() -> None:
    """The API server repeats the keyword `pattern`, and the value with it, user and password included."""
    assert not [node for crd in crd_manifests() for node in nodes(crd) if isinstance(node.get("pattern"), str)]


def test_no_description_names_a_rule_of_ours() -> None:
    """`kubectl explain` is read by people who have no list of them."""
    described = [str(node.get("description", "")) for crd in crd_manifests() for node in nodes(crd)]

    assert not [text for text in described if re.search(r"\b(?:RES|REC|OPS|PULL|RUN|SEE)-\d", text)]


def strings(tree: ast.AST) -> Iterator[str]:
    """Every text of a module that is no docstring."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.mark.slow
def test_no_message_of_the_core_names_a_rule_of_ours() -> None:
    # Not at its beginning: the row of a decision, which `simulate replay` shows, begins with its clause.
    code = re.compile(r"(?!^)\b(?:RES|REC|OPS|PULL|RUN|SEE|PH)-\d")
    folder = Path(vworkspace_core.__file__).parent
    found = {path: list(strings(ast.parse(path.read_text(encoding="utf-8")))) for path in folder.rglob("*.py")}

    assert {path: text for path, texts in found.items() for text in texts if code.search(text)} == {}


@pytest.mark.parametrize("form", [*FORMS.values(), *PARAMETER_FORMS.values()], ids=lambda form: form.pattern)
def test_every_form_has_an_example_that_has_it(form: Form) -> None:
    assert is_for_people(form.message)
    for example in re.split(r", | or ", form.example):
        assert form.fits(example.strip("'"))


def test_every_violation_is_told_in_words() -> None:
    for violation in (*CRD, *ADMISSION):
        for problem in admit(violation.manifest, violation.old):
            assert is_for_people(unquoted(problem.message))
            assert str(redact(str(problem))) == str(problem), "the redaction eats no message"
        for cause in judged_by_crd(violation.manifest, violation.old):
            assert "should match" not in cause.message


def broken(schema: Mapping[str, Any]) -> Iterator[Problem]:
    """What is said of absurd values, in the place of the whole and of each property."""
    for value in _ABSURD:
        yield from violations_of(schema, value, "spec.parameters")
        for name in schema.get("properties", {}):
            for other in (value, [value], {"a": value}, {"?": "x"}, [{"name": "?", "value": value}]):
                yield from violations_of(schema, {name: other}, "spec.parameters")


@pytest.mark.parametrize("template", builtin_templates().items, ids=lambda template: template.name)
def test_whatever_is_wrong_with_parameters_is_told_in_words(template: Any) -> None:
    found = set(broken(template.schema))

    assert found
    assert not [problem for problem in found if not is_for_people(unquoted(problem.message))]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"version": "latest"},
            "spec.chart.version: must be one exact version, no range and no latest, such as 6.6.0, not 'latest'",
        ),
        (
            {"version": "6.x"},
            "spec.chart.version: must be one exact version, no range and no latest, such as 6.6.0, not '6.x'",
        ),
        (
            {"url": "oci://bob:hunter2@registry.example.com/x"},
            "spec.chart.url: must not hold a user or password, which belong in a Secret that secretRef names; give the"
            " address alone, such as oci://registry.example.com/charts",
        ),
        (
            {"url": "oci://registry.example.com/a/../b"},
            "spec.chart.url: must have a plain path, without empty parts, without . and .. and without the characters"
            " %, ?, # and backslash, such as oci://registry.example.com/charts, not 'oci://registry.example.com/a/../b'",
        ),
    ],
)
def test_the_mistakes_of_the_first_day_are_answered_with_the_cure(change: dict[str, str], told: str) -> None:
    """U7, U8, rows 7 and 14 of the table: the value, what is allowed, an example, and never the password."""
    chart = {**instance_manifest()["spec"]["chart"], **change}

    assert [str(problem) for problem in admit(instance(chart=chart))] == [told]
    assert redact(told) == told


def test_an_upgrade_of_nothing_says_what_to_give() -> None:
    template = builtin_templates().find("Upgrade", "helm")
    assert template is not None

    assert [str(problem) for problem in template.problems_of({})] == [
        "spec.parameters: must give at least one of targetVersion, valuesPatch"
    ]


@given(st.text(max_size=80), st.sampled_from([*FORMS.values()]))
def test_what_somebody_wrote_is_repeated_short_and_never_a_secret(text: str, form: Form) -> None:
    told = form.refusal(text)

    assert len(told) < 600
    assert "hunter2" not in form.refusal(f"https://bob:hunter2@{text}")


def test_a_name_is_told_its_form() -> None:
    (told,) = violations("Bad_Name", {"pattern": next(iter(FORMS))})

    assert told == (
        "must be lower-case letters, digits and hyphens, with a letter or digit at both ends, such as nextcloud,"
        " not 'Bad_Name'"
    )
