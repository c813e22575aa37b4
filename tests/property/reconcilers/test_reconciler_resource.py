"""A kind from two attrs classes: its CRD, and its objects read, written and judged (PH-7, RES-6, D10)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube import ObjectMeta, ValidationProblems
from purekube.reconcilers import CelRule, Column, Object, UnreadableObject, resource, rule, schema_field
from purekube.schema import SchemaError, apply_defaults, prune


class Tier(StrEnum):
    """How much is paid for."""

    FREE = "Free"
    PAID = "Paid"


@attrs.frozen
class Port:
    """A port of a shop."""

    number: int = schema_field("Its number.", schema={"minimum": 1, "maximum": 65535})
    name: str = ""


@attrs.frozen
class ShopSpec:
    """What a shop is to be."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        rule(
            "self.replicas <= 50 || self.tier == 'Paid'", "more than 50 replicas are paid for", field_path=".replicas"
        ),
    )

    image: str
    replicas: int = 1
    tier: Tier = Tier.FREE
    speed: Literal["slow", "fast"] = "slow"
    weight: float = 0.5
    max_surge: int | str = "25%"
    ports: tuple[Port, ...] = ()
    named: Mapping[str, Port] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    values: Mapping[str, Any] | None = None
    note: str | None = None


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready: int = 0
    url: str = ""
    seen: tuple[str, ...] = ()


SHOP = resource(
    "example.com", "v1", "Shop", ShopSpec, ShopStatus, short_names=["sh"], columns=[Column("Image", ".spec.image")]
)

TEXTS = st.text(alphabet="abcxyz./:-", max_size=6)
PORTS = st.builds(Port, st.integers(1, 65535), TEXTS)
SPECS = st.builds(
    ShopSpec,
    image=TEXTS,
    replicas=st.integers(0, 50),
    tier=st.sampled_from(Tier),
    speed=st.sampled_from(("slow", "fast")),
    weight=st.floats(0, 1) | st.just(1),
    max_surge=st.integers(0, 9) | TEXTS,
    ports=st.lists(PORTS, max_size=2).map(tuple),
    named=st.dictionaries(TEXTS, PORTS, max_size=2),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=2),
    values=st.none() | st.dictionaries(TEXTS, st.integers() | st.lists(TEXTS, max_size=1), max_size=2),
    note=st.none() | TEXTS,
)
STATUSES = st.builds(ShopStatus, st.integers(0, 9), TEXTS, st.lists(TEXTS, max_size=2).map(tuple))
OBJECTS = st.builds(
    lambda spec, status, generation: Object(
        SHOP.kind, ObjectMeta("shop", "tenant", "u-1"), spec, status, (), generation
    ),
    SPECS,
    STATUSES,
    st.none() | st.integers(1, 9),
)


@given(OBJECTS)
def test_what_is_written_is_read_again(shop: Object[ShopSpec, ShopStatus]) -> None:
    """Through an API server too: it drops nothing, refuses nothing, and what it fills in is what the class says."""
    manifest = SHOP.manifest(shop)

    assert SHOP.problems(manifest) == ()
    kept, dropped = prune(SHOP.schema, manifest)
    assert [path for path in dropped if not path.startswith("metadata.")] == []
    assert kept["spec"] == manifest["spec"]
    assert SHOP.read(manifest) == shop
    assert SHOP.read(apply_defaults(SHOP.schema, manifest)) == shop


def test_the_crd_says_what_the_classes_say() -> None:
    crd = SHOP.crd()
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]

    assert crd["metadata"]["name"] == "shops.example.com"
    assert crd["spec"]["names"] == {
        "kind": "Shop",
        "listKind": "ShopList",
        "plural": "shops",
        "singular": "shop",
        "shortNames": ["sh"],
    }
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "Ready",
        "Image",
        "Reason",
        "Age",
        "Message",
    ]
    assert spec["required"] == ["image"]
    assert spec["properties"]["replicas"] == {"type": "integer", "default": 1}
    assert spec["properties"]["tier"] == {"type": "string", "enum": ["Free", "Paid"], "default": "Free"}
    assert spec["properties"]["speed"] == {"type": "string", "enum": ["slow", "fast"], "default": "slow"}
    assert spec["properties"]["maxSurge"] == {"x-kubernetes-int-or-string": True, "default": "25%"}
    assert spec["properties"]["named"]["additionalProperties"]["properties"]["number"]["maximum"] == 65535
    assert spec["properties"]["ports"]["items"]["properties"]["number"]["description"] == "Its number."
    assert spec["x-kubernetes-validations"][0]["fieldPath"] == ".replicas"
    assert set(status["properties"]) == {"ready", "url", "seen", "conditions", "observedGeneration"}
    assert "default" not in status["properties"]["ready"]


