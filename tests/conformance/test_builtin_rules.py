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
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


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


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_a_job_has_not_ended_before_all_of_it_has(place: Place, how: str) -> None:
    status, expected = WRONG[how]

    causes = refused(place.patch(place.job() + "/status", {"status": {"startTime": TIME, **status}}))

    assert sorted(f"{field}: {text}" for field, text in causes) == sorted(expected)


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


@pytest.mark.slow
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


# --- the schedule of a CronJob ---------------------------------------------------------------------------------------


def cron_job(place: Place, **spec: Any) -> Answer:
    return place.create(
        "batch/v1", "CronJob", "cronjobs", spec={"jobTemplate": {"spec": {"template": {"spec": POD}}}, **spec}
    )


ATOI = 'failed to parse int from {0}: strconv.Atoi: parsing "{0}": {1}'
NO_ZONE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
GOOD_SCHEDULES = (
    "* * * * *", "* * * JAN mon-fri", "*-5 * * * *", "? * * * ?", ", * * * *", "+5 * * * *", "50/70 * * * *",
    "0 3 * * * ", "\t0 3 * * *", "@daily", "@every 1h30m", "@every -1h", "@every 0", "@every .5s",
)  # fmt: skip
SCHEDULES: dict[str, list[str]] = {
    **{schedule: [] for schedule in GOOD_SCHEDULES},
    "bad": ["expected exactly 5 fields, found 1: [bad]"],
    "0 3 * * * *": ["expected exactly 5 fields, found 6: [0 3 * * * *]"],
    " @daily": ["expected exactly 5 fields, found 1: [@daily]"],
    "60 * * * *": ["end of range (60) above maximum (59): 60"],
    "1-70/5 * * * *": ["end of range (70) above maximum (59): 1-70/5"],
    "* * 0 * *": ["beginning of range (0) below minimum (1): 0"],
    "* * * * 7": ["end of range (7) above maximum (6): 7"],
    "5-1 * * * *": ["beginning of range (5) beyond end of range (1): 5-1"],
    "*/0 * * * *": ["step of range should be a positive number: */0"],
    "*/-5 * * * *": ["negative number (-5) not allowed: -5"],
    "1-2-3 * * * *": ["too many hyphens: 1-2-3"],
    "1/2/3 * * * *": ["too many slashes: 1/2/3"],
    "*/x * * * *": [ATOI.format("x", "invalid syntax")],
    "-5 * * * *": [ATOI.format("", "invalid syntax")],
    "1,2,x * * * *": [ATOI.format("x", "invalid syntax")],
    "0 3 * * SUNDAY": [ATOI.format("SUNDAY", "invalid syntax")],
    f"{'9' * 20} * * * *": [ATOI.format("9" * 20, "value out of range")],
    "@reboot": ["unrecognized descriptor: @reboot"],
    "@Daily": ["unrecognized descriptor: @Daily"],
    "@every": ["unrecognized descriptor: @every"],
    "@every 5": ['failed to parse duration @every 5: time: missing unit in duration "5"'],
    "@every 5d": ['failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"'],
    "@every .s": ['failed to parse duration @every .s: time: invalid duration ".s"'],
    "TZ=UTC 0 3 * * *": [NO_ZONE],
    "CRON_TZ=Europe/Berlin 0 3 * * *": [NO_ZONE],
    "TZ= 0 3 * * *": [NO_ZONE],
    "TZ=Nowhere/X 0 3 * * *": ["provided bad location Nowhere/X: unknown time zone Nowhere/X", NO_ZONE],
    "TZ=UTC": ["invalid schedule format: runtime error: slice bounds out of range [:-1]", NO_ZONE],
}  # fmt: skip
ZONES: dict[str, list[str]] = {
    **{zone: [] for zone in ("UTC", "Europe/Berlin", "Etc/GMT+5", "US/Eastern")},
    "": ["timeZone must be nil or non-empty string"],
    "Local": ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"],
    **{zone: [f"unknown time zone {zone}"] for zone in ("Nowhere", "europe/berlin", "../x", "/UTC", "Europe/Berlin ")},
}


def test_the_schedule_of_a_CronJob_is_read_as_cron_reads_it(place: Place) -> None:
    """W-39: with the words of the parser, each at its field."""
    for schedule, problems in SCHEDULES.items():
        answer = cron_job(place, schedule=schedule)
        place.wire.send("DELETE", place.url("batch/v1", "cronjobs", "a"))

        if not problems:
            assert answer.status == 201, schedule
            continue
        quoted = schedule.replace("\t", "\\t")
        assert refused(answer) == [("spec.schedule", f'Invalid value: "{quoted}": {text}') for text in problems]


def test_the_zone_of_a_CronJob_is_one_of_the_database(place: Place) -> None:
    """W-39"""
    for zone, problems in ZONES.items():
        answer = cron_job(place, schedule="0 3 * * *", timeZone=zone)
        place.wire.send("DELETE", place.url("batch/v1", "cronjobs", "a"))

        if not problems:
            assert answer.status == 201, zone
            continue
        assert refused(answer) == [("spec.timeZone", f'Invalid value: "{zone}": {text}') for text in problems]


def test_what_else_a_CronJob_is_refused_for(place: Place) -> None:
    """W-39"""
    assert refused(cron_job(place))[:1] == [("spec.schedule", "Required value")]
    assert refused(cron_job(place, schedule="")) == [("spec.schedule", "Required value")]
    negative = "Invalid value: -1: must be greater than or equal to 0"
    counts = {"startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1}
    assert refused(cron_job(place, schedule="@daily", **counts)) == [(f"spec.{name}", negative) for name in counts]
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": POD}}}}
    long = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "y" * 53}, "spec": spec}
    assert refused(place.wire.send("POST", place.url("batch/v1", "cronjobs"), long)) == [
        ("spec.jobTemplate.spec.parallelism", negative),
        ("metadata.name", f'Invalid value: "{"y" * 53}": must be no more than 52 characters'),
    ]


def test_a_CronJob_is_judged_again_at_each_change(place: Place) -> None:
    """W-39"""
    assert cron_job(place, schedule="0 3 * * *", timeZone="UTC").status == 201
    url = place.url("batch/v1", "cronjobs", "a")

    assert [field for field, _ in refused(place.patch(url, {"spec": {"schedule": "bad"}}))] == ["spec.schedule"]
    assert [field for field, _ in refused(place.patch(url, {"spec": {"timeZone": "Nope"}}))] == ["spec.timeZone"]
    assert place.patch(url, {"spec": {"schedule": "@hourly", "timeZone": None}}).status == 200
