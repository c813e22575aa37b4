"""Rules of built-in kinds that no schema tells, measured on a kube-apiserver (RUN-8, RUN-9)."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.support.effort import unused_name
from tests.support.plain_http import WIRES
from tests.support.server_thread import Answer, Wire

POD = {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x:1"}]}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@attrs.frozen
class Place:
    """A namespace of the test's own."""

    wire: Wire
    namespace: str

    def url(self, group: str, plural: str, name: str = "") -> str:
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return "/".join(part for part in (f"{root}/namespaces/{self.namespace}", plural, name) if part)

    def create(self, group: str, kind: str, plural: str, **fields: Any) -> Answer:
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, **fields}
        return self.wire.send("POST", self.url(group, plural), body)

    def job(self) -> str:
        """The URL of a Job."""
        assert self.create("batch/v1", "Job", "jobs", spec={"template": {"spec": POD}}).status == 201
        return self.url("batch/v1", "jobs", "a")

    def patch(self, url: str, body: Any, media: str = MERGE) -> Answer:
        return self.wire.send("PATCH", url, body, content_type=media)


@pytest.fixture(params=WIRES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param() as wire:
        name = unused_name("rules")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert wire.send("POST", "/api/v1/namespaces", body).status == 201
        yield Place(wire, name)


def refused(answer: Answer) -> list[tuple[str, str]]:
    """Fields and texts of the causes of a 422."""
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    return [(one["field"], one["message"]) for one in answer.json["details"]["causes"]]


# --- deleting a Job --------------------------------------------------------------------------------------------------


def test_a_job_that_is_deleted_without_a_word_on_its_pods_leaves_them_and_warns(place: Place) -> None:
    url = place.job()

    answer = place.wire.send("DELETE", url)

    assert (answer.status, answer.json["metadata"]["finalizers"]) == (200, ["orphan"])
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["warning"]


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Background", None), ("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])]
)
def test_a_policy_for_its_pods_is_obeyed_without_a_warning(
    place: Place, policy: str, finalizers: list[str] | None
) -> None:
    answer = place.wire.send("DELETE", place.job(), {"propagationPolicy": policy})

    assert (answer.status, answer.json["metadata"].get("finalizers")) == (200, finalizers)
    assert "warning" not in answer.headers


def test_a_namespace_gets_no_grace_period(place: Place) -> None:
    answer = place.wire.send("DELETE", f"/api/v1/namespaces/{place.namespace}")

    assert "deletionTimestamp" in answer.json["metadata"]
    assert "deletionGracePeriodSeconds" not in answer.json["metadata"]


# --- the status of a Job ---------------------------------------------------------------------------------------------


def true(*conditions: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} for kind in conditions]


TIME = "2026-06-01T12:00:00Z"
FIRST = "Invalid value: cannot set {}=True condition without the {}=true condition"
EARLY = "cannot set completionTime when there is no Complete=True condition"
WRONG: dict[str, tuple[dict[str, Any], set[str]]] = {
    "complete without a time": (
        {"conditions": true("SuccessCriteriaMet", "Complete")},
        {"status.completionTime: Required value: completionTime is required for Complete jobs"},
    ),
    "complete out of the blue": (
        {"conditions": true("Complete"), "completionTime": TIME},
        {f"status.conditions: {FIRST.format('Complete', 'SuccessCriteriaMet')}"},
    ),
    "failed out of the blue": (
        {"conditions": true("Failed")},
        {f"status.conditions: {FIRST.format('Failed', 'FailureTarget')}"},
    ),
    "a time without an end": (
        {"completionTime": TIME},
        {f'status.completionTime: Invalid value: "{TIME}": {EARLY}'},
    ),
    "an end at work": (
        {"conditions": true("FailureTarget", "Failed"), "active": 1},
        {"status.active: Invalid value: 1: active>0 is invalid for finished job"},
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_job_has_not_ended_before_all_of_it_has(place: Place, how: str) -> None:
    status, expected = WRONG[how]

    causes = refused(place.patch(place.job() + "/status", {"status": {"startTime": TIME, **status}}))

    assert {f"{field}: {text}" for field, text in causes} == expected


def test_the_end_of_a_job_stays(place: Place) -> None:
    status = place.job() + "/status"
    done = {"startTime": TIME, "completionTime": TIME, "conditions": true("SuccessCriteriaMet", "Complete")}
    assert place.patch(status, {"status": done}).status == 200

    causes = refused(place.patch(status, {"status": {"conditions": [], "completionTime": None}}))
    later = refused(place.patch(status, {"status": {"completionTime": "2026-06-02T12:00:00Z"}}))

    assert {text for _, text in causes} == {
        "Invalid value: cannot disable the terminal Complete=True condition",
        "Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    }
    assert [field for field, _ in later] == ["status.completionTime"]


# --- finalizers and times --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind", "plural", "fields"),
    [
        ("v1", "ConfigMap", "configmaps", {}),
        ("v1", "Secret", "secrets", {}),
        ("batch/v1", "Job", "jobs", {"spec": {"template": {"spec": POD}}}),
        ("rbac.authorization.k8s.io/v1", "Role", "roles", {"rules": []}),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", {"spec": {"podSelector": {}}}),
    ],
)
def test_a_finalizer_has_a_domain(place: Place, group: str, kind: str, plural: str, fields: dict[str, Any]) -> None:
    answer = place.create(group, kind, plural, metadata={"name": "a", "finalizers": ["x/y", "odd"]}, **fields)

    why = 'Invalid value: "odd": name is neither a standard finalizer name nor is it fully qualified'
    assert refused(answer) == [("metadata.finalizers[1]", why)]
    assert place.create(group, kind, plural, **fields).status == 201
    changed = place.patch(place.url(group, plural, "a"), {"metadata": {"finalizers": ["odd"]}})
    assert set(refused(changed)) == {("metadata.finalizers[0]", why)}, "some kinds say it twice"


def test_leases_and_budgets_take_any_finalizer_without_a_warning(place: Place) -> None:
    for group, kind, plural in (
        ("coordination.k8s.io/v1", "Lease", "leases"),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ):
        answer = place.create(group, kind, plural, metadata={"name": "a", "finalizers": ["odd"]}, spec={})
        assert answer.status == 201
        assert "warning" not in answer.headers


@pytest.mark.parametrize("time", ["2026-06-01T12:00:00Z", "2026-06-01T12:00:00.123Z", "2026-06-01T12:00:00.123456789Z"])
def test_the_times_of_a_lease_have_six_digits_of_a_second(place: Place, time: str) -> None:
    refusal = place.create("coordination.k8s.io/v1", "Lease", "leases", spec={"renewTime": time})
    assert (refusal.status, refusal.json["reason"]) == (400, "BadRequest")
    assert refusal.json["message"].startswith('Lease in version "v1" cannot be handled as a Lease: ')
    taken = place.create("coordination.k8s.io/v1", "Lease", "leases", spec={"renewTime": "2026-06-01T12:00:00.123456Z"})
    assert taken.status == 201

    patched = place.patch(place.url("coordination.k8s.io/v1", "leases", "a"), {"spec": {"renewTime": time}})

    assert patched.status == 422
