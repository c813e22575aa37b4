"""The forms of a box's file: what each field may be, what is told of any other form, the defaults (PH-4 to PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import NoPlaces, Place, ValidationProblems
from purekube.boxes.compiler.children import ChildNames, list_name, readable
from purekube.boxes.model import (
    CrdSource,
    Dependency,
    DependencyUntil,
    ForEach,
    GeneratedField,
    GeneratedFields,
    WhenEntry,
)
from purekube.boxes.read import MOST, Findings, joined_names, no_such, read_box
from purekube.boxes.schemas import CrdProblem, CrdVersions, Schemas, plural_of
from purekube.boxes.when_conditions import (
    all_of,
    any_of,
    comparison_of,
    expression_of,
    place_of,
    read_when_condition,
    time_of,
)
from purekube.cel import CelSyntaxError
from purekube.cel.parser import parse
from tests.support.boxes import crd, document

CRD_FORMS = "must be a file beside this one, {name: webapps.example.com}, or {spec: …} with the CRD's spec"
ID_FORMS = "must be the id of a resource, or {id: web, until: Applied}"
EACH_FORMS = 'must be one variable and a key: {c: "${self.spec.components}", key: "${c.name}"}'


def told(read: Any, raw: Any) -> str:
    """What is told of a form that is wrong."""
    with pytest.raises((TypeError, ValueError)) as raised:
        read(raw)
    return str(raised.value)


@pytest.mark.parametrize(
    ("read", "raw", "value"),
    [
        (CrdSource.of, "a.yaml", CrdSource(file="a.yaml")),
        (CrdSource.of, {"name": "a.b"}, CrdSource(name="a.b")),
        (CrdSource.of, {"name": "a.b", "spec": None}, CrdSource(name="a.b")),
        (CrdSource.of, {"spec": {}}, CrdSource(spec={})),
        (CrdSource.of, {"spec": {"group": "b"}, "name": None}, CrdSource(spec={"group": "b"})),
        (Dependency.of, "a", Dependency("a", DependencyUntil.READY)),
        (Dependency.of, {"id": "a"}, Dependency("a", DependencyUntil.READY)),
        (Dependency.of, {"id": "a", "until": "Observed"}, Dependency("a", DependencyUntil.OBSERVED)),
        (ForEach.of, {"c": "x", "key": "y"}, ForEach("c", "x", "y")),
        (ForEach.of, {"key": "y", "c": "x"}, ForEach("c", "x", "y")),
        (GeneratedFields.of, {}, GeneratedFields()),
        (
            GeneratedFields.of,
            {"a": {}, "b": {"length": 1, "alphabet": "xy"}, "c": {"length": 1024, "alphabet": ""}},
            GeneratedFields((GeneratedField("a", 32, ""), GeneratedField("b", 1, "xy"), GeneratedField("c", 1024, ""))),
        ),
        (WhenEntry.of, "${true}", WhenEntry(expression="${true}")),
        (WhenEntry.of, "", WhenEntry(expression="")),
    ],
)
def test_each_form_of_a_field_is_read(read: Any, raw: Any, value: Any) -> None:
    assert read(raw) == value


@pytest.mark.parametrize(
    ("read", "raw", "message"),
    [
        (CrdSource.of, "", CRD_FORMS),
        (CrdSource.of, None, CRD_FORMS),
        (CrdSource.of, 3, CRD_FORMS),
        (CrdSource.of, {}, CRD_FORMS),
        (CrdSource.of, {"name": ""}, CRD_FORMS),
        (CrdSource.of, {"name": 3}, CRD_FORMS),
        (CrdSource.of, {"spec": "x"}, CRD_FORMS),
        (CrdSource.of, {"name": "a", "spec": {}}, CRD_FORMS),
        (CrdSource.of, {"name": "a", "z": 1, "b": 2}, "has the unknown field 'b'; it knows name, spec"),
        (Dependency.of, "", ID_FORMS),
        (Dependency.of, 3, ID_FORMS),
        (Dependency.of, {}, ID_FORMS),
        (Dependency.of, {"id": ""}, ID_FORMS),
        (Dependency.of, {"id": 3}, ID_FORMS),
        (Dependency.of, {"id": "a", "until": "Then"}, "until must be one of Applied, Observed, Ready"),
        (Dependency.of, {"id": "a", "unti": "Ready"}, "has the unknown field 'unti'; it knows id, until"),
        (ForEach.of, {"c": "x"}, EACH_FORMS),
        (ForEach.of, {"c": "x", "d": "y"}, EACH_FORMS),
        (ForEach.of, {"c": "x", "d": "y", "key": "z"}, EACH_FORMS),
        (ForEach.of, {"c": 3, "key": "z"}, EACH_FORMS),
        (ForEach.of, {3: "x", "key": "z"}, EACH_FORMS),
        (ForEach.of, {"c": "x", "key": 3}, EACH_FORMS),
        (ForEach.of, "x", EACH_FORMS),
        (GeneratedFields.of, [], "must be a mapping of fields such as data.password to {length: 32}"),
        (GeneratedFields.of, {"a": 3}, "a must be an object such as {length: 32}"),
        (GeneratedFields.of, {"a": {"size": 3}}, "has the unknown field 'size'; it knows length, alphabet"),
        (GeneratedFields.of, {"a": {"length": 0}}, "a.length must be a number from 1 to 1024"),
        (GeneratedFields.of, {"a": {"length": 1025}}, "a.length must be a number from 1 to 1024"),
        (GeneratedFields.of, {"a": {"length": True}}, "a.length must be a number from 1 to 1024"),
        (GeneratedFields.of, {"a": {"length": "9"}}, "a.length must be a number from 1 to 1024"),
        (GeneratedFields.of, {"a": {"alphabet": "xx"}}, "a.alphabet must have at least two different characters"),
        (GeneratedFields.of, {"a": {"alphabet": 3}}, "a.alphabet must have at least two different characters"),
        (WhenEntry.of, 3, "must be an object such as {field: spec.host, exists: true}"),
        (
            WhenEntry.of,
            {"fiel": "x", "not": 1, "exists": True},
            "fiel: is unknown to a gate; did you mean field?; "
            "field: must be a path such as spec.host or children.web.status.phase; not: must be true or false",
        ),
    ],
)
def test_any_other_form_of_a_field_is_told(read: Any, raw: Any, message: str) -> None:
    assert told(read, raw) == message


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"names": {"plural": "shops"}, "group": "b"}, "shops.b"),
        ({"names": "shops", "group": "b"}, "None.b"),
        ({}, "None.None"),
    ],
)
def test_a_crd_in_the_file_is_named_after_its_plural_and_its_group(spec: dict[str, Any], name: str) -> None:
    assert CrdSource(file="a").manifest is None
    assert CrdSource(spec=spec).manifest == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": spec,
    }


# --- the document ----------------------------------------------------------------------------------------------------


def problems_of(raw: Any) -> dict[str, str]:
    with pytest.raises(ValidationProblems) as raised:
        read_box(raw)
    return {problem.path: problem.message for problem in raised.value.problems}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"apiVersion": None}, {"apiVersion": "is required: box.vworkspace.io/v1alpha1"}),
        ({"apiVersion": "v1"}, {"apiVersion": "must be box.vworkspace.io/v1alpha1"}),
        ({"kind": None}, {"kind": "is required: OperatorBox"}),
        ({"kind": "Box"}, {"kind": "must be OperatorBox"}),
        (
            {"apiVersion": "", "kind": ""},
            {"apiVersion": "must be box.vworkspace.io/v1alpha1", "kind": "must be OperatorBox"},
        ),
        ({"metadata": {"name": "a" * 41}}, {"metadata.name": "must have at most 40 characters, not 41"}),
    ],
)
def test_a_document_is_of_its_kind(change: dict[str, Any], expected: dict[str, str]) -> None:
    assert problems_of({**document(), **change}) == expected


def test_a_document_of_another_type_is_told() -> None:
    assert problems_of([]) == {"": "must be an object of kind OperatorBox, not a list"}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("resourcs", "unknown field; did you mean resources?"),
        ("template", "unknown field"),
        ("qqqqqqq", "unknown field"),
        ("dependOn", "unknown field; did you mean dependsOn?"),
    ],
)
def test_an_unknown_field_is_told_with_one_that_is_like_it(field: str, message: str) -> None:
    raw = document()
    raw["spec"][field] = 1
    assert problems_of(raw) == {f"spec.{field}": message}


# --- problems --------------------------------------------------------------------------------------------------------


class Columns:
    """A lookup by which a place has its offset as the column, and the length of its path as the line."""

    def at(self, path: str, offset: int | None = None) -> Place:
        return Place(path, "box.yaml", len(path), 0 if offset is None else offset)


def test_problems_and_warnings_stand_in_the_order_of_the_file_and_once_each() -> None:
    findings = Findings(Columns())
    for path, message, offset in (("bb", "m", 2), ("bb", "m", 1), ("a", "n", None), ("a", "m", None), ("a", "n", None)):
        findings.problem(path, message, offset)
        findings.warning(path, message.upper(), offset)
    order = [("a", 0, "m"), ("a", 0, "n"), ("bb", 1, "m"), ("bb", 2, "m")]
    assert [(one.place.path, one.place.column, one.message) for one in findings.problems] == order
    assert [(one.place.path, one.place.column, one.message.lower()) for one in findings.warnings] == order
    assert findings.place("abc", 5) == Place("abc", "box.yaml", 3, 5)


def test_at_most_two_hundred_problems_are_kept() -> None:
    findings = Findings(NoPlaces())
    for number in range(MOST + 2):
        findings.problem(f"p{number:03}", "m")
    assert [one.place.path for one in findings.problems] == [f"p{number:03}" for number in range(200)]


@pytest.mark.parametrize(("begin", "column"), [(None, 0), (0, 3), (4, 7)])
def test_a_syntax_error_is_told_at_its_character(begin: int | None, column: int) -> None:
    findings = Findings(Columns())
    findings.syntax("p", CelSyntaxError("odd", "ab\ncd", 3), "ab\ncd", begin)
    (problem,) = findings.problems
    assert (problem.message, problem.place.column) == ("odd", column)


def test_names_are_joined_in_order_and_one_that_is_alike_is_preferred() -> None:
    assert joined_names(["b", "a"]) == "a, b"
    assert joined_names([]) == "there is none"
    assert no_such("wep", ["x", "web"]) == "there is no resource, external or phase wep: did you mean web?"
    assert no_such("z", ["x", "a"]) == "there is no resource, external or phase z: a, x"
    assert no_such("z", []) == "there is no resource, external or phase z: there is none"


# --- children --------------------------------------------------------------------------------------------------------

NAMES = ChildNames.of([("web", "Deployment"), ("a", "ConfigMap"), ("b", "ConfigMap")])


def test_children_are_known_by_the_kind_in_small_letters() -> None:
    assert NAMES.by_kind == {"deployment": ("web",), "configmap": ("a", "b")}
    assert NAMES.lists == {"children.deployment[*]": ("web",), "children.configmap[*]": ("a", "b")}
    assert list_name("ConfigMap") == "children.configmap[*]"
    assert NAMES.ids_of("configMap") == ("a", "b")
    assert NAMES.only("Deployment") == "web"


NO_CHILD = "no resource of this box is of a kind "
NO_KIND = "children is read as children.<kind>: configmap, deployment"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["children", "deploymnt"], f"{NO_CHILD}'deploymnt'; did you mean children.deployment?"),
        (["children", "Zzz"], f"{NO_CHILD}'Zzz'"),
        (
            ["children", "configmap"],
            "several resources are of that kind: write children.configmap.a or children.configmap.b, or "
            "children.configmap[*] for all",
        ),
        (["children"], NO_KIND),
        (["children", 0], NO_KIND),
        (["children", "secret", "x"], f"{NO_CHILD}'secret'"),
    ],
)
def test_a_child_that_is_not_one_is_told(steps: list[Any], message: str) -> None:
    with pytest.raises(LookupError) as raised:
        NAMES.resolve_path(steps)
    assert raised.value.args[0] == message


@pytest.mark.parametrize(
    ("steps", "resolved"),
    [
        ([], []),
        (["spec", "children"], ["spec", "children"]),
        (["children", "deployment"], ["web"]),
        (["children", "Deployment", "status", 0], ["web", "status", 0]),
        (["children", "configmap", "b"], ["b"]),
        (["children", "configmap", "a", "data"], ["a", "data"]),
        (["children", "deployment", "web", "spec"], ["web", "spec"]),
    ],
)
def test_a_path_of_a_gate_names_a_child_by_its_kind_or_its_id(steps: list[Any], resolved: list[Any]) -> None:
    assert NAMES.resolve_path(steps) == resolved


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("size(children.configmap[*])", "size(children.configmap[_])"),
        ("children.a[*] == children.b[*] * 2", "children.a[_] == children.b[_] * 2"),
        ("1 * 2", "1 * 2"),
        ("'children.a[*]'", "'children.a[*]'"),
        ("others.a[*]", "others.a[*]"),
        ("children.a(*)", "children.a(*)"),
        ("x.children.a[*]", "x.children.a[_]"),
        ("children", "children"),
    ],
)
def test_a_star_between_brackets_becomes_a_name(source: str, expected: str) -> None:
    assert readable(source) == expected


# --- gates that are written as mappings ------------------------------------------------------------------------------

FILLED = "dyn(v) != null && dyn(v) != '' && dyn(v) != [] && dyn(v) != {}"


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ({"equals": 3}, "optMap(v, dyn(v) == 3).orValue(false)"),
        ({"notEquals": "x"}, 'optMap(v, dyn(v) != "x").orValue(false)'),
        ({"in": [1, "a", None]}, 'optMap(v, dyn(v) in [1, "a", null]).orValue(false)'),
        ({"notIn": "${self.spec.x}"}, "optMap(v, !(dyn(v) in (self.spec.x))).orValue(false)"),
        ({"greaterThan": 1.5}, "optMap(v, v > 1.5).orValue(false)"),
        ({"greaterOrEqual": 1}, "optMap(v, v >= 1).orValue(false)"),
        ({"lessThan": 1}, "optMap(v, v < 1).orValue(false)"),
        ({"lessOrEqual": 1}, "optMap(v, v <= 1).orValue(false)"),
        ({"matches": "^a"}, 'optMap(v, v.matches("^a")).orValue(false)'),
        (
            {"contains": {"a": True}},
            'optMap(v, (type(v) == string ? string(v).contains(string({"a": true})) : {"a": true} in dyn(v)))'
            ".orValue(false)",
        ),
        ({"isReady": False}, "optMap(v, isReady(v) == false).orValue(false)"),
        ({"equals": 3, "not": True}, "optMap(v, !(dyn(v) == 3)).orValue(false)"),
        ({"equals": " ${1} "}, "optMap(v, dyn(v) == (1)).orValue(false)"),
    ],
)
def test_a_gate_is_the_expression_that_it_is_short_for(gate: dict[str, Any], text: str) -> None:
    condition = read_when_condition({"field": "spec.host", **gate})
    assert expression_of(condition, ()) == f"optional.of(self).?spec.?host.{text}"


@pytest.mark.parametrize(
    ("exists", "negated", "sign"), [(True, False, ""), (False, False, "!"), (True, True, "!"), (False, True, "")]
)
def test_a_gate_for_presence_asks_for_a_value_that_is_not_empty(exists: bool, negated: bool, sign: str) -> None:
    condition = read_when_condition({"field": "spec.host", "exists": exists, "not": negated})
    assert expression_of(condition, ()) == f"{sign}optional.of(self).?spec.?host.optMap(v, {FILLED}).orValue(false)"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("web", "optional.of(web)"),
        ("web.status", "optional.of(web).?status"),
        ("status.web", "optional.of(self).?status.?web"),
        ("web[0]['a b'].in", 'optional.of(web)[?0][?"a b"][?"in"]'),
        ("web.x-y", 'optional.of(web)[?"x-y"]'),
        ('web["a"]', "optional.of(web).?a"),
    ],
)
def test_a_path_of_a_gate_begins_with_a_variable_or_with_self(field: str, place: str) -> None:
    condition = read_when_condition({"field": field, "equals": 1})
    assert place_of(condition, ("web",)) == place


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ({"equals": 1}, "optMap(v, v == 1)"),
        ({"notEquals": 1}, "optMap(v, v != 1)"),
        ({"in": [1]}, "optMap(v, v in [1])"),
        ({"notIn": [1]}, "optMap(v, v in [1])"),
        ({"greaterThan": 1}, None),
        ({"exists": True}, None),
        ({"isReady": True}, None),
    ],
)
def test_a_gate_that_compares_is_checked_for_types(gate: dict[str, Any], text: str | None) -> None:
    condition = read_when_condition({"field": "web", **gate})
    assert comparison_of(condition, ("web",)) == (text and f"optional.of(web).{text}")


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ({}, "optional.of(self).?metadata.?creationTimestamp"),
        ({"field": "web.at"}, "optional.of(web).?at"),
        ({"field": "${a\n.b}"}, "a\n.b"),
    ],
)
def test_a_delay_counts_from_the_creation_unless_it_is_told_otherwise(gate: dict[str, Any], text: str) -> None:
    assert time_of(read_when_condition({"after": "5m", **gate}), ("web",)) == text


def test_several_texts_are_in_parentheses() -> None:
    assert any_of(["a", "b || c"]) == "(a) || (b || c)"
    assert all_of(["a", "b || c"]) == "(a) && (b || c)"
    assert any_of([]) == all_of([]) == "true"


@pytest.mark.parametrize(
    ("gate", "told_at", "message"),
    [
        (3, "", "must be an object such as {field: spec.host, exists: true}"),
        (
            {"field": "a"},
            "",
            "must ask exactly one of equals, notEquals, in, notIn, greaterThan, greaterOrEqual, lessThan, lessOrEqual, "
            "matches, contains, isReady, exists, after",
        ),
        ({"field": "a", "equals": 1, "odd": 1}, ".odd", "is unknown to a gate"),
        ({"field": "a", "isRedy": True}, ".isRedy", "is unknown to a gate; did you mean isReady?"),
        ({"field": "a", "aftr": "5m"}, ".aftr", "is unknown to a gate; did you mean after?"),
        ({"field": "a", "equals": 1, "not": 1}, ".not", "must be true or false"),
        ({"field": "a", "exists": 1}, ".exists", "must be true or false"),
        ({"field": "a", "in": 1}, ".in", "must be a list, or an expression that gives one"),
        ({"equals": 1}, ".field", "must be a path such as spec.host or children.web.status.phase"),
        ({"after": "x"}, ".after", "must be a length of time such as 90s, 5m or 1h30m"),
        ({"after": "5m", "not": True}, ".not", "cannot be asked of `after`: what has begun does not end"),
    ],
)
def test_a_mistake_of_a_gate_says_what_to_write(gate: Any, told_at: str, message: str) -> None:
    with pytest.raises(ValidationProblems) as raised:
        read_when_condition(gate, "when")
    assert [str(problem) for problem in raised.value.problems] == [f"when{told_at}: {message}"]


@pytest.mark.parametrize(("length", "is_legal"), [(1024, True), (1025, False)])
def test_a_field_of_a_gate_has_at_most_1024_characters(length: int, is_legal: bool) -> None:
    for gate in ({"field": "a" * length, "equals": 1}, {"after": "5m", "field": f"${{{'a' * (length - 3)}}}"}):
        if is_legal:
            assert len(read_when_condition(gate).field) == length
        else:
            with pytest.raises(ValidationProblems):
                read_when_condition(gate)


# --- kinds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (3, "is no CustomResourceDefinition"),
        ({"kind": "Crd"}, "is no CustomResourceDefinition"),
        ({**crd(), "spec": {}}, "spec.versions must be a list of versions"),
        ({**crd(), "spec": {"versions": [3]}}, "spec.versions must be a list of versions"),
        (crd(versions=[]), "exactly one of spec.versions has storage: true"),
        (crd(versions=[{"name": "v1", "storage": "yes"}]), "exactly one of spec.versions has storage: true"),
        (
            crd(versions=[{"name": "v1", "storage": True}, {"name": "v2", "storage": True}]),
            "exactly one of spec.versions has storage: true",
        ),
        *(
            (
                crd(**change),
                "spec.group, spec.names.kind, spec.names.plural and the names of versions must be texts",
            )
            for change in (
                {"group": ""},
                {"group": 3},
                {"names": {"kind": "Shop"}},
                {"names": {"plural": "shops"}},
                {"versions": [{"storage": True}]},
            )
        ),
        (
            crd(versions=[{"name": "v1", "storage": True, "schema": {"openAPIV3Schema": 3}}]),
            "version v1: openAPIV3Schema must be an object",
        ),
        (
            crd(versions=[{"name": "v1", "storage": True, "schema": {"openAPIV3Schema": {"type": 3}}}]),
            "version v1: openAPIV3Schema.type: must be a string, not int",
        ),
    ],
)
def test_a_document_that_is_no_crd_is_told(manifest: Any, message: str) -> None:
    with pytest.raises(CrdProblem) as raised:
        CrdVersions.of(manifest)
    assert str(raised.value) == message


def test_a_crd_has_its_versions_in_its_own_order() -> None:
    versions = [
        {"name": "v2", "served": False, "storage": False},
        {"name": "v1", "storage": True},
        {"name": "v3"},
        {"name": "v0", "served": True},
    ]
    found = CrdVersions.of(crd(versions=versions))
    assert (list(found.kinds), found.storage, found.has_status) == (["v2", "v1", "v3", "v0"], "v1", False)
    assert [known.kind.version for known in found.served_others] == ["v3", "v0"]
    assert found.stored.kind == Kind("example.com", "v1", "Shop", "shops")
    assert found.stored.schema is None
    assert CrdVersions.of(crd()).has_status


def test_a_field_of_a_crd_is_where_its_file_has_it() -> None:
    class Lines:
        def at(self, path: str, offset: int | None = None) -> Place:
            return Place(path, path, 7)

    versions = CrdVersions.of(crd(), Lines())
    schema = "spec.versions[0].schema.openAPIV3Schema"
    assert versions.where() == f"{schema}:7"
    assert versions.where("spec", "parts", "[*]", "na.me") == (
        f"{schema}.properties.spec.properties.parts.items.properties['na.me']:7"
    )
    assert CrdVersions.of(crd()).where("spec") == "shops.example.com"


def test_kinds_are_found_in_crds_among_declared_and_built_in_ones() -> None:
    gadget = Kind("example.org", "v1", "Gadget", "gadgets")
    other_shop = Kind("example.com", "v1", "Shop", "other")
    schemas = Schemas([CrdVersions.of(crd())], [gadget, other_shop])
    assert schemas.find("example.com/v1", "Shop").kind.plural == "shops"  # type: ignore[union-attr]
    assert schemas.find("example.org/v1", "Gadget").kind == gadget  # type: ignore[union-attr]
    assert schemas.find("example.org/v1", "Gadget").schema is None  # type: ignore[union-attr]
    assert schemas.find("apps/v1", "Deployment").schema is not None  # type: ignore[union-attr]
    assert schemas.find("v1", "Deployment") is None
    assert schemas.find("helm.toolkit.fluxcd.io/v2", "HelmRelease").schema is None  # type: ignore[union-attr]
    assert schemas.similar("Deployment") == ("apps/v1",)
    assert schemas.similar("Shop") == ("example.com/v1",)
    assert schemas.similar("Nothing") == ()
    names = schemas.names()
    assert {"Shop", "Gadget", "Deployment"} <= set(names)
    assert list(names) == sorted(set(names))
    assert schemas.find("v1", "Nothing") is None
    assert "Nothing" not in schemas.names()
    assert schemas.similar("Nothing") == ()


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Shop", "shops"), ("Bus", "buses"), ("City", "cities"), ("Y", "ies"), ("Mesh", "meshs")],
)
def test_a_plural_is_guessed_as_kubectl_does(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def test_a_box_without_resources_has_no_children_to_name() -> None:
    with pytest.raises(CelSyntaxError, match=r"children is read as children.<kind>: there is none"):
        ChildNames.of([]).resolve(parse("children"), "children")
