"""What a kube-apiserver answers to plain HTTP where a client could rely on more, or fear less (RUN-8, RUN-9)."""

from typing import Any, Final

from tests.conformance.test_builtin_rules import Place, place, refused

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


# --- a state that is not reached yet ----------------------------------------------------------------------------------


def test_a_get_is_not_answered_from_before_its_resourceVersion(place: Place) -> None:
    """W-03: also of an object that is not there."""
    version = place.create(*CONFIG).json["metadata"]["resourceVersion"]
    url = place.url(*CONFIG[::2], "a")
    assert [place.wire.send("GET", f"{url}?resourceVersion={old}").status for old in ("0", version)] == [200, 200]
    for where in (url, place.url(*CONFIG[::2], "none")):
        early = place.wire.send("GET", f"{where}?resourceVersion=999999999")
        assert (early.status, early.json["reason"], early.headers["retry-after"]) == (504, "Timeout", "1")
        assert [cause["reason"] for cause in early.json["details"]["causes"]] == ["ResourceVersionTooLarge"]
    odd = place.wire.send("GET", f"{url}?resourceVersion=abc")
    assert (odd.status, "reason" in odd.json) == (500, False)


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


# --- strategic merge patches -----------------------------------------------------------------------------------------


def named(names: str) -> list[dict[str, str]]:
    """Variables; an upper-case name is one that is to be deleted."""
    return [{"name": n.lower(), **({"$patch": "delete"} if n.isupper() else {"value": "v"})} for n in names]


STRATEGIC: Final = (
    # variables, those in the patch, $setElementOrder, result
    ("ab", "c", None, "cab"), ("ab", "b", None, "ab"), ("ab", "ba", None, "ba"), ("abc", "cd", None, "abcd"),
    ("ab", "", "ba", "ba"), ("abc", "d", "bd", "abdc"), ("de", "fa", "fae", "fade"), ("deb", "faB", "fae", "dfae"),
    ("bce", "gB", "gfac", "egc"), ("aba", "c", None, "caab"), ("", "a", "ab", "a"), ("", "ab", None, "ab"),
)  # fmt: skip


def test_the_order_of_a_list_after_a_strategic_merge_patch(place: Place) -> None:
    """The patch's items in their order, all others in theirs; which comes first, the list before it tells."""
    for number, (before, patch, order, after) in enumerate(STRATEGIC):
        body = {"metadata": {"name": f"s{number}"}, "spec": deployment(container={"env": named(before)})}
        assert place.wire.send("POST", place.url(*APPS), body).status == 201
        given = {"$setElementOrder/env": [{"name": name} for name in order]} if order else {}
        container = {"name": "c", **given, **({"env": named(patch)} if patch else {})}
        merged = place.patch(
            place.url(*APPS, f"s{number}"),
            {"spec": {"template": {"spec": {"containers": [container]}}}},
            "application/strategic-merge-patch+json",
        )
        assert merged.status == 200, merged.json["message"]
        stored = merged.json["spec"]["template"]["spec"]["containers"][0]["env"]
        assert "".join(variable["name"] for variable in stored) == after, (before, patch, order)


def test_a_strategic_merge_patch_in_another_order_than_it_says_fails(place: Place) -> None:
    body = {"metadata": {"name": "s"}, "spec": deployment(container={"env": named("a")})}
    assert place.wire.send("POST", place.url(*APPS), body).status == 201
    container = {"name": "c", "env": named("ab"), "$setElementOrder/env": [{"name": "b"}, {"name": "a"}]}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    answer = place.patch(place.url(*APPS, "s"), patch, "application/strategic-merge-patch+json")
    assert (answer.status, answer.json["message"]) == (
        500,
        "The order in patch list:\n[map[name:a value:v] map[name:b value:v]]\n doesn't match $setElementOrder list:\n"
        "[map[name:b] map[name:a]]\n",
    )


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


