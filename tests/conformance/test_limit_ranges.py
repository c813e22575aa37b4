"""What LimitRanges add to containers, and which pods and claims they refuse, on both servers (RUN-8, RUN-9)."""

from typing import Any, Final

import pytest

from tests.conformance.test_builtin_rules import Place, place, refused
from tests.conformance.test_pod_admission import PODS, forbidden, pod
from tests.support.plain_http import until
from tests.support.server_thread import Answer

__all__ = ["place"]

ANNOTATION: Final = "kubernetes.io/limit-ranger"
CLAIMS: Final = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims")


def limit(place: Place, *limits: dict[str, Any], query: str = "") -> Answer:
    body = {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}
    return place.wire.send("POST", place.url("v1", "limitranges") + query, body)


def limited(place: Place, *limits: dict[str, Any]) -> None:
    """The limits of a namespace in which nothing was created so far, so that a real server looks for them at once."""
    made = limit(place, *limits)
    assert made.status == 201, made.json["message"]


def claim(place: Place, size: str, name: str = "a") -> Answer:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return place.create(*CLAIMS, metadata={"name": name}, spec=spec)


def cpu(request: str, most: str = "") -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": request}, **({"limits": {"cpu": most}} if most else {})}}


# --- defaults --------------------------------------------------------------------------------------------------------


def test_containers_get_the_amounts_that_they_lack(place: Place) -> None:
    default = {"cpu": "500m", "memory": "256Mi"}
    limited(place, {"type": "Container", "default": default, "defaultRequest": {"cpu": "100m"}})
    first = {"name": "i", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    made = pod(place, initContainers=[first])
    assert made.status == 201, made.json["message"]
    (container,), (init,) = made.json["spec"]["containers"], made.json["spec"]["initContainers"]
    assert container["resources"] == {"limits": default, "requests": {"cpu": "100m", "memory": "256Mi"}}
    whole = {"cpu": "1", "memory": "256Mi"}
    assert init["resources"] == {"limits": whole, "requests": whole}
    assert made.json["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; memory request"
        " for init container i; memory limit for init container i"
    )
    assert made.json["status"]["qosClass"] == "Burstable"
    owned = made.json["metadata"]["managedFields"][0]["fieldsV1"]
    assert "f:annotations" not in owned.get("f:metadata", {}), "they are the server's"


def test_a_container_that_has_all_amounts_is_left_alone(place: Place) -> None:
    limited(place, {"type": "Container", "default": {"cpu": "2"}})
    made = pod(place, container=cpu("1", "1"))
    assert "annotations" not in made.json["metadata"]
    assert made.json["spec"]["containers"][0]["resources"] == cpu("1", "1")["resources"]


# --- limits of containers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "container", "why"),
    [
        ({"min": {"cpu": "200m"}}, cpu("100m"), "minimum cpu usage per Container is 200m, but request is 100m"),
        (
            {"min": {"cpu": "200m"}, "defaultRequest": {"memory": "1Mi"}},
            cpu("0", "100m"),
            "minimum cpu usage per Container is 200m, but request is 0",
        ),
        ({"max": {"cpu": "1"}}, cpu("1", "1500m"), "maximum cpu usage per Container is 1, but limit is 1500m"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            cpu("300m", "1"),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            cpu("1"),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, cpu("2", "3"), ""),
        ({"min": {"cpu": "200m"}, "max": {"cpu": "1"}}, {}, ""),
        ({"min": {"memory": "1Gi"}}, {"resources": {"requests": {"memory": "1073741824"}}}, ""),
    ],
)  # fmt: skip
def test_a_container_keeps_to_its_limits(
    place: Place, limits: dict[str, Any], container: dict[str, Any], why: str
) -> None:
    limited(place, {"type": "Container", **limits})
    for query in ("?dryRun=All", ""):
        made = pod(place, query=query, container=container)
        if why:
            assert forbidden(made) == why
        else:
            assert made.status == 201, made.json["message"]


def test_every_problem_of_every_container_is_named_once(place: Place) -> None:
    limited(place, {"type": "Container", "max": {"cpu": "1"}})
    more = [{"name": name, "image": "i", **cpu("1", most)} for name, most in (("d", "2"), ("e", "3"))]
    body = {"metadata": {"name": "a"}, "spec": {"containers": more, "initContainers": [{**more[0], "name": "i"}]}}
    text = "maximum cpu usage per Container is 1, but limit is"
    assert forbidden(place.wire.send("POST", place.url(*PODS), body)) == f"[{text} 2, {text} 3]"


def test_an_invalid_pod_is_invalid_before_it_is_too_large(place: Place) -> None:
    limited(place, {"type": "Container", "max": {"cpu": "1"}})
    assert pod(place, container={**cpu("2", "2"), "image": ""}).status == 422


# --- limits of pods --------------------------------------------------------------------------------------------------


def init(name: str, request: str, **more: str) -> dict[str, Any]:
    return {"name": name, "image": "i", **cpu(request), **more}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"container": cpu("1500m", "2")}, "maximum cpu usage per Pod is 1, but limit is 2"),
        ({"container": cpu("500m", "1"), "initContainers": [init("i", "600m")]}, ""),
        (
            {"container": cpu("500m", "1"), "initContainers": [init("i", "600m", restartPolicy="Always")]},
            "maximum cpu usage per Pod is 1, but request is 1100m",
        ),
        (
            {
                "container": cpu("100m", "1"),
                "initContainers": [init("i", "900m"), init("j", "500m", restartPolicy="Always")],
            },
            "",
        ),
        (
            {
                "container": cpu("100m", "1"),
                "initContainers": [init("j", "500m", restartPolicy="Always"), init("i", "900m")],
            },
            "maximum cpu usage per Pod is 1, but request is 1400m",
        ),
        ({"container": cpu("1")}, "maximum cpu usage per Pod is 1.  No limit is specified"),
    ],
)
def test_a_pod_keeps_to_its_limits_with_all_its_containers(place: Place, spec: dict[str, Any], why: str) -> None:
    limited(place, {"type": "Pod", "max": {"cpu": "1"}})
    made = pod(place, **spec)
    if why:
        assert forbidden(made) == why
    else:
        assert made.status == 201, made.json["message"]


