"""What a kube-apiserver answers to plain HTTP where a client could rely on more, or fear less (RUN-8, RUN-9)."""

from typing import Final

from tests.conformance.test_builtin_rules import Place, place

__all__ = ["place"]

CONFIG: Final = ("v1", "ConfigMap", "configmaps")
JSON_PATCH: Final = "application/json-patch+json"


# --- lists -----------------------------------------------------------------------------------------------------------


def test_items_of_a_list_of_a_built_in_kind_do_not_say_what_they_are(place: Place) -> None:
    place.create(*CONFIG, data={"k": "v"})
    for accept in ("application/json", "application/yaml"):
        answer = place.wire.send("GET", place.url("v1", "configmaps"), accept=accept)
        assert answer.status == 200
        assert b"ConfigMapList" in answer.raw
        assert b"ConfigMap\"" not in answer.raw.replace(b"ConfigMapList\"", b""), accept
        assert b"kind: ConfigMap\n" not in answer.raw, accept


def test_the_items_of_a_list_of_a_custom_kind_and_a_single_object_do(place: Place) -> None:
    place.create(*CONFIG)
    one = place.wire.send("GET", place.url(*CONFIG[::2], "a"))
    assert (one.json["kind"], one.json["apiVersion"]) == ("ConfigMap", "v1")
    rows = place.wire.send(
        "GET", place.url(*CONFIG[::2]), accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    )
    assert {item["kind"] for item in rows.json["items"]} == {"PartialObjectMetadata"}


# --- JSON patches ----------------------------------------------------------------------------------------------------


def test_a_JSON_patch_replaces_and_copies_a_member_that_is_not_there(place: Place) -> None:
    place.create(*CONFIG, data={"k": "v"})
    url = place.url(*CONFIG[::2], "a")
    replaced = place.patch(url, [{"op": "replace", "path": "/data/new", "value": "x"}], JSON_PATCH)
    assert (replaced.status, replaced.json["data"]) == (200, {"k": "v", "new": "x"})
    copied = place.patch(url, [{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}], JSON_PATCH)
    assert (copied.status, copied.json["metadata"].get("annotations")) == (200, None)
    for operation in (
        {"op": "replace", "path": "/nothing/new", "value": "x"},
        {"op": "remove", "path": "/data/nothing"},
        {"op": "move", "from": "/data/nothing", "path": "/data/k"},
    ):
        assert place.patch(url, [operation], JSON_PATCH).status == 422, operation