def test_everything_that_does_not_fit_is_named_with_its_path() -> None:
    manifest = {
        "metadata": {"name": "shop", "namespace": "tenant", "uid": "u"},
        "spec": {"replicas": "3", "named": {"a": {"number": "x"}}, "ports": [{}], "speed": "none"},
        "status": {"ready": True},
    }
    with pytest.raises(ValidationProblems) as refused:
        SHOP.read(manifest)

    assert [str(problem) for problem in refused.value.problems] == [
        "spec.image: is required",
        "spec.named.a.number: must be an integer, not a string",
        "spec.ports[0].number: is required",
        "spec.replicas: must be an integer, not a string",
        "spec.speed: must be one of slow, fast, not 'none'",
        "status.ready: must be an integer, not a boolean",
    ]
    unreadable = SHOP.read_leniently(manifest)
    assert isinstance(unreadable, UnreadableObject)
    assert unreadable.metadata.uid == "u"
    assert "spec.image: is required" in unreadable.problems


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["spec", "status", "metadata", "conditions", "image", "ports"]), inner)
        ),
    )
)
def test_reading_never_raises(value: object) -> None:
    """An object that makes no sense is a condition, not a crash."""
    if isinstance(value, dict):
        SHOP.read_leniently(value)


def test_fields_that_the_classes_do_not_know_are_kept_as_they_came() -> None:
    manifest = {"metadata": {"name": "shop"}, "spec": {"image": "x", "later": 1}, "status": {"phase": "Old"}}

    shop = SHOP.read(manifest)

    assert shop.spec == ShopSpec("x")
    assert shop.manifest["spec"]["later"] == 1
    assert shop == SHOP.new("shop", ShopSpec("x"))


def test_rules_are_asked_as_the_api_server_asks_them() -> None:
    free = SHOP.manifest(SHOP.new("shop", ShopSpec("x", replicas=51), namespace="tenant"))

    assert [str(problem) for problem in SHOP.problems(free)] == [
        "spec.replicas: Invalid value: more than 50 replicas are paid for"
    ]


@attrs.frozen
class _Sets:
    names: set[str] = attrs.field(factory=set)


@attrs.frozen
class _Filled:
    note: str | None = "x"


@attrs.frozen
class _Needy:
    remote_id: str


@attrs.frozen
class _Conditions:
    conditions: tuple[str, ...] = ()


@attrs.frozen
class _Ring:
    inner: "_Ring | None" = None


@attrs.frozen
class _Wrong:
    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (rule("self.replica > 1", "so it is"),)
    replicas: int = 1


class _Plain:
    pass


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (_Sets, ShopStatus, "_Sets.names: set has no schema; a field is str"),
        (_Filled, ShopStatus, "_Filled.note: may be None, so its default is None"),
        (ShopSpec, _Needy, "_Needy.remote_id: needs a default"),
        (ShopSpec, _Conditions, "_Conditions.conditions: is written for you"),
        (_Ring, ShopStatus, "_Ring.inner: _Ring holds itself"),
        (_Plain, ShopStatus, "_Plain is no attrs class: write @attrs.frozen above it"),
        (_Wrong, ShopStatus, "undefined field 'replica'"),
    ],
)
def test_a_class_that_is_not_fit_is_refused_where_the_kind_is_declared(
    spec: type[Any], status: type[Any], message: str
) -> None:
    with pytest.raises((TypeError, SchemaError)) as refused:
        resource("example.com", "v1", "Shop", spec, status)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("example", "v1", "Shop"), "the group must be such as example.com, not 'example'"),
        (("apps.k8s.io", "v1", "Shop"), "kept for Kubernetes itself"),
        (("example.com", "1", "Shop"), "the version must be such as v1 or v1alpha1, not '1'"),
        (("example.com", "v1", "shop"), "the kind must be such as Shop, not 'shop'"),
    ],
)
def test_names_that_no_api_server_takes_are_refused(names: Sequence[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resource(names[0], names[1], names[2], ShopSpec, ShopStatus)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Shop", "shops"), ("Proxy", "proxies"), ("Key", "keys"), ("Class", "classes"), ("Mesh", "meshes")],
)
def test_the_plural_is_made_of_the_kind(kind: str, plural: str) -> None:
    assert resource("example.com", "v1", kind, ShopSpec, ShopStatus).kind.plural == plural


@attrs.frozen
class OneOfTwo:
    """Exactly one of two fields, and others."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {
        "maxProperties": 2,
        "required": ["foo-bar"],
        "properties": {"foo-bar": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "has(self.a)", "messageExpression": "'a is missing'"}],
    }
    CEL_RULES = (rule("size(self.a) < 3", "is too long"),)
    a: str = ""


def test_a_class_has_keywords_of_its_own() -> None:
    kind = resource(
        "example.com", "v1", "Thing", OneOfTwo, ShopStatus, rules=[rule("self.metadata.name != 'x'", "not x")]
    )

    assert set(kind.schema.properties["spec"].properties) == {"a", "foo-bar"}
    assert "spec.foo-bar: Required value" in map(str, kind.problems({"metadata": {"name": "x"}, "spec": {}}))
    told = str(kind.problems({"metadata": {"name": "x"}, "spec": {"a": "long", "foo-bar": "b"}}))
    assert "is too long" in told
    assert "not x" in told
    assert "a is missing" in str(kind.problems({"metadata": {"name": "y"}, "spec": {"foo-bar": "b"}}))
