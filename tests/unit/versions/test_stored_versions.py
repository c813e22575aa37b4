"""The versions in which objects are stored, and exactly what is kept of an object that another version cannot hold."""

import json
from copy import deepcopy
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.schema import compile_schema
from purekube.versions import VersionsInUse
from purekube.versions.preservation import Loss, losses, put_back, read, written

SHOP = Kind("example.com", "v1", "Shop", "shops")


def definition(*versions: tuple[str, bool, bool], stored: Any = None, scope: str = "Namespaced") -> dict[str, Any]:
    """A CRD with versions, each served or not, and the storage version or not."""
    listed = [{"name": name, "served": served, "storage": storage} for name, served, storage in versions]
    names = {"kind": "Shop", "plural": "shops"}
    return {
        "metadata": {"name": "shops.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": scope, "versions": listed},
        "status": {"storedVersions": stored},
    }


OLD, NEW, HIDDEN = ("v1alpha1", True, False), ("v1", True, True), ("v1", False, True)
MIGRATE = "vworkspace-operator versions migrate shops.example.com"


@pytest.mark.parametrize(
    ("crd", "stale", "readable", "advice"),
    [
        (definition(NEW, stored=["v1"]), (), SHOP, ""),
        (definition(NEW), (), SHOP, ""),
        (definition(OLD, NEW, stored=["v1alpha1", "v1"]), ("v1alpha1",), SHOP, MIGRATE),
        (definition(NEW, OLD, stored=["v1", "v0", "v1alpha1"]), ("v0", "v1alpha1"), SHOP, MIGRATE),
        (
            definition(OLD, HIDDEN, stored=["v1alpha1", "v1"]),
            ("v1alpha1",),
            None,
            "serve v1: nobody can write the version in which objects are stored",
        ),
        (definition(OLD, HIDDEN, stored=["v1"]), (), None, ""),
    ],
)
def test_a_version_that_is_stored_and_not_the_storage_version_is_stale(
    crd: Any, stale: tuple[str, ...], readable: Kind | None, advice: str
) -> None:
    found = VersionsInUse.of(crd)
    assert (found.stale, found.readable, found.advice) == (stale, readable, advice)
    assert (found.definition, found.kind, found.storage) == ("shops.example.com", SHOP, "v1")


def test_versions_are_read_in_their_order_with_the_scope_of_the_kind() -> None:
    found = VersionsInUse.of(definition(OLD, ("v2", False, False), NEW, stored=["v2"], scope="Cluster"))
    assert (found.served, found.stored) == (("v1alpha1", "v1"), ("v2",))
    assert found.kind == Kind("example.com", "v1", "Shop", "shops", namespaced=False)


# --- what is kept ----------------------------------------------------------------------------------------------------

PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "cpu": {"type": "integer"}},
    },
}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {"parts": PARTS, "rest": FREE, "list": {"type": "array", "items": {"type": "integer"}}},
    }
)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [{"at": ["a"], "was": 1, "became": 2}]),
        ({"a": 1}, {}, [{"at": ["a"], "was": 1}]),
        ({}, {"a": 1}, [{"at": ["a"], "became": 1}]),
        ({"a": None}, {}, [{"at": ["a"], "was": None}]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [{"at": ["a", "c"], "was": 2}]),
        ({"a": {"b": 1}}, {"a": 3}, [{"at": ["a"], "was": {"b": 1}, "became": 3}]),
        ({"list": [1, 2]}, {"list": [1]}, [{"at": ["list"], "was": [1, 2], "became": [1]}]),
        (
            {"parts": [{"name": "x", "cpu": 1}, {"name": "y"}]},
            {"parts": [{"name": "x"}]},
            [
                {"at": ["parts", {"name": "x"}, "cpu"], "was": 1},
                {"at": ["parts", {"name": "y"}], "was": {"name": "y"}, "position": 1},
            ],
        ),
        ({"parts": []}, {"parts": [{"name": "x"}]}, [{"at": ["parts"], "was": [], "became": [{"name": "x"}]}]),
        ({"kind": "A", "metadata": 1, "apiVersion": "x"}, {"kind": "B", "metadata": 2, "apiVersion": "y"}, []),
    ],
)
def test_what_a_round_trip_changes_is_written_down_and_put_back(before: Any, after: Any, lost: Any) -> None:
    found = losses(before, after, SCHEMA)
    text = written(found)
    assert json.loads(text) == lost
    assert read(text) == list(found)
    assert {
        **put_back(after, found),
        **{key: before[key] for key in before if key in ("kind", "metadata", "apiVersion")},
    } == before


