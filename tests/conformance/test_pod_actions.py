"""What binds a pod to a node and evicts it, as a scheduler and `kubectl drain` do (RUN-8, RUN-9)."""

import json
from typing import Any, Final

from tests.conformance.test_builtin_rules import Place, place
from tests.support.server_thread import Answer

__all__ = ["place"]

PODS: Final = ("v1", "pods")
BUDGETS: Final = ("policy/v1", "poddisruptionbudgets")
NO_ROOM: Final = "Cannot evict pod as it would violate the pod's disruption budget."
DONE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def pod(place: Place, name: str, *, ready: str = "", **spec: Any) -> None:
    """A pod with its name as label `a`; with `ready` it runs, and is ready or not."""
    body: dict[str, Any] = {"metadata": {"name": name, "labels": {"a": name}}}
    body |= {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    assert place.wire.send("POST", place.url(*PODS), body).status == 201
    if ready:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        assert place.patch(f"{place.url(*PODS, name)}/status", {"status": status}).status == 200


def budget(place: Place, name: str, of: str, **status: int) -> None:
    """A budget of one pod, with a status as the disruption controller writes it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": of}}}
    made = place.wire.send("POST", place.url(*BUDGETS), {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201
    whole = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, **status}
    assert place.patch(f"{place.url(*BUDGETS, name)}/status", {"status": whole}).status == 200


def act(place: Place, name: str, what: str, query: str = "", **fields: Any) -> Answer:
    return place.wire.send("POST", f"{place.url(*PODS, name)}/{what}{query}", {"metadata": {"name": name}, **fields})


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["message"]


def causes(answer: Answer) -> tuple[int, str, list[str]]:
    return *said(answer), [cause["message"] for cause in answer.json["details"]["causes"]]


# --- binding ---------------------------------------------------------------------------------------------------------


def test_a_pod_is_bound_to_a_node_once(place: Place) -> None:
    pod(place, "a")
    target = {"kind": "Node", "name": "n1"}
    assert act(place, "a", "binding", "?dryRun=All", target=target).json == DONE
    bound = act(place, "a", "binding", target=target, metadata={"name": "a", "annotations": {"x": "y"}})
    assert bound.json == DONE

    live = place.wire.send("GET", place.url(*PODS, "a")).json
    assert (live["spec"]["nodeName"], live["metadata"]["annotations"]) == ("n1", {"x": "y"})
    assert [(each["type"], each["status"]) for each in live["status"]["conditions"]] == [("PodScheduled", "True")]
    assert live["metadata"]["generation"] == 1
    why = 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    assert said(act(place, "a", "binding", target=target)) == (409, why)


def test_a_binding_that_cannot_be_is_refused(place: Place) -> None:
    pod(place, "a")
    kinds = 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'
    assert said(act(place, "a", "binding", target={})) == (500, "target.name: Required value")
    assert said(act(place, "a", "binding", target={"kind": "Pod", "name": "n1"})) == (500, kinds)
    assert said(act(place, "none", "binding", target={"name": "n1"})) == (404, 'pods "none" not found')
    other = act(place, "a", "binding", target={"name": "n1"}, metadata={"name": "b"})
    assert said(other) == (400, "name in URL does not match name in Binding object")
    wrong = act(place, "a", "binding", apiVersion="v1", kind="Pod")
    assert said(wrong)[1].endswith("converting (v1.Pod) to (core.Binding): unknown conversion")
    for method in ("GET", "PUT"):
        assert (
            place.wire.send(method, f"{place.url(*PODS, 'a')}/binding", {} if method == "PUT" else None).status == 405
        )


def test_a_pod_that_is_being_deleted_is_bound_to_no_node(place: Place) -> None:
    pod(place, "a")
    place.patch(place.url(*PODS, "a"), {"metadata": {"finalizers": ["example.com/hold"]}})
    place.wire.send("DELETE", place.url(*PODS, "a"))
    why = 'Operation cannot be fulfilled on pods/binding "a": pod a is being deleted, cannot be assigned to a host'
    assert said(act(place, "a", "binding", target={"name": "n1"})) == (409, why)
    place.patch(place.url(*PODS, "a"), {"metadata": {"finalizers": None}})


# --- deletion --------------------------------------------------------------------------------------------------------


def delete(place: Place, name: str = "a", **options: Any) -> Any:
    """The grace period and the generation of what a DELETE answers."""
    answer = place.wire.send("DELETE", place.url(*PODS, name), options)
    assert answer.status == 200
    meta = answer.json["metadata"]
    assert "deletionTimestamp" in meta
    return meta["deletionGracePeriodSeconds"], meta["generation"]


def there(place: Place, name: str = "a") -> bool:
    status = place.wire.send("GET", place.url(*PODS, name)).status
    assert status in (200, 404)
    return status == 200


def test_a_pod_on_a_node_stays_until_its_kubelet_deletes_it_without_grace(place: Place) -> None:
    """W-40"""
    pod(place, "a", nodeName="n1")
    assert delete(place, dryRun=["All"]) == (30, 2)
    assert "deletionTimestamp" not in place.wire.send("GET", place.url(*PODS, "a")).json["metadata"]
    assert delete(place) == (30, 2)
    assert delete(place, gracePeriodSeconds=60) == (30, 2), "a grace period only becomes shorter"
    assert delete(place, gracePeriodSeconds=5) == (5, 2)
    assert delete(place) == (5, 2)
    assert there(place)
    assert place.patch(place.url(*PODS, "a"), {"metadata": {"labels": {"still": "there"}}}).status == 200
    assert there(place)
    assert delete(place, gracePeriodSeconds=0) == (0, 2)
    assert not there(place)


def test_the_grace_of_a_pod_is_what_the_client_or_its_spec_says(place: Place) -> None:
    """W-40"""
    cases: list[tuple[dict[str, Any], dict[str, Any], int]] = [
        ({"terminationGracePeriodSeconds": 7}, {}, 7),
        ({"terminationGracePeriodSeconds": 0}, {}, 0),
        ({}, {"gracePeriodSeconds": 3}, 3),
        ({}, {"gracePeriodSeconds": -1}, 1),
        ({}, {"gracePeriodSeconds": 0}, 0),
    ]
    for number, (spec, options, grace) in enumerate(cases):
        pod(place, f"p{number}", nodeName="n1", **spec)
        assert delete(place, f"p{number}", **options) == (grace, 2)
        assert there(place, f"p{number}") == (grace > 0)
    pod(place, "query", nodeName="n1")
    answer = place.wire.send("DELETE", f"{place.url(*PODS, 'query')}?gracePeriodSeconds=9")
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 9
    for query, body in (("?gracePeriodSeconds=x", None), ("", {"gracePeriodSeconds": "x"})):
        assert place.wire.send("DELETE", place.url(*PODS, "query") + query, body).status == 400


def test_a_pod_without_a_node_or_at_its_end_has_no_grace_and_is_shown_marked_first(place: Place) -> None:
    """W-40"""
    pod(place, "a")
    made = place.wire.send("GET", place.url(*PODS, "a")).json["metadata"]["resourceVersion"]
    pod(place, "b", nodeName="n1")
    assert place.patch(f"{place.url(*PODS, 'b')}/status", {"status": {"phase": "Succeeded"}}).status == 200
    assert (delete(place), delete(place, "b")) == ((0, 2), (0, 2))
    assert not there(place)
    assert not there(place, "b")
    url = f"{place.url(*PODS)}?watch=true&resourceVersion={made}&timeoutSeconds=1&fieldSelector=metadata.name=a"
    events = [json.loads(line) for line in place.wire.send("GET", url).raw.splitlines()]
    seen = [(event["type"], event["object"]["metadata"].get("deletionGracePeriodSeconds")) for event in events]
    assert seen == [("MODIFIED", 0), ("DELETED", 0)]


def test_a_pod_with_finalizers_waits_for_them_and_for_its_kubelet(place: Place) -> None:
    """W-40"""
    for name, grace in (("a", 0), ("b", 30)):
        pod(place, name, nodeName="n1")
        url = place.url(*PODS, name)
        assert place.patch(url, {"metadata": {"finalizers": ["a.b/c"]}}).status == 200
        assert delete(place, name, gracePeriodSeconds=grace) == (grace, 2)
        assert there(place, name)
        assert place.patch(url, {"metadata": {"finalizers": None}}).status == 200
        assert there(place, name) == (grace > 0)


def test_an_evicted_pod_on_a_node_is_being_deleted(place: Place) -> None:
    """W-40"""
    pod(place, "a", nodeName="n1")
    assert act(place, "a", "eviction").json == DONE
    assert place.wire.send("GET", place.url(*PODS, "a")).json["metadata"]["deletionGracePeriodSeconds"] == 30


# --- eviction --------------------------------------------------------------------------------------------------------


def test_a_budget_without_room_keeps_a_pod(place: Place) -> None:
    pod(place, "a", ready="True")
    budget(place, "p", "a", disruptionsAllowed=0)
    needs = "The disruption budget p needs 1 healthy pods and has 1 currently"
    assert causes(act(place, "a", "eviction")) == (429, NO_ROOM, [needs])

    place.patch(f"{place.url(*BUDGETS, 'p')}/status", {"status": {"observedGeneration": 0}})
    early = act(place, "a", "eviction")
    assert causes(early) == (429, NO_ROOM, ["The disruption budget p is still being processed by the server."])
    assert early.json["details"]["retryAfterSeconds"] == 10


def test_an_eviction_takes_a_disruption_from_the_budget(place: Place) -> None:
    pod(place, "a", ready="True")
    budget(place, "p", "a", disruptionsAllowed=1)
    assert act(place, "a", "eviction", "?dryRun=All").json == DONE
    assert place.wire.send("GET", place.url(*BUDGETS, "p")).json["status"]["disruptionsAllowed"] == 1
    assert act(place, "a", "eviction").json == DONE

    status = place.wire.send("GET", place.url(*BUDGETS, "p")).json["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    assert [each["reason"] for each in status["conditions"]] == ["InsufficientPods"]
    assert place.wire.send("GET", place.url(*PODS, "a")).status == 404


def test_a_pod_that_serves_nobody_needs_no_room(place: Place) -> None:
    pod(place, "pending")
    budget(place, "p", "pending", disruptionsAllowed=0)
    pod(place, "unready", ready="False")
    budget(place, "q", "unready", disruptionsAllowed=0)
    assert act(place, "pending", "eviction").json == DONE
    assert act(place, "unready", "eviction").json == DONE


def test_an_eviction_that_cannot_be_is_refused(place: Place) -> None:
    pod(place, "a", ready="True")
    budget(place, "p", "a", disruptionsAllowed=1)
    budget(place, "q", "a", disruptionsAllowed=1)
    two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert said(act(place, "a", "eviction")) == (500, two)
    assert said(act(place, "none", "eviction")) == (404, 'pods "none" not found')
    place.wire.send("DELETE", place.url(*BUDGETS, "q"))
    other = act(place, "a", "eviction", deleteOptions={"preconditions": {"uid": "another"}})
    assert other.status == 409
