"""Whatever a Katalog or a definition holds, it ends in boxes of the right form or in problems (PH-6)."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.expressions import FUNCTIONS
from purekube.boxes.read import read_box
from purekube.boxes.templates import text_parts
from purekube.cel import DYN, INT, STRING, CelType, Environment, Field, compile_expression
from purekube_convert import ConversionResult, convert
from purekube_convert.go_expressions import TemplateScope, converted_text
from purekube_convert.go_template import TemplateError, parse_template
from purekube_convert.result import MOST

TEXTS = st.sampled_from(
    [
        "", "a",
        "{{ .spec.a }}", "{{ .spec", "{{ range .x }}", "{{ .children.deployment.status.x }}", "${", "${schema}",
        "${schema.spec.a}", "${web.status.x}", "[]string", "integer | default=x", "true", "3", "\x00", "a" * 300,
        "{{ if .spec.a }}b{{ end }}", "spec.a", "children.service.status", "LoadBalancer", "exists", "between", "1,2",
    ]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "name", "image", "when", "or", "field", "operator", "equals", "forEach", "as", "reconcile", "data", "port",
        "template", "id", "externalRef", "readyWhen", "includeWhen", "metadata", "spec", "labels", "envFrom", "probes",
        "status", "fields", "path", "value", "tls", "volumeClaimTemplates", "resources", "in", "a.b",
    ]
)  # fmt: skip
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
BLOCKS = st.dictionaries(
    st.sampled_from(
        [
            "deployments",
            "services",
            "secrets",
            "jobs",
            "ingresses",
            "custom",
            "configMaps",
            "statefulSets",
            "hpas",
            "when",
        ]
    ),
    st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=3) | VALUES,
    max_size=4,
)
KATALOGS = st.fixed_dictionaries(
    {"operatorBox": st.fixed_dictionaries({}, optional={
        "onCreate": BLOCKS | VALUES, "onReconcile": BLOCKS | VALUES, "onDelete": BLOCKS, "status": VALUES,
        "resync": VALUES, "crdFile": TEXTS, "reconcile": VALUES,
    })}
)  # fmt: skip
DEFINITIONS = st.builds(
    lambda schema, resources: {
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {"schema": schema, "resources": resources},
    },
    VALUES | st.dictionaries(st.sampled_from(["spec", "types", "status", "kind", "scope"]), VALUES),
    VALUES | st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=4),
)


def holds(conversion: ConversionResult) -> None:
    """Boxes of the right form, or a word about why not."""
    assert len(conversion.problems) <= MOST
    for made in conversion.boxes:
        try:
            read_box(made.box)
        except ValidationProblems:
            assert conversion.problems, made.box


@given(KATALOGS)
@example({"operatorBox": {"onReconcile": {"services": [{"port": {"a": 1}}]}}})
@example({"operatorBox": {"onCreate": {"custom": [{"metadata": None}]}}})
def test_any_katalog_ends_in_boxes_or_problems(document: Any) -> None:
    holds(convert(document))


@given(DEFINITIONS)
def test_any_definition_ends_in_boxes_or_problems(document: Any) -> None:
    holds(convert(document))


@given(st.text(alphabet=st.sampled_from('{}-." |()$`\\\nabcif end.spec'), max_size=60) | st.text(max_size=30))
def test_any_text_is_a_template_or_told_why_not(text: str) -> None:
    try:
        parts = parse_template(text)
    except TemplateError:
        return
    if "{{" not in text:
        assert parts == ((text,) if text else ())


SELF = CelType("object", fields={
    "spec": Field(CelType("object", fields={"text": Field(STRING, True), "number": Field(INT), "any": Field(DYN)})),
})  # fmt: skip
ENVIRONMENT = Environment({"self": SELF}, FUNCTIONS)
PARTS = st.lists(
    st.sampled_from(
        [
            "a",
            " ",
            "$",
            "${",
            "'",
            '"',
            "\\",
            "{",
            "}",
            "{{ .spec.text }}",
            "{{ .spec.number }}",
            "${{ .spec.text }}",
            "$${{ .spec.number }}$",
        ]
    ),
    max_size=6,
)


@given(PARTS, st.none() | st.text(max_size=5), st.integers(-3, 3))
def test_a_converted_text_is_what_go_printed(parts: list[str], text: str | None, number: int) -> None:
    """A field that is absent was empty text."""
    template = " ".join(parts)
    printed = template.replace("{{ .spec.text }}", text or "").replace("{{ .spec.number }}", str(number))
    value = {"spec": {"number": number, **({} if text is None else {"text": text})}}

    made = converted_text(template, TemplateScope(SELF))

    shown = "".join(
        str(compile_expression(piece.text, ENVIRONMENT).evaluate({"self": value}))
        if piece.is_expression
        else piece.text
        for piece in text_parts(made)
    )
    if template == "{{ .spec.text }}":
        assert made == "${self.spec.?text}"
    else:
        assert shown == printed
