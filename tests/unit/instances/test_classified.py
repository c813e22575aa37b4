"""What `classify` makes of Flux's reports, report by report, exactly (REC-5)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from tests.support.instance_worlds import DIGEST, NOW, OLD_DIGEST
from vworkspace_core.api.chart import DeployedChart
from vworkspace_core.instances.observed_release import (
    ObservedRelease,
    ReleaseRequest,
    ReleaseTimeouts,
    deployed_chart,
    is_first_pass,
    is_observed,
    message_of,
    was_released,
)
from vworkspace_core.instances.release_state import (
    WAITING,
    ClassifiedRelease,
    ReleaseState,
    chart_failure,
    classify,
    gave_up_on_chart,
    source_failure,
)

S = ReleaseState
TIMES = ReleaseTimeouts(source_grace=100.0, source_wait=200.0, stuck_ready=300.0)
VERSION = "6.6.0"
REVISION = f"{VERSION}+{DIGEST[7:19]}"
OCI, REPOSITORY = ReleaseRequest(VERSION, oci=True), ReleaseRequest(VERSION, oci=False)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def told(kind: str, status: str, reason: str = "R", message: str = "", *, of: int | None = 2, age: float = 9e3) -> Any:
    """A condition of generation 2, unless told otherwise."""
    made = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(age)}
    return made if of is None else {**made, "observedGeneration": of}


def entry(status: str = "deployed", revision: str = REVISION, digest: str | None = DIGEST, **more: Any) -> Any:
    made = {"status": status, "chartName": "nextcloud", "chartVersion": revision, **more}
    return made if digest is None else {**made, "ociDigest": digest}


def flux(kind: str, *conditions: Any, spec: Any = None, seen: Any = 2, **status: Any) -> dict[str, Any]:
    found = {**({} if seen is None else {"observedGeneration": seen}), "conditions": list(conditions), **status}
    meta = {"name": "n", "generation": 2, "creationTimestamp": ago(50)}
    return {"kind": kind, "metadata": meta, "spec": spec or {}, "status": found}


CHART_SPEC = {"chart": "nextcloud", "version": VERSION}


def release(*conditions: Any, seen: Any = 2, spec: Any = None, **status: Any) -> dict[str, Any]:
    """A HelmRelease whose last attempt was made for the present request."""
    attempt = {"lastAttemptedGeneration": 2, "lastAttemptedRevision": REVISION, "history": [entry()]}
    found = {"chart": {"spec": CHART_SPEC}, **(spec or {})}
    return flux("HelmRelease", *conditions, spec=found, seen=seen, **{**attempt, **status})


def oci(*conditions: Any, digest: str = DIGEST, **more: Any) -> dict[str, Any]:
    return flux("OCIRepository", *conditions, artifact={"revision": f"{VERSION}@{digest}"}, **more)


def chart(*conditions: Any, **more: Any) -> dict[str, Any]:
    return flux("HelmChart", *conditions, **{"spec": CHART_SPEC, "observedSourceArtifactRevision": "i1", **more})


def index(*conditions: Any, **more: Any) -> dict[str, Any]:
    return flux("HelmRepository", *conditions, **{"artifact": {"revision": "i1"}, **more})


READY = told("Ready", "True", "UpgradeSucceeded", "up")
WELL = release(READY)


def of_oci(found: Any, source: Any = None, request: ReleaseRequest = OCI) -> ClassifiedRelease:
    return classify(found, oci() if source is None else source, None, request, NOW, TIMES)


def of_index(found: Any, source: Any = None, of: Any = None) -> ClassifiedRelease:
    return classify(found, index() if source is None else source, chart() if of is None else of, REPOSITORY, NOW, TIMES)


def under_way(message: str = WAITING, after: float | None = None) -> ClassifiedRelease:
    return ClassifiedRelease(S.UPGRADING, message, released_before=True, requeue_after=after)


UPGRADING = under_way()
IS_READY = ClassifiedRelease(S.READY, "up", released_before=True)
GONE = {**WELL, "metadata": {**WELL["metadata"], "deletionTimestamp": ago(1)}}
SUSPENDED = {**WELL, "spec": {**WELL["spec"], "suspend": True}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, ClassifiedRelease(S.PENDING, "the HelmRelease does not exist yet")),
        (GONE, ClassifiedRelease(S.PENDING, "the HelmRelease is being deleted; it is created again once it has gone")),
        (
            {**GONE, "status": {"conditions": [told("Released", "False", "UninstallFailed", "hook failed")]}},
            ClassifiedRelease(
                S.PENDING,
                "the HelmRelease is being deleted; it is created again once it has gone; "
                "Flux says UninstallFailed: hook failed",
            ),
        ),
        (SUSPENDED, ClassifiedRelease(S.SUSPENDED, "the HelmRelease is suspended", released_before=True)),
        ({**SUSPENDED, "status": None}, ClassifiedRelease(S.SUSPENDED, "the HelmRelease is suspended")),
        (flux("HelmRelease", seen=None), ClassifiedRelease(S.PENDING, WAITING)),
        (flux("HelmRelease", seen=-1), ClassifiedRelease(S.PENDING, WAITING)),
        (flux("HelmRelease", seen=0), ClassifiedRelease(S.INSTALLING, WAITING)),
        (flux("HelmRelease", "x", seen=-1), ClassifiedRelease(S.INSTALLING, WAITING)),
        (release("x", {}, READY), IS_READY),
        (WELL, IS_READY),
    ],
)
def test_rows_1_and_2_of_the_release_itself(found: Any, expected: ClassifiedRelease) -> None:
    assert of_oci(found) == expected


def test_row_2_a_suspended_source_is_told_while_it_was_not_fetched() -> None:
    stopped = oci(spec={"suspend": True}, seen=1)
    message = "the OCIRepository is suspended: what it asks for by now is not fetched"

    assert of_oci(WELL, stopped) == ClassifiedRelease(S.SUSPENDED, message, released_before=True)
    assert of_oci(release(history=None), stopped) == ClassifiedRelease(S.SUSPENDED, message)
    assert of_oci(WELL, oci(spec={"suspend": True})) == IS_READY, "what it asks for was fetched"


def test_row_2_a_suspended_chart_is_told_while_it_was_not_fetched() -> None:
    stopped = chart(spec={**CHART_SPEC, "suspend": True}, seen=1)
    message = "the HelmChart is suspended: what it asks for by now is not fetched"

    assert of_index(WELL, None, stopped) == ClassifiedRelease(S.SUSPENDED, message, released_before=True)
    assert of_index(WELL, None, chart(spec={**CHART_SPEC, "suspend": True})) == IS_READY, "the version was fetched"


@pytest.mark.parametrize(
    ("status", "is_ours"),
    [
        ({}, True),
        ({"lastAttemptedGeneration": 1}, False),
        ({"lastAttemptedRevision": "6.5.0"}, False),
        ({"lastAttemptedRevision": None}, False),
        ({"lastAttemptedRevision": f"v{VERSION}+x", "history": [entry(revision=f"v{VERSION}+x")]}, True),
        ({"lastAttemptedRevisionDigest": DIGEST}, True),
        ({"lastAttemptedRevisionDigest": OLD_DIGEST}, False),
        ({"lastAttemptedRevisionDigest": DIGEST, "history": [entry(digest=None)]}, True),
        ({"history": [entry(digest=OLD_DIGEST)]}, False),
    ],
)
def test_an_attempt_is_ours_if_generation_version_and_artifact_are_those_asked_for(
    status: dict[str, Any], is_ours: bool
) -> None:
    assert of_oci(release(READY, **status)) == (IS_READY if is_ours else UPGRADING)


@pytest.mark.parametrize(
    ("token", "handled", "is_ours"),
    [
        ("", None, True),
        ("", "t", True),
        ("t", None, False),
        ("t", "t", True),
        ("t", "t/again", True),
        ("t", "u", False),
    ],
)
def test_an_attempt_before_the_retry_that_was_asked_for_is_not_ours(token: str, handled: Any, is_ours: bool) -> None:
    found = release(READY, lastHandledResetAt=handled)

    assert of_oci(found, request=ReleaseRequest(VERSION, oci=True, retry_token=token)) == (
        IS_READY if is_ours else UPGRADING
    )


@pytest.mark.parametrize(
    ("source", "is_ours"),
    [
        (oci(), True),
        (oci(digest=OLD_DIGEST), False),
        (oci(seen=1), False),
        (oci(seen=None), False),
        (oci(told("ArtifactInStorage", "True")), True),
        (oci(told("ArtifactInStorage", "True", of=1)), False),
        (oci(told("ArtifactInStorage", "True", of=None)), True),
        (flux("OCIRepository", artifact={"revision": VERSION}), False),
        (flux("OCIRepository", artifact={"revision": 5}), False),
        (flux("OCIRepository"), False),
    ],
)
def test_an_attempt_at_an_artifact_is_ours_once_the_source_holds_that_artifact(source: Any, is_ours: bool) -> None:
    assert of_oci(WELL, source) == (IS_READY if is_ours else UPGRADING)


@pytest.mark.parametrize(
    ("source", "of", "is_ours"),
    [(index(), chart(), True), (index(seen=1), chart(), False), (index(), chart(seen=1), False)],
)
def test_an_attempt_at_a_repository_is_ours_once_index_and_chart_were_fetched(
    source: Any, of: Any, is_ours: bool
) -> None:
    assert of_index(WELL, source, of) == (IS_READY if is_ours else UPGRADING)
    assert classify(WELL, index(), None, REPOSITORY, NOW, TIMES) == IS_READY, "a chart that is not there says nothing"


BOOM = told("Released", "False", "UpgradeFailed", "boom")
STALLED = told("Stalled", "True", "RetriesExceeded", "no more")
NO_TARGET = told("Stalled", "True", "MissingRollbackTarget", "no target")
NEVER = told("Stalled", "True", "AccessDenied", "no")
BACK = told("Remediated", "True", "RollbackSucceeded")
SUCCEEDED = told("Released", "True", "UpgradeSucceeded", "Helm upgrade succeeded")
TEST = told("TestSuccess", "False", "TestFailed", "test hook failed")


def stalled(message: str, reason: str, state: ReleaseState = S.STALLED) -> ClassifiedRelease:
    return ClassifiedRelease(state, message, released_before=True, stalled_reason=reason)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([STALLED, BOOM], stalled("boom", "RetriesExceeded")),
        ([STALLED], stalled("no more", "RetriesExceeded")),
        ([STALLED, BOOM, BACK], stalled("boom", "RetriesExceeded", S.ROLLED_BACK)),
        ([STALLED, BOOM, told("Remediated", "False", "Other")], stalled("boom", "RetriesExceeded")),
        ([NO_TARGET, BOOM], stalled("boom. Nothing was rolled back: no target", "MissingRollbackTarget")),
        ([NO_TARGET], stalled("no target", "MissingRollbackTarget")),
        ([NEVER, BOOM], stalled("no", "AccessDenied")),
        ([STALLED, SUCCEEDED, TEST], stalled("test hook failed", "RetriesExceeded")),
        ([STALLED, SUCCEEDED, TEST, BACK], stalled("test hook failed", "RetriesExceeded", S.ROLLED_BACK)),
        ([STALLED, BOOM, TEST], stalled("boom", "RetriesExceeded")),
        ([STALLED, SUCCEEDED], stalled("no more", "RetriesExceeded")),
        ([told("Stalled", "True", "", "no")], stalled("no", "RetriesExceeded")),
        ([told("Stalled", "False"), READY], IS_READY),
    ],
)
def test_row_3_flux_has_given_up(conditions: list[Any], expected: ClassifiedRelease) -> None:
    assert of_oci(release(*conditions)) == expected


@pytest.mark.parametrize("reason", ["AccessDenied", "InvalidCELExpression"])
def test_row_3_what_flux_finds_before_an_attempt_counts_for_its_own_generation(reason: str) -> None:
    for of, expected in ((2, stalled("no", reason)), (1, UPGRADING)):
        found = release(told("Stalled", "True", reason, "no", of=of), lastAttemptedGeneration=1)
        assert of_oci(found) == expected
    assert of_oci(release(STALLED, lastAttemptedGeneration=1)) == UPGRADING


DOWN = told("Ready", "False", "UpgradeFailed", "down")
FAILED = ClassifiedRelease(S.FAILED, "boom", released_before=True)
CHART_OF = "Helm upgrade failed with chart nextcloud@{}: boom"
AGAIN = told("Reconciling", "True", "ProgressingWithRetry")


def failed(message: str, *, retrying: bool = False) -> ClassifiedRelease:
    return ClassifiedRelease(S.FAILED, message, retrying=retrying, released_before=True)


def about(revision: str) -> Any:
    return told("Released", "False", "UpgradeFailed", CHART_OF.format(revision))


@pytest.mark.parametrize(
    ("conditions", "counts", "expected"),
    [
        ([DOWN, BOOM], {"failures": 1}, failed("boom")),
        ([DOWN, BOOM], {"installFailures": 1}, failed("boom")),
        ([DOWN, BOOM], {"upgradeFailures": 1}, failed("boom")),
        ([DOWN, BOOM], {}, None),
        ([DOWN, BOOM], {"failures": 0}, None),
        ([DOWN, BOOM, AGAIN], {"failures": 1}, failed("boom", retrying=True)),
        ([DOWN, BOOM, told("Reconciling", "False")], {"failures": 1}, failed("boom")),
        ([DOWN, told("Released", "False")], {"failures": 1}, failed("down")),
        ([DOWN, told("Released", "True")], {"failures": 1}, None),
        ([told("Ready", "Unknown"), BOOM], {"failures": 1}, None),
        ([DOWN, told("Released", "False", "R", "boom", of=1)], {"failures": 1}, None),
        ([DOWN, told("Released", "False", "R", "boom", of=None)], {"failures": 1}, failed("boom")),
        ([DOWN, about(REVISION)], {"failures": 1}, failed(CHART_OF.format(REVISION))),
        ([DOWN, about("6.5.0")], {"failures": 1}, None),
    ],
)
def test_row_4_the_failure_of_our_attempt(
    conditions: list[Any], counts: dict[str, int], expected: ClassifiedRelease | None
) -> None:
    found = release(*conditions, **counts, history=[entry("failed"), entry("superseded")])

    assert of_oci(found) == (expected or UPGRADING)
    assert of_oci({**found, "status": {**found["status"], "lastAttemptedGeneration": 1}}) == UPGRADING


UNKNOWN = told("Ready", "Unknown", "Progressing", "at it", age=299)
STUCK = told("Ready", "Unknown", "Progressing", "at it", age=300)
RELEASED = told("Released", "True", "UpgradeSucceeded", "released")


@pytest.mark.parametrize(
    ("conditions", "status", "expected"),
    [
        ([told("Ready", "True", "R", "up", of=1)], {}, UPGRADING),
        ([READY], {"seen": 1}, UPGRADING),
        ([READY], {"history": [entry("superseded")]}, UPGRADING),
        ([READY], {"history": [entry(revision="6.5.0")]}, UPGRADING),
        ([READY], {"lastAttemptedConfigDigest": "c"}, IS_READY),
        ([READY], {"lastAttemptedConfigDigest": "c", "history": [entry(configDigest="c")]}, IS_READY),
        ([READY], {"lastAttemptedConfigDigest": "c", "history": [entry(configDigest="d")]}, UPGRADING),
        ([READY], {"lastAttemptedConfigDigest": "", "history": [entry(configDigest="d")]}, IS_READY),
        # the entry of a rollback has no digest of its own
        ([READY], {"lastAttemptedRevisionDigest": DIGEST, "history": [entry(digest=None)]}, IS_READY),
        (
            [READY],
            {
                "lastAttemptedRevisionDigest": DIGEST,
                "lastAttemptedRevision": VERSION,
                "history": [entry(revision=VERSION, digest=None)],
            },
            UPGRADING,
        ),
        # Ready stays Unknown: a defect of helm-controller
        ([UNKNOWN, RELEASED], {}, under_way("at it", 1.0)),
        ([STUCK, RELEASED], {}, ClassifiedRelease(S.READY, "released", released_before=True)),
        ([STUCK], {}, ClassifiedRelease(S.READY, "", released_before=True)),
        ([STUCK, told("Released", "False")], {}, under_way("at it")),
        ([STUCK, told("Released", "True", of=1)], {}, under_way("at it")),
        (
            [STUCK, told("Released", "True", "R", "ok", of=None)],
            {},
            ClassifiedRelease(S.READY, "ok", released_before=True),
        ),
        ([STUCK, RELEASED], {"seen": 1}, under_way("at it")),
        ([{"type": "Ready", "status": "Unknown"}], {}, ClassifiedRelease(S.READY, "", released_before=True)),
        ([{**STUCK, "lastTransitionTime": "soon"}], {}, ClassifiedRelease(S.READY, "", released_before=True)),
        ([DOWN, RELEASED], {}, UPGRADING),
    ],
)
def test_row_5_what_is_deployed_as_wanted_is_ready(
    conditions: list[Any], status: dict[str, Any], expected: ClassifiedRelease
) -> None:
    assert of_oci(release(*conditions, **status)) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([told("Drifted", "True", "R", "edited")], {"drift": "edited"}),
        ([told("Drifted", "True")], {"drift": "drift detected"}),
        ([told("Drifted", "False", "R", "edited")], {}),
        ([told("TestSuccess", "False", "R", "red")], {"warnings": "red"}),
        ([told("TestSuccess", "False")], {"warnings": "tests failed"}),
        ([told("TestSuccess", "True", "R", "green")], {}),
    ],
)
def test_row_5_drift_and_failed_tests_are_told_beside_it(conditions: list[Any], expected: dict[str, Any]) -> None:
    assert of_oci(release(READY, *conditions)) == ClassifiedRelease(S.READY, "up", released_before=True, **expected)


def fetch_failed(age: float, message: str = "401", kind: str = "FetchFailed", of: int | None = 2) -> Any:
    return told(kind, "True", "AuthFailed", message, of=of, age=age)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (oci(fetch_failed(99)), {"requeue_after": 1.0}),
        (oci(fetch_failed(100)), {"source_trouble": "401"}),
        (oci(fetch_failed(100, "")), {"source_trouble": "AuthFailed"}),
        (oci(fetch_failed(100, kind="Stalled")), {"source_trouble": "401"}),
        (oci(fetch_failed(100, of=1)), {}),
        (oci(fetch_failed(100, of=None)), {"source_trouble": "401"}),
        (oci(told("FetchFailed", "False")), {}),
    ],
)
def test_row_5_a_failure_of_the_source_is_told_once_it_lasts(source: Any, expected: dict[str, Any]) -> None:
    assert of_oci(WELL, source) == ClassifiedRelease(S.READY, "up", released_before=True, **expected)


BEFORE = {"lastAttemptedGeneration": 1}


def unreachable(message: str, gave_up: str = "") -> ClassifiedRelease:
    return ClassifiedRelease(S.CHART_UNREACHABLE, message, released_before=True, stalled_reason=gave_up)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (oci(fetch_failed(1)), unreachable("401")),
        (oci(fetch_failed(1, of=1)), UPGRADING),
        (oci(fetch_failed(1, kind="Stalled")), unreachable("401", "AuthFailed")),
        (oci(fetch_failed(1), told("Stalled", "True", "", "")), unreachable("401", "Stalled")),
        (oci(fetch_failed(1), told("Stalled", "True", "Given", of=1)), unreachable("401")),
        (oci(fetch_failed(1), told("Stalled", "False", "Given")), unreachable("401")),
    ],
)
def test_row_6_a_source_that_cannot_be_fetched(source: Any, expected: ClassifiedRelease) -> None:
    assert of_oci(release(READY, **BEFORE), source) == expected


MISSING = told("FetchFailed", "True", "ChartPullError", "no such version")
OTHER_VERSION = chart(MISSING, spec={**CHART_SPEC, "version": "6.5.0"})


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (chart(MISSING), unreachable("no such version")),
        (chart(told("BuildFailed", "True", "R", "bad")), unreachable("bad")),
        (chart(told("Stalled", "True", "Given", "up")), unreachable("up", "Given")),
        (chart(MISSING, told("Stalled", "True", "Given")), unreachable("no such version", "Given")),
        (chart(told("FetchFailed", "True", "NoSourceArtifact", "wait")), UPGRADING),
        (
            chart(told("FetchFailed", "True", "NoSourceArtifact"), told("BuildFailed", "True", "R", "b")),
            unreachable("b"),
        ),
        (chart(told("FetchFailed", "True", of=1), told("BuildFailed", "True")), UPGRADING),
        (chart(told("FetchFailed", "False")), UPGRADING),
        (OTHER_VERSION, UPGRADING),
        (chart(MISSING, spec={**CHART_SPEC, "chart": "other"}), UPGRADING),
        (chart(MISSING, observedSourceArtifactRevision="i0"), UPGRADING),
        (chart(MISSING, observedSourceArtifactRevision=None), unreachable("no such version")),
    ],
)
def test_row_6_a_chart_that_cannot_be_fetched(of: Any, expected: ClassifiedRelease) -> None:
    assert of_index(release(READY, **BEFORE), None, of) == expected


def test_row_6_a_chart_looked_up_in_a_former_index_says_nothing() -> None:
    assert of_index(release(READY, **BEFORE), index(seen=1), chart(MISSING)) == UPGRADING


def blamed(reason: str = "SourceNotReady", message: str = "not ready", age: float = 199, of: int | None = 2) -> Any:
    return release(told("Ready", "False", reason, message, age=age, of=of), **BEFORE)


NOT_FETCHED = flux("OCIRepository")
HERE = told("Ready", "False", "R", "not ready", age=199)
WORDS = told("Ready", "False", "R", "other words", age=199)
EARLIER = told("Ready", "False", "R", "other words", age=200)
LATER = told("Ready", "False", "R", "not ready", age=198)


@pytest.mark.parametrize(
    ("found", "source", "expected"),
    [
        (blamed(), flux("OCIRepository", EARLIER), under_way(WAITING, 1.0)),
        (blamed(age=200), flux("OCIRepository", told("Ready", "False", age=201)), unreachable("not ready")),
        (blamed(), flux("OCIRepository", HERE), under_way(WAITING, 1.0)),
        (blamed(), flux("OCIRepository", WORDS), UPGRADING),
        (blamed(), flux("OCIRepository", LATER), UPGRADING),
        (blamed(), flux("OCIRepository", LATER, told("X", "True", age=200)), under_way(WAITING, 1.0)),
        (blamed(), flux("OCIRepository", LATER, told("X", "True", age=200, of=1)), UPGRADING),
        (blamed(), flux("OCIRepository", told("X", "True", of=1)), UPGRADING),
        (blamed(of=1), flux("OCIRepository", EARLIER), UPGRADING),
        (blamed(of=None), flux("OCIRepository", EARLIER), under_way(WAITING, 1.0)),
        (blamed("Other"), flux("OCIRepository", EARLIER), UPGRADING),
        (blamed(), oci(EARLIER), UPGRADING),
        (blamed(), oci(EARLIER, seen=1), under_way(WAITING, 1.0)),
        (blamed("ArtifactFailed", "broken", age=0), oci(EARLIER), unreachable("broken")),
        (blamed("ArtifactFailed", "broken", age=0), oci(EARLIER, seen=1), UPGRADING),
        (blamed(age=49), NOT_FETCHED, under_way(WAITING, 151.0)),
        (blamed(age=51), NOT_FETCHED, UPGRADING),
        (release(told("Ready", "True", "SourceNotReady"), **BEFORE), flux("OCIRepository", EARLIER), UPGRADING),
    ],
)
def test_row_6_ready_blames_the_source_as_it_is_now(found: Any, source: Any, expected: ClassifiedRelease) -> None:
    assert of_oci(found, source) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (flux("HelmChart", EARLIER, spec=CHART_SPEC), under_way(WAITING, 1.0)),
        (flux("HelmChart", EARLIER, spec={}), under_way(WAITING, 1.0)),
        (chart(EARLIER, observedSourceArtifactRevision="i0"), UPGRADING),
        (chart(EARLIER), under_way(WAITING, 1.0)),
        (chart(EARLIER, artifact={"revision": "a"}), UPGRADING),
    ],
)
def test_row_6_of_a_repository_the_chart_is_blamed(of: Any, expected: ClassifiedRelease) -> None:
    assert of_index(blamed(), None, of) == expected
    assert classify(blamed(age=200), index(), None, REPOSITORY, NOW, TIMES) == unreachable("not ready")


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        (told("Ready", "False", "ValuesError", "no key"), S.VALUES_MISSING),
        (told("Ready", "False", "ValuesError", "no key", of=None), S.VALUES_MISSING),
        (told("Ready", "False", "ValuesError", "no key", of=1), S.UPGRADING),
        (told("Ready", "Unknown", "ValuesError", "no key"), S.UPGRADING),
        (told("Ready", "False", "Other", "no key"), S.UPGRADING),
    ],
)
def test_row_7_values_that_flux_cannot_read(ready: Any, expected: ReleaseState) -> None:
    found = of_oci(release(ready, **BEFORE))

    assert found.state is expected
    if expected is S.VALUES_MISSING:
        assert found == ClassifiedRelease(S.VALUES_MISSING, "no key", released_before=True)


RUNNING = told("Reconciling", "True", "Progressing", "running")


@pytest.mark.parametrize(
    ("conditions", "status", "expected"),
    [
        ([RUNNING], {}, under_way("running")),
        ([RUNNING, UNKNOWN], {}, under_way("running")),
        ([told("Reconciling", "True"), UNKNOWN], {}, under_way("at it")),
        ([told("Reconciling", "False", "R", "no"), UNKNOWN], {}, under_way("at it")),
        ([told("Reconciling", "True", "ProgressingWithRetry", "again")], {}, UPGRADING),
        ([READY], {}, UPGRADING),
        ([READY], {"history": []}, ClassifiedRelease(S.INSTALLING, WAITING)),
        ([READY], {"seen": -1}, ClassifiedRelease(S.INSTALLING, WAITING)),
        ([READY], {"seen": -1, "lastAttemptedReleaseAction": "upgrade"}, UPGRADING),
    ],
)
def test_row_8_the_message_is_that_of_the_running_attempt(
    conditions: list[Any], status: dict[str, Any], expected: ClassifiedRelease
) -> None:
    assert of_oci(release(*conditions, **BEFORE, **status)) == expected


BEGUN = told("Reconciling", "True", "Progressing", "Fulfilling prerequisites")
MISSING_RIGHT = "Could not determine release state: secrets is forbidden"


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        (told("Ready", "False", "StateError", MISSING_RIGHT), MISSING_RIGHT),
        (told("Ready", "False", "StateError", MISSING_RIGHT, of=None), MISSING_RIGHT),
        (told("Ready", "False", "RESTClientError", "no kubeconfig"), "no kubeconfig"),
        (told("Ready", "False", "DependencyNotReady", "'a/b' is not ready"), "'a/b' is not ready"),
        (told("Ready", "False", "ChartMutateError", "tag and version differ"), "tag and version differ"),
        (told("Ready", "False", "StateError", MISSING_RIGHT, of=1), "Fulfilling prerequisites"),
        (told("Ready", "Unknown", "StateError", MISSING_RIGHT), "Fulfilling prerequisites"),
        (told("Ready", "False", "UpgradeFailed", "of the attempt before"), "Fulfilling prerequisites"),
    ],
)
def test_row_8_what_keeps_flux_from_an_attempt_is_told_while_it_tries_again_REC_13(ready: Any, expected: str) -> None:
    held_up = "" if expected == "Fulfilling prerequisites" else expected
    assert of_oci(release(BEGUN, ready, **BEFORE)) == attrs.evolve(under_way(expected), held_up=held_up)
    if ready["status"] != "Unknown":  # also of one that was well the pass before
        assert of_oci(release(BEGUN, ready)) == attrs.evolve(under_way(expected), held_up=held_up)


@pytest.mark.parametrize(("age", "left", "held_up"), [(1, 99, ""), (99, 1, ""), (100, None, "no"), (101, None, "no")])
def test_row_8_what_keeps_flux_from_acting_for_long_is_a_problem_SEE_6(age: int, left: Any, held_up: str) -> None:
    """Otherwise it is progress for ever, of which no notice is given."""
    found = of_oci(release(BEGUN, told("Ready", "False", "StateError", "no", age=age)))
    assert found == attrs.evolve(under_way("no", left), held_up=held_up)
    mute = of_oci(release(BEGUN, told("Ready", "False", "StateError", age=age)))
    assert mute.held_up == (held_up and "StateError")


@pytest.mark.parametrize(
    ("history", "released"),
    [
        (None, False),
        ("x", False),
        ([], False),
        ([{"status": "failed"}, "x"], False),
        ([{"status": "failed"}, {"status": "superseded"}], True),
        ([{"status": "deployed"}], True),
        ([{"status": "uninstalled"}], False),
    ],
)
def test_a_release_was_there_if_the_history_has_one_that_was_deployed(history: Any, released: bool) -> None:
    assert was_released({"history": history}) is released


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"history": [entry("failed"), entry()]}, DeployedChart("nextcloud", VERSION)),
        ({"history": [entry(digest=None)]}, DeployedChart("nextcloud", REVISION)),
        ({"history": [entry(digest=None)], "lastAttemptedRevisionDigest": "d"}, DeployedChart("nextcloud", VERSION)),
        ({"history": [entry(revision="1.0.0+abc")]}, DeployedChart("nextcloud", "1.0.0+abc")),
        ({"history": [{"status": "deployed"}]}, DeployedChart("", "")),
        ({"history": [entry("superseded")]}, None),
        ({"history": "x"}, None),
        ({}, None),
    ],
)
def test_the_deployed_chart_is_that_of_the_deployed_entry(status: Any, expected: DeployedChart | None) -> None:
    assert deployed_chart({"status": status}) == expected
    assert deployed_chart(None) is None


def with_chart(of: Any, source: Any = None, spec: Any = None) -> ObservedRelease:
    """A release from a repository, with this HelmChart."""
    found = release(spec=spec)
    return ObservedRelease(found, source or index(), of, REPOSITORY, NOW, TIMES, found["status"], {}, 2)


FAILED_FETCH = told("FetchFailed", "True", "ChartPullError")


@pytest.mark.parametrize(
    ("conditions", "at"),
    [
        ([], None),
        ([told("FetchFailed", "False"), told("Ready", "False")], None),
        ([FAILED_FETCH], 0),
        ([told("Stalled", "True", "a"), told("BuildFailed", "True", "b"), FAILED_FETCH], 2),
        ([told("Stalled", "True", "a"), told("BuildFailed", "True", "b")], 1),
        ([told("Stalled", "True", "a"), told("BuildFailed", "Unknown", "b")], 0),
        ([told("FetchFailed", "True", "NoSourceArtifact")], None),
        ([told("FetchFailed", "True", "NoSourceArtifact"), told("Stalled", "True", "a")], 1),
        ([told("FetchFailed", "True", of=1)], None),
        ([told("FetchFailed", "True", of=1), told("Stalled", "True", "a")], None),
        ([told("FetchFailed", "True", of=None)], 0),
    ],
)
def test_a_chart_fails_by_its_first_report_on_its_present_generation(conditions: list[Any], at: int | None) -> None:
    assert chart_failure(with_chart(chart(*conditions))) == ({} if at is None else conditions[at])


@pytest.mark.parametrize(
    ("of", "source", "fails"),
    [
        (None, None, False),
        (chart(FAILED_FETCH), None, True),
        (chart(FAILED_FETCH, spec={**CHART_SPEC, "chart": "other"}), None, False),
        (chart(FAILED_FETCH, spec={**CHART_SPEC, "version": "6.5.0"}), None, False),
        (chart(FAILED_FETCH, observedSourceArtifactRevision="i0"), None, False),
        (chart(FAILED_FETCH, observedSourceArtifactRevision=None), None, True),
        (chart(FAILED_FETCH), index(seen=1), False),
        (chart(FAILED_FETCH), index(artifact=None), False),
        (chart(FAILED_FETCH, observedSourceArtifactRevision=None), index(artifact=None), True),
    ],
)
def test_a_report_on_a_chart_counts_for_the_present_request_and_index(of: Any, source: Any, fails: bool) -> None:
    assert chart_failure(with_chart(of, source)) == (FAILED_FETCH if fails else {})


STALLED = told("Stalled", "True", "InvalidChart")


@pytest.mark.parametrize(
    ("of", "source", "reason"),
    [
        (chart(STALLED), None, "InvalidChart"),
        (chart(FAILED_FETCH), None, ""),
        (chart(told("Stalled", "True", of=1), FAILED_FETCH), None, ""),
        (chart(told("Stalled", "True", "")), None, "Stalled"),
        (chart(STALLED, spec={}), None, ""),
        (chart(STALLED), index(told("Stalled", "True", "URLInvalid")), "URLInvalid"),
        (chart(), index(told("Stalled", "True", "URLInvalid", of=1)), ""),
        (chart(), index(told("Stalled", "False", "URLInvalid")), ""),
        (None, None, ""),
    ],
)
def test_flux_gave_up_on_a_chart_where_its_source_or_the_chart_is_stalled_RES_4(
    of: Any, source: Any, reason: str
) -> None:
    assert gave_up_on_chart(with_chart(of, source)) == reason


def test_small_questions_have_exact_answers() -> None:
    assert [is_first_pass(status) for status in ({}, {"observedGeneration": -1}, {"observedGeneration": 0})] == [
        True,
        True,
        False,
    ]
    assert is_first_pass({"lastAttemptedReleaseAction": "upgrade"}) is False
    assert [message_of(one) for one in ({}, {"message": 5}, {"message": "a"})] == ["", "", "a"]
    assert is_observed(None) is False
    assert source_failure(oci()) == {}
    assert is_observed({"status": {"observedGeneration": None}}) is False


def test_each_state_names_its_row_of_the_table() -> None:
    assert [state.row for state in S] == [
        "REC-5 row 1 Pending",
        "REC-5 row 2 Suspended",
        "REC-5 row 3 Stalled",
        "REC-5 row 3 RolledBack",
        "REC-5 row 4 Failed",
        "REC-5 row 5 Ready",
        "REC-5 row 6 ChartUnreachable",
        "REC-5 row 7 ValuesMissing",
        "REC-5 row 8 Installing",
        "REC-5 row 8 Upgrading",
    ]
