"""What a kube-apiserver answers to plain HTTP where a client could rely on more, or fear less (RUN-8, RUN-9)."""

from typing import Any, Final

from tests.conformance.test_builtin_rules import Place, place

__all__ = ["place"]

CONFIG: Final = ("v1", "ConfigMap", "configmaps")
JSON_PATCH: Final = "application/json-patch+json"
KIND: Final = ("apps/v1", "Deployment", "deployments")
APPLY: Final = "application/apply-patch+yaml"
MEANT: Final = {"apiVersion": "apps/v1", "kind": "Deployment"}
APPS: Final = ("apps/v1", "deployments")


# --- lists -----------------------------------------------------------------------------------------------------------


def test_items_of_a_list_of_a_built_in_kind_do_not_say_what_they_are(place: Place) -> None:
    place.create(*CONFIG, data={"k": "v"})
    for accept in ("application/json", "application/yaml"):
        answer = place.wire.send("GET", place.url("v1", "configmaps"), accept=accept)
        assert answer.status == 200
        assert b"ConfigMapList" in answer.raw
        assert b'ConfigMap"' not in answer.raw.replace(b'ConfigMapList"', b""), accept
        assert b"kind: ConfigMap\n" not in answer.raw, accept


def test_the_items_of_a_list_of_a_custom_kind_and_a_single_object_do(place: Place) -> None:
    place.create(*CONFIG)
    one = place.wire.send("GET", place.url(*CONFIG[::2], "a"))
    assert (one.json["kind"], one.json["apiVersion"]) == ("ConfigMap", "v1")
    rows = place.wire.send(
        "GET", place.url(*CONFIG[::2]), accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    )
    assert {item["kind"] for item in rows.json["items"]} == {"PartialObjectMetadata"}


# --- paths that are not served ---------------------------------------------------------------------------------------


def test_a_group_of_built_in_kinds_says_in_a_Status_what_it_does_not_serve(place: Place) -> None:
    for path in ("/api/v9", "/api/v1/foos", "/apis/apps/v9", "/apis/apps/v9/deployments", "/apis/apps/v1/foos"):
        answer = place.wire.send("GET", path)
        assert (answer.status, answer.json["reason"]) == (404, "NotFound"), path
        assert answer.json["message"] == "the server could not find the requested resource"
    for path in ("/apis/nothing.example.com", "/apis/nothing.example.com/v1", "/apis/nothing.example.com/v1/foos"):
        answer = place.wire.send("GET", path)
        assert (answer.status, answer.raw) == (404, b"404 page not found\n"), path


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


# --- values that a Go type writes its own way ------------------------------------------------------------------------


def deployment(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", **spec.pop("container", {})}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}


QUANTITIES: Final[dict[Any, str]] = {
    "1000m": "1", "0.5": "500m", "1.50": "1500m", "100u": "1m", "2.0": "2", "1000": "1k", "1.5Gi": "1536Mi",
    "1024Mi": "1Gi", "1.1Gi": "1181116006400m", "1e3": "1e3", "01": "01", "5Mi": "5Mi",
}  # fmt: skip


def test_amounts_of_resources_come_back_in_canonical_form(place: Place) -> None:
    for sent, stored in (*QUANTITIES.items(), (1, "1"), (0.5, "500m"), (1000, "1k"), (None, "0")):
        body = {"metadata": {"name": "q"}, "spec": deployment(container={"resources": {"limits": {"cpu": sent}}})}
        answer = place.wire.send("POST", f"{place.url(*APPS)}?dryRun=All", body)
        assert answer.status == 201, answer.json["message"]
        limits = answer.json["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {"cpu": stored}, sent


def test_text_that_is_no_amount_is_refused(place: Place) -> None:
    for sent in ("abc", "", "1_0", True):
        answer = place.create(*KIND, spec=deployment(container={"resources": {"limits": {"cpu": sent}}}))
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert "quantities must match the regular expression" in answer.json["message"]


def test_an_amount_that_is_applied_again_changes_nothing(place: Place) -> None:
    container = {"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}
    body = {**MEANT, "metadata": {"name": "w"}, "spec": deployment(container=container)}
    url = f"{place.url(*APPS, 'w')}?fieldManager=m"
    first, second = (place.patch(url, body, APPLY) for _ in range(2))
    assert (first.status, second.status) == (201, 200)
    limits = second.json["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "memory": "1Gi"}
    assert second.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]


def test_a_null_in_a_map_of_texts_is_the_empty_text(place: Place) -> None:
    body = {"metadata": {"name": "n", "labels": {"l": None}, "annotations": {"a": None}}, "data": {"k": None}}
    made = place.wire.send("POST", place.url(*CONFIG[::2]), body)
    assert (made.status, made.json["data"]) == (201, {"k": ""})
    assert (made.json["metadata"]["labels"], made.json["metadata"]["annotations"]) == ({"l": ""}, {"a": ""})


def test_a_whole_number_with_a_fraction_is_no_integer_in_JSON(place: Place) -> None:
    body = {"metadata": {"name": "w"}, "spec": deployment(replicas=2.0)}
    answer = place.wire.send("POST", place.url(*APPS), body)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert (
        place.wire.send("POST", place.url(*APPS), body, content_type="application/yaml").json["spec"]["replicas"] == 2
    )
    url = place.url(*APPS, "w")
    assert place.patch(url, {"spec": {"replicas": 3.0}}).status == 422
    assert place.patch(url, [{"op": "replace", "path": "/spec/replicas", "value": 3.0}], JSON_PATCH).status == 422
    strategic = place.patch(url, {"spec": {"replicas": 3.0}}, "application/strategic-merge-patch+json")
    assert strategic.json["spec"]["replicas"] == 3


def test_empty_maps_and_lists_of_a_built_in_kind_are_left_out(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e", "labels": {}}, "data": {}}
    url = f"{place.url(*CONFIG[::2], 'e')}?fieldManager=m"
    versions = {place.patch(url, body, APPLY).json["metadata"]["resourceVersion"] for _ in range(3)}
    assert len(versions) == 1, "an apply that changes nothing writes nothing"
    assert "data" not in place.wire.send("GET", url).json
    container = {"env": [], "resources": {"limits": {}}, "securityContext": {}}
    made = place.create(*KIND, spec=deployment(container=container))
    stored = made.json["spec"]["template"]["spec"]["containers"][0]
    assert ("env" in stored, stored["resources"], stored["securityContext"]) == (False, {}, {})
    role = place.create("rbac.authorization.k8s.io/v1", "Role", "roles", rules=[])
    assert not role.json["rules"], "the one list without omitempty"


# --- lists with duplicates -------------------------------------------------------------------------------------------


def test_a_finalizer_may_be_there_twice_and_one_owner_under_two_names(place: Place) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "1"} for name in ("a", "b")]
    body = {"metadata": {"name": "d", "finalizers": ["a.b/c", "a.b/c"], "ownerReferences": owners}}
    made = place.wire.send("POST", place.url(*CONFIG[::2]), body)
    assert (made.status, made.json["metadata"]["finalizers"]) == (201, ["a.b/c", "a.b/c"])
    assert [owner["name"] for owner in made.json["metadata"]["ownerReferences"]] == ["a", "b"]
    url = place.url(*CONFIG[::2], "d")
    assert place.wire.send("DELETE", url).status == 200
    assert place.patch(url, {"metadata": {"finalizers": ["a.b/c"]}}).status == 200
    assert place.patch(url, {"metadata": {"finalizers": None}}).status == 200
    assert place.wire.send("GET", url).status == 404
