"""PH-7, RES-6: names, columns, parts and versions of a kind that is made from attrs classes, exactly."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest

from purekube.apimachinery.definitions import AGE
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta
from purekube.apimachinery.nesting import TOO_DEEP, UNREADABLE
from purekube.apimachinery.openapi import SchemaTypeError
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.reconcilers import Column, Object, UnreadableObject, conversion, resource, reviewed, rule, versioned
from purekube.reconcilers.resource import check_columns, check_names, plural_of, standard_columns


@attrs.frozen
class ShopSpec:
    """What a shop is to be."""

    image: str = "x"
    most_parts: int = 3


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready_parts: int = 0


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
OLD = resource("example.com", "v1alpha1", "Shop", ShopSpec, ShopStatus)
BOTH = versioned(SHOP, conversion(OLD, SHOP, up=lambda spec: spec, down=lambda spec: spec))


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Shop", "shops"),
        ("Proxy", "proxies"),
        ("Key", "keys"),
        ("Y", "ys"),
        ("Gas", "gases"),
        ("Box", "boxes"),
        ("Fizz", "fizzes"),
        ("Branch", "branches"),
        ("Mesh", "meshes"),
        ("Path", "paths"),
        ("Zoo", "zoos"),
        ("Soliloquy", "soliloquys"),
        ("Ay", "ays"),
    ],
)
def test_a_plural_follows_the_rules_of_english(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


LABEL = "a" * 63


@pytest.mark.parametrize(
    "group",
    ["example.com", "a.b", f"{LABEL}.b", "a-1.b-2", "1.2", ".".join([LABEL, LABEL, LABEL, "a" * 61])],
)
def test_a_group_is_a_domain_of_two_labels_or_more(group: str) -> None:
    check_names(Kind(group, "v1", "Shop", "shops"), ())


@pytest.mark.parametrize(
    "group",
    ["", "com", ".com", "a.", "a..b", "-a.b", "a-.b", "A.b", f"a{LABEL}.b", "a_b.c", "a.b\n",
     ".".join([LABEL, LABEL, LABEL, "a" * 62])],
)  # fmt: skip
def test_another_group_is_refused(group: str) -> None:
    with pytest.raises(ValueError, match=r"the group must be such as example\.com, not ") as refused:
        check_names(Kind(group, "v1", "Shop", "shops"), ())
    assert repr(group) in str(refused.value)


@pytest.mark.parametrize(
    ("field", "right", "wrong", "example"),
    [
        ("version", ["v1", "v20", "v1alpha1", "v1beta10"], ["1", "v0", "v01", "v1alpha", "v1alpha0", "v1gamma1", "V1"],
         "v1 or v1alpha1"),
        ("kind", ["Shop", "S", "A" * 63, "S2"], ["shop", "", "A" * 64, "Shop-A", "1S"], "Shop"),
        ("plural", ["shops", "s", "a" * 63, "s2"], ["Shops", "", "a" * 64, "shop-s", "1s"], "shops"),
    ],
)  # fmt: skip
def test_each_name_of_a_kind_has_its_form(field: str, right: Sequence[str], wrong: Sequence[str], example: str) -> None:
    good: dict[str, Any] = {"group": "example.com", "version": "v1", "kind": "Shop", "plural": "shops"}
    for text in right:
        check_names(Kind(**{**good, field: text}), ("sh", "s2"))
    for text in wrong:
        with pytest.raises(ValueError, match=f"the {field} must be such as {example}, not ") as refused:
            check_names(Kind(**{**good, field: text}), ())
        assert str(refused.value).endswith(repr(text))


def test_short_names_and_protected_groups_are_checked() -> None:
    good = Kind("example.com", "v1", "Shop", "shops")
    for name in ("Sh", "", "s-h"):
        with pytest.raises(ValueError, match=f"the short name must be such as sh, not {name!r}"):
            check_names(good, ("sh", name))
    for group in ("x.k8s.io", "x.y.kubernetes.io"):
        told = f"the group {group} is kept for Kubernetes itself: take a domain of your own"
        with pytest.raises(ValueError, match=told):
            check_names(attrs.evolve(good, group=group), ())
    for group in ("k8s.io", "xk8s.io", "k8s.io.example"):
        check_names(attrs.evolve(good, group=group), ())


def test_a_column_is_named_with_its_path_where_that_is_wrong() -> None:
    check_columns([Column("Image", ".spec.image")])
    with pytest.raises(ValueError, match=r"column Image: a path begins with a dot, as \.spec\.image, not 'spec.image'"):
        check_columns([Column("Size", ".spec.size"), Column("Image", "spec.image")])
    with pytest.raises(ValueError, match="column Image"):
        resource("example.com", "v1", "Shop", ShopSpec, ShopStatus, columns=[Column("Image", "x")])


def test_each_kind_has_the_columns_of_its_condition_around_its_own() -> None:
    image = Column("Image", ".spec.image")

    assert standard_columns([image]) == (
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        image,
        Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        AGE,
        Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
    )


def test_a_kind_says_what_it_was_declared_with() -> None:
    kind = resource(
        "example.com",
        "v1",
        "Zone",
        ShopSpec,
        ShopStatus,
        plural="areas",
        short_names=["z"],
        categories=["all"],
        namespaced=False,
        rules=[rule("self.metadata.name != 'x'", "not x")],
    )
    spec = kind.crd()["spec"]

    assert kind.kind == Kind("example.com", "v1", "Zone", "areas", namespaced=False)
    assert (spec["scope"], spec["names"]["plural"], spec["names"]["shortNames"]) == ("Cluster", "areas", ["z"])
    assert spec["names"]["categories"] == ["all"]
    assert kind.status_fields == ("readyParts",)
    assert "not x" in str(kind.problems({"metadata": {"name": "x"}, "spec": {}}))
    assert SHOP.crd()["spec"]["scope"] == "Namespaced"
    assert "shortNames" not in SHOP.crd()["spec"]["names"]


def test_a_class_describes_its_kind_or_else_its_name_does() -> None:
    @attrs.frozen
    class Bare:
        pass

    Bare.__doc__ = None
    schemas = [
        resource("example.com", "v1", "Shop", spec, ShopStatus).crd()["spec"]["versions"][0]["schema"]
        for spec in (ShopSpec, Bare)
    ]
    assert [one["openAPIV3Schema"]["description"] for one in schemas] == [
        "What a shop is to be.",
        "Shop of example.com.",
    ]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_kind_needs_webhooks_for_versions_and_for_reviews_PH_8() -> None:
    kinds = [
        SHOP,
        BOTH,
        reviewed(SHOP, validate=lambda given: ()),
        reviewed(SHOP, default=lambda given: given.spec),
        reviewed(SHOP),
    ]
    assert [kind.needs_webhooks for kind in kinds] == [False, True, True, True, False]


def test_the_version_of_the_kind_is_the_stored_one_PH_8() -> None:
    crd = BOTH.crd()

    assert [(one["name"], one["storage"], one["served"]) for one in crd["spec"]["versions"]] == [
        ("v1", True, True),
        ("v1alpha1", False, True),
    ]
    assert crd["metadata"] == SHOP.crd()["metadata"]
    assert SHOP.crd()["spec"]["versions"] == crd["spec"]["versions"][:1]
    assert SHOP.converter is None
    assert BOTH.converter is BOTH.converter
    assert BOTH.converter is not None


# --- reading and writing ----------------------------------------------------------------------------------------------


def ready(**more: Any) -> dict[str, Any]:
    return {"type": "Ready", "status": "True", "reason": "Good", "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


READY = Condition("Ready", ConditionStatus.TRUE, "Good", "", "2026-01-01T00:00:00Z")


def test_an_object_is_read_with_its_conditions_and_its_generation() -> None:
    manifest = {
        "metadata": {"name": "a", "namespace": "team"},
        "spec": {"image": "r", "mostParts": 4},
        "status": {"readyParts": 2, "observedGeneration": 7, "conditions": [ready()]},
    }
    shop = SHOP.read(manifest)

    assert shop == Object(SHOP.kind, ObjectMeta("a", "team"), ShopSpec("r", 4), ShopStatus(2), shop.conditions, 7)
    assert [(one.type, one.status, one.reason) for one in shop.conditions] == [("Ready", "True", "Good")]
    assert shop.manifest is manifest
    for absent in ({"spec": None, "status": None}, {}):
        assert SHOP.read({"metadata": {"name": "a"}, **absent}) == SHOP.new("a", ShopSpec())


def test_an_object_is_written_with_a_status_where_it_says_something() -> None:
    shop = SHOP.new("a", ShopSpec("r"), namespace="team", labels={"x": "y"})
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "a", "namespace": "team", "labels": {"x": "y"}},
        "spec": {"image": "r", "mostParts": 3},
    }

    assert SHOP.manifest(shop) == body
    assert SHOP.manifest(attrs.evolve(shop, observed_generation=2)) == {**body, "status": {"observedGeneration": 2}}
    told = attrs.evolve(shop, status=ShopStatus(1), observed_generation=2)
    assert SHOP.manifest(told) == {**body, "status": {"readyParts": 1, "observedGeneration": 2}}
    assert SHOP.status_json(ShopStatus(1)) == {"readyParts": 1}
    assert SHOP.spec_json(ShopSpec()) == {"image": "x", "mostParts": 3}


@attrs.frozen
class Box:
    most_items: int = 1


@attrs.frozen
class Rack:
    box: Box = Box()
    boxes: tuple[Box, ...] = ()
    first: Box | None = None


@attrs.frozen
class RackSpec:
    rack: Rack = Rack()


@pytest.mark.parametrize(
    ("rack", "says"),
    [
        ({"box": {}}, "rack is a dict"),
        (Rack({"mostItems": 1}), "rack.box is a dict"),  # type: ignore[arg-type]
        (Rack(first={"mostItems": 1}), "rack.first is a dict"),  # type: ignore[arg-type]
        (Rack(boxes=(Box(), "x")), "rack.boxes is a str"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_is_not_of_the_class_of_its_field_is_named(rack: Any, says: str) -> None:
    """A dict in the place of a nested class is a mistake that is easily made: the field was named nowhere."""
    racks = resource("example.com", "v1", "Racks", RackSpec, Rack)
    with pytest.raises(TypeError, match=f"^{says}, not of the class of its field$"):
        racks.spec_json(RackSpec(rack))
    if isinstance(rack, Rack):
        assert says.removeprefix("rack.") in racks.status_problem(rack)


def test_what_cannot_be_read_keeps_what_can_be() -> None:
    manifest = {
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"image": 1, "mostParts": "x"},
        "status": {"readyParts": "no", "conditions": [{"type": 1}, ready(), "x"]},
    }
    found = SHOP.read_leniently(manifest)

    assert isinstance(found, UnreadableObject)
    assert found.problems.startswith(
        "spec.image: must be a string, not a number; spec.mostParts: must be an integer, not a string; "
        "status.conditions[0]."
    )
    assert found.problems.endswith("; status.readyParts: must be an integer, not a string")
    assert [one.type for one in found.conditions] == ["Ready"]
    assert (found.kind, found.metadata.uid, found.manifest) == (SHOP.kind, "u", manifest)
    bare = SHOP.read_leniently({"metadata": {"name": "a"}, "spec": "no", "status": {"conditions": "x"}})
    assert isinstance(bare, UnreadableObject)
    assert (bare.problems, bare.conditions) == ("spec: must be an object, not a string; status.conditions: must be a "
                                                "list, not a string", ())  # fmt: skip


def test_an_object_that_is_nested_too_deep_is_a_problem_and_no_crash() -> None:
    manifest = {UNREADABLE: ["spec.image", "spec.b"], "metadata": {"name": "a"}, "spec": {"image": None}}
    problems = tuple(Problem(path, TOO_DEEP) for path in ("spec.image", "spec.b"))

    with pytest.raises(ValidationProblems) as refused:
        SHOP.read(manifest)
    assert sorted(refused.value.problems) == sorted(problems)
    assert SHOP.problems(manifest) == tuple(sorted(problems))
    assert isinstance(SHOP.read_leniently(manifest), UnreadableObject)


# --- classes that have no schema --------------------------------------------------------------------------------------


@attrs.frozen
class Inner:
    note: str | None = "x"


@attrs.frozen
class DeepDefault:
    inner: tuple[Mapping[str, Inner], ...] = ()


@attrs.frozen
class Unknown:
    a: "Missing" = 1  # type: ignore[name-defined]  # noqa: F821


@attrs.frozen
class OptionalStatus:
    note: str | None = "x"


@attrs.frozen
class Generation:
    observed_generation: int = 0


@attrs.frozen
class Needy:
    a: int


@attrs.frozen
class WrongSchema:
    SCHEMA: ClassVar[Mapping[str, Any]] = {"properties": {"a": {"type": "strong"}}}


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (DeepDefault, ShopStatus, "Inner.note: may be None, so its default is None"),
        (ShopSpec, OptionalStatus, "OptionalStatus.note: may be None, so its default is None"),
        (ShopSpec, Generation,
         "Generation.observed_generation: is written for you; read it from the object: object.observed_generation"),
        (ShopSpec, Needy, "Needy.a: needs a default: the status of a new object says nothing yet"),
        (Unknown, ShopStatus, "Unknown: name 'Missing' is not defined; types of fields stand at the top of a module"),
        (3, ShopStatus, "3 is no attrs class: write @attrs.frozen above it"),
        (ShopSpec, OptionalStatus(), "OptionalStatus(note='x') is no attrs class: write @attrs.frozen above it"),
        (ShopSpec, str, "str is no attrs class: write @attrs.frozen above it"),
    ],
)  # fmt: skip
def test_a_class_without_a_schema_is_told_with_its_field(spec: Any, status: Any, message: str) -> None:
    with pytest.raises(SchemaTypeError) as refused:
        resource("example.com", "v1", "Shop", spec, status)
    assert str(refused.value) == message


def test_a_mistake_in_a_schema_is_told_where_the_kind_is_made() -> None:
    with pytest.raises(Exception, match="strong"):
        resource("example.com", "v1", "Shop", WrongSchema, ShopStatus)


def test_a_rule_has_the_field_and_the_reason_of_its_error() -> None:
    made = rule("self > 1", "too small", field_path=".a", reason="FieldValueForbidden")

    assert (made.rule, made.message, made.field_path, made.reason) == (
        "self > 1",
        "too small",
        ".a",
        "FieldValueForbidden",
    )
    assert (rule("x", "y").field_path, rule("x", "y").reason) == ("", "FieldValueInvalid")