@pytest.mark.parametrize(
    ("loss", "value", "expected"),
    [
        (Loss(("a",), 1, 2), {"a": 2}, {"a": 1}),
        (Loss(("a",), 1, 2), {"a": 3}, {"a": 3}),
        (Loss(("a",), 1, 2), {}, {}),
        (Loss(("a",), 1), {}, {"a": 1}),
        (Loss(("a",), 1), {"a": 3}, {"a": 3}),
        (Loss(("a",), became=2), {"a": 2}, {}),
        (Loss(("a",), became=2), {"a": 3}, {"a": 3}),
        (Loss(("a", "b"), 1), {"a": {}}, {"a": {"b": 1}}),
        (Loss(("a", "b"), 1), {"a": 3}, {"a": 3}),
        (Loss(("a", "b"), 1), {}, {}),
        (Loss(("a", {"n": 1}), {"n": 1}, position=0), {"a": [{"n": 2}]}, {"a": [{"n": 1}, {"n": 2}]}),
        (Loss(("a", {"n": 1}), {"n": 1}, position=9), {"a": [{"n": 2}]}, {"a": [{"n": 2}, {"n": 1}]}),
        (Loss(("a", {"n": 1}), {"n": 1}), {"a": [{"n": 2}]}, {"a": [{"n": 2}, {"n": 1}]}),
        (Loss(("a", {"n": 1}), {"n": 1, "x": 1}), {"a": [{"n": 1}]}, {"a": [{"n": 1}]}),
        (Loss(("a", {"n": 1})), {"a": []}, {"a": []}),
        (Loss(("a", {"n": 1}), {"n": 1}), {"a": {}}, {"a": {}}),
        (Loss(("a", {"n": 1}, "x"), 5), {"a": [{"n": 2}, {"n": 1}]}, {"a": [{"n": 2}, {"n": 1, "x": 5}]}),
        (Loss(("a", {"n": 1}, "x"), 5), {"a": [3]}, {"a": [3]}),
        (Loss(("a", {"n": 1, "m": 2}), {"n": 1, "m": 2}), {"a": [{"n": 1}]}, {"a": [{"n": 1}, {"n": 1, "m": 2}]}),
    ],
)
def test_a_loss_is_restored_where_its_place_is_unchanged(loss: Loss, value: Any, expected: Any) -> None:
    given = deepcopy(value)
    assert put_back(given, [loss]) == expected
    assert given == value, "what was given stays as it was"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (None, 0),
        (3, 0),
        ("", 0),
        ("{", 0),
        ("{}", 0),
        ('[{"at": ["a"], "was": 1}]', 1),
        ('[3, {"at": []}, {"at": "a"}, {}, {"at": ["a", 3]}, {"at": [{"n": 1}]}]', 0),
        ('[{"at": ["metadata", "x"], "was": 1}, {"at": ["kind"]}, {"at": ["apiVersion"]}]', 0),
        ('[{"at": ["a"], "position": "x"}, {"at": ["b"], "position": 2}]', 1),
    ],
)
def test_a_damaged_record_of_losses_is_read_as_far_as_it_goes(text: Any, count: int) -> None:
    assert len(read(text)) == count


@pytest.mark.parametrize(
    ("path", "text"),
    [(("a",), "a"), (("a", "b"), "a.b"), (("a", {"n": 1, "m": "x"}, "b"), "a[n=1,m=x].b")],
)
def test_the_path_of_a_loss_is_spelled(path: Any, text: str) -> None:
    assert Loss(path).spelled() == text