DOUBLE: Final[dict[str, dict[str, Any]]] = {
    '.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply': {
        "container": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    },
    "": {"container": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"}]}},
    ".containers[0].ports[1]: duplicate port definition with {0}.containers[0].ports[0]": {
        "container": {"ports": [{"containerPort": 80}, {"containerPort": 80}]}
    },
    ".containers[0].ports[1]: overlapping port definition with {0}.containers[0].ports[0]": {
        "container": {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80}]}
    },
    '.hostAliases[1].ip: duplicate ip "1.1.1.1"': {"pod": {"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}},
    '.imagePullSecrets[1].name: duplicate name "a"': {"pod": {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}},
    ".terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1": {
        "template": {"terminationGracePeriodSeconds": -1}
    },
    '.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer': {
        "container": {"resources": {"requests": {"memory": "100m"}}}
    },
}


def test_duplicates_in_the_lists_of_a_pod_are_warnings(place: Place) -> None:
    """Most clients do not show them, so that kube-apiserver still takes what it always took."""
    for number, (text, given) in enumerate(DOUBLE.items()):
        spec = {"containers": [{"name": "c", "image": "i", **given.get("container", {})}], **given.get("pod", {})}
        in_template = {**spec, **given.get("template", {})}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": in_template}
        for plural, where, body in (
            ("pods", "spec", spec),
            ("deployments", "spec.template.spec", {"selector": {"matchLabels": {"a": "b"}}, "template": template}),
        ):
            url = place.url("v1" if plural == "pods" else "apps/v1", plural)
            made = place.wire.send("POST", url, {"metadata": {"name": f"d{number}"}, "spec": body})
            assert made.status == 201, made.json["message"]
            shown = f"{where}{text.format(where)}".replace('"', r"\"")
            warned = text and (plural == "deployments" or "template" not in given)
            assert made.headers.get("warning") == (f'299 - "{shown}"' if warned else None)


def test_a_workload_warns_again_when_its_spec_changes_and_not_otherwise(place: Place) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert "warning" in place.create(*KIND, spec=deployment(container={"env": env})).headers
    url = place.url(*APPS, "a")
    assert "warning" not in place.patch(url, {"metadata": {"labels": {"a": "b"}}}).headers
    assert "warning" in place.patch(url, {"spec": {"replicas": 2}}).headers
    assert "warning" not in place.patch(f"{url}/status", {"status": {"replicas": 2}}).headers


def test_the_duplicates_that_are_refused(place: Place) -> None:
    one = {"name": "c", "image": "i"}
    mounts = [{"name": "v", "mountPath": "/a"}] * 2
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    for spec, field, text in (
        ({"containers": [one, one]}, "containers[1].name", 'Duplicate value: "c"'),
        ({"initContainers": [one]}, "initContainers[0].name", 'Duplicate value: "c"'),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "volumes[1].name", 'Duplicate value: "v"'),
        (
            {"volumes": [{"name": "v"}], "containers": [{**one, "volumeMounts": mounts}]},
            "containers[0].volumeMounts[1].mountPath",
            'Invalid value: "/a": must be unique',
        ),
        (
            {"containers": [{**one, "ports": [{"containerPort": port, "hostPort": 9} for port in (1, 2)]}]},
            "containers[0].ports[1].hostPort",
            'Duplicate value: "TCP//9"',
        ),
        (
            {"topologySpreadConstraints": [spread, spread]},
            "topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
            'Duplicate value: "{zone, DoNotSchedule}"',
        ),
        ({"schedulingGates": [{"name": "a.b/c"}] * 2}, "schedulingGates[1]", 'Duplicate value: "a.b/c"'),
    ):
        answer = place.create("v1", "Pod", "pods", spec={"containers": [one], **spec})
        assert refused(answer) == [(f"spec.{field}", text)]
    ports = [{"name": name, "port": 80} for name in "ab"]
    (cause,) = refused(place.create("v1", "Service", "services", spec={"ports": ports}))
    assert cause[0] == "spec.ports[1]"