def test_a_pod_may_have_to_ask_for_something(place: Place) -> None:
    limited(place, {"type": "Pod", "min": {"memory": "1Gi"}})
    assert forbidden(pod(place)) == "minimum memory usage per Pod is 1Gi.  No request is specified"
    small = {"resources": {"requests": {"memory": "512Mi"}}}
    why = "minimum memory usage per Pod is 1Gi, but request is 512Mi"
    assert forbidden(pod(place, container=small)) == why


def test_a_pod_that_is_there_may_still_change(place: Place) -> None:
    assert pod(place).status == 201
    limited(place, {"type": "Pod", "min": {"cpu": "1"}})
    until(lambda: pod(place, "probe", "?dryRun=All").status == 403)
    changed = place.patch(place.url(*PODS, "a"), {"metadata": {"labels": {"a": "b"}}})
    assert changed.status == 200


# --- claims ----------------------------------------------------------------------------------------------------------


def test_a_claim_keeps_to_its_limits(place: Place) -> None:
    limited(place, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    text = "usage per PersistentVolumeClaim is"
    assert forbidden(claim(place, "1")) == f"minimum storage {text} 1Gi, but request is 1"
    assert forbidden(claim(place, "3Gi")) == f"maximum storage {text} 2Gi, but request is 3Gi"
    assert claim(place, "2Gi").status == 201


def test_every_change_of_a_claim_is_held_to_its_limits(place: Place) -> None:
    assert claim(place, "3Gi").status == 201
    limited(place, {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}})
    until(lambda: claim(place, "3Gi", "b").status == 403)
    url, label = place.url("v1", "persistentvolumeclaims", "a"), {"metadata": {"labels": {"a": "b"}}}
    why = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    assert forbidden(place.patch(url, label)) == why
    assert place.patch(f"{url}/status", {"status": {"phase": "Lost"}}).status == 200
    assert place.wire.send("DELETE", url).status == 200
    assert place.patch(url, label).status == 200, "it is going: what removes its finalizer must not fail"


# --- what a LimitRange may say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([{"type": "Foo"}], {"[0].type: must be a standard limit type or fully qualified"}),
        ([{"type": "example.com/foo"}], set()),
        ([{"type": "Pod"}, {"type": "Pod"}], {'[1].type: "Pod"'}),
        (
            [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
            {
                "[0].min[cpu]: min value 2 is greater than max value 1",
                "[0].default[cpu]: min value 2 is greater than default value 1",
                "[0].defaultRequest[cpu]: min value 2 is greater than default request value 1",
            },
        ),
        (
            [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}, "max": {"cpu": "1"}}],
            {
                "[0].default[cpu]: default value 2 is greater than max value 1",
                "[0].defaultRequest[cpu]: default request value 3 is greater than max value 1",
                "[0].defaultRequest[cpu]: default request value 3 is greater than default limit value 2",
            },
        ),
        (
            [{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}],
            {
                "[0].default: may not be specified when `type` is 'Pod'",
                "[0].defaultRequest: may not be specified when `type` is 'Pod'",
            },
        ),
        (
            [{"type": "PersistentVolumeClaim", "default": {"storage": "1"}}],
            {"[0].limits: either minimum or maximum storage value is required, but neither was provided"},
        ),
        ([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}], {
            "[0].maxLimitRequestRatio[cpu]: ratio 500m is less than 1"
        }),
        ([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "3"}, "min": {"cpu": "1"}, "max": {"cpu": "2"}}], {
            "[0].maxLimitRequestRatio[cpu]: ratio 3 is greater than max/min = 2.000000"
        }),
        ([{"type": "Container", "default": {"example.com/g": "2"}, "defaultRequest": {"example.com/g": "1"}}], {
            "[0].defaultRequest[example.com/g]: default value 2 must equal to defaultRequest value 1 in example.com/g"
        }),
        ([{"type": "Container", "max": {"storage": "1"}}], {
            f"[0].{key}[storage]: must be a standard resource for containers"
            for key in ("max", "default", "defaultRequest")
        }),
        ([{"type": "Pod", "max": {"foo": "1"}}], {
            "[0].max[foo]: must be a standard resource type or fully qualified",
            "[0].max[foo]: must be a standard resource for containers",
        }),
        ([{"type": "PersistentVolumeClaim", "max": {"storage": "1", "pods": "1"}}], set()),
    ],
)  # fmt: skip
def test_limits_that_no_pod_can_keep_to_are_refused(
    place: Place, limits: list[dict[str, Any]], expected: set[str]
) -> None:
    made = limit(place, *limits, query="?dryRun=All")
    if not expected:
        assert made.status == 201, made.json["message"]
        return
    shown = {(field.removeprefix("spec.limits"), text.rpartition(": ")[2]) for field, text in refused(made)}
    assert sorted(f"{field}: {text}" for field, text in shown) == sorted(expected)
