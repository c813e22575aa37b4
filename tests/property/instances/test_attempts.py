"""Whose attempt Flux speaks of: what the attack on the reconcile found about it, each as a plain story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.flux import OutcomeKind, SourceFault
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import SECRET
from tests.support.instance_oracle import check_confirmed, claims_ready, conditions_of
from tests.support.instance_stories import broken, copy_of, failing, status_of, world_with
from tests.support.instance_turmoil import SECRETS, Turmoil, intent
from tests.support.simulation import HELM, INSTANCE, NS, OCI
from vworkspace_core.api.labels import RETRY
from vworkspace_core.instances.observed_release import is_handled, retry_annotations

REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
VALUES = {"source": "secretRef", "secretRef": {"name": SECRETS[0], "key": "values.yaml"}}


def ask_for_a_retry(world: Turmoil, token: str = "token-1") -> None:
    world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: token}}})


def running(world: Turmoil) -> list[str]:
    return [workload.version for workload in world.flux.workloads]


# --- Ready before its time ------------------------------------------------------------------------------------------


def test_a_hanging_upgrade_from_one_build_of_a_version_to_the_next_is_not_ready_REC_7() -> None:
    """The upgrade to 6.7.0+build.1 ended after the spec had moved on to 6.7.0, so that its success carried the new
    generation; then the upgrade to 6.7.0 hung, and after a minute the release of before was believed to be it."""
    world = world_with(source_type="helm")
    world.submit(intent(source_type="helm", version="6.7.0+build.1"))
    world.run(4)
    failing(world, "6.7.0", OutcomeKind.HANG)
    world.submit(intent(source_type="helm", version="6.7.0"))

    for _ in range(12):
        world.run(15)
        assert not claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Ready")

    assert status_of(world, "Ready") == ("False", "Upgrading", 3)
    world.behave()
    world.run(400)
    ask_for_a_retry(world)
    world.run(60)
    assert claims_ready(world.look(INSTANCE))
    check_confirmed(world, copy_of(world))


def test_a_hanging_upgrade_to_another_chart_of_the_same_version_is_not_ready_REC_7() -> None:
    """The same with the chart's name, which is no part of what Flux says it attempted."""
    world = world_with(source_type="helm")
    world.submit(intent(source_type="helm", version="6.7.0"))
    world.run(4)
    failing(world, "6.7.0", OutcomeKind.HANG)
    world.submit(intent(source_type="helm", version="6.7.0", chart="nextcloud-slim"))

    for _ in range(12):
        world.run(15)
        assert not claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Ready")


# --- failures of the request before ---------------------------------------------------------------------------------


def test_a_failure_that_the_next_attempt_never_replaced_is_not_that_attempts_REC_5() -> None:
    """The failure with the old values was written after the new values were asked for, at their generation; then Flux
    died in the middle of the next attempt, and the Secret with the new values went: the old failure was told as new."""
    world = world_with()
    failing(world, "6.7.0", times=1)
    failing(world, "6.7.0", OutcomeKind.HANG)
    world.submit(intent(version="6.7.0"))
    world.run(4)
    world.put_secret(SECRETS[0], "a: 1")
    world.submit(intent(version="6.7.0", values=VALUES))
    world.run(10)
    assert get_path(conditions_of(world.look(HELM))["Released"], "observedGeneration") == 3

    world.try_remove(ObjectRef(SECRET, NS, SECRETS[0]))
    world.flux.crash()
    world.run(30)

    assert status_of(world, "Ready") == ("False", "WaitingForSecret", 3)
    assert "Degraded" not in conditions_of(world.look(INSTANCE))


def test_what_flux_repeats_between_two_tries_is_no_news_of_the_next_version_REC_5() -> None:
    """`ProgressingWithRetry` quotes the failure of the try before; it was told as the progress of another version."""
    world = Turmoil()
    failing(world, "6.5.0", OutcomeKind.RENDER_ERROR)
    world.submit(intent(version="6.5.0"))
    while get_path(conditions_of(world.look(HELM)).get("Released"), "status") != "False":
        world.run(1)
    assert status_of(world, "Ready") == ("False", "HelmReleaseFailed", 1)
    old = conditions_of(world.look(HELM))["Reconciling"]
    retrying = {**old, "reason": "ProgressingWithRetry", "message": "6.5.0 failed"}
    others = [
        condition
        for condition in get_path(world.look(HELM), "status", "conditions")
        if condition["type"] != "Reconciling"
    ]
    world.patch_status(HELM, {"conditions": [retrying, *others]})

    world.submit(intent(version="6.7.0"))
    world.reconcile(INSTANCE)

    assert status_of(world, "Ready")[1] == "Installing"
    assert "6.5.0" not in world.message(INSTANCE, "Ready")
    assert "6.5.0" not in world.message(INSTANCE, "Reconciling")


@pytest.mark.slow
def test_what_flux_said_of_a_chart_of_the_repository_before_is_no_news_of_the_next_REC_5() -> None:
    """helm-controller repeats why the HelmChart is not ready until it looks again; the failure of the old address was
    told of the new one, whose index was there and whose chart was about to be."""
    world = world_with(source_type="helm")
    broken(world, SourceFault.UNAVAILABLE, "6.7.0")
    world.submit(intent(source_type="helm", version="6.7.0"))
    world.run(310)
    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)
    old = world.message(INSTANCE, "Ready")
    world.behave()

    world.submit(intent(source_type="helm", version="6.7.0", host="two"))
    for _ in range(80):
        world.run(0.5)
        ready = conditions_of(world.look(INSTANCE))["Ready"]
        assert (ready["observedGeneration"], ready["reason"]) != (3, "ChartUnreachable"), (old, ready["message"])

    assert claims_ready(world.look(INSTANCE))


def test_other_credentials_for_the_same_artifact_are_another_attempt_REC_3_REC_5() -> None:
    """They are another source, and so another request: what Flux said of the one before is not told of it."""
    world = world_with()
    world.put_secret("regcred", "a: 1")
    failing(world, "6.7.0")
    world.submit(intent(version="6.7.0"))
    world.run(60)
    assert status_of(world, "Ready") == ("False", "RolledBack", 2)
    tried = len(world.attempts)

    world.submit(intent(version="6.7.0", credentials=True))
    world.run(60)

    assert len(world.attempts) == tried + 1
    assert status_of(world, "Ready") == ("False", "RolledBack", 3)
    assert status_of(world, "Stalled") == ("True", "RetriesExceeded", 3)


# --- another try ----------------------------------------------------------------------------------------------------


def test_a_retry_that_meets_an_unreachable_chart_is_made_once_the_chart_is_there_REC_14() -> None:
    """Flux handled `requestedAt` without a chart to try, and reset nothing later: the retry was lost, and the failure
    from before it was told as its result."""
    world = world_with()
    failing(world, "6.7.0")
    world.submit(intent(version="6.7.0"))
    world.run(60)
    broken(world, SourceFault.INVALID_URL)
    world.edit(OCI, {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "one"}}}, manager="flux")
    world.run(5)

    ask_for_a_retry(world)
    world.run(10)
    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)
    world.behave()
    world.edit(OCI, {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "two"}}}, manager="flux")
    world.run(60)

    assert claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Ready")
    assert running(world)[0].startswith("6.7.0")
    assert get_path(world.look(HELM), "status", "lastHandledResetAt").startswith("token-1")


@pytest.mark.parametrize("content", ["a: 1", "a: 2"])
def test_a_retry_that_meets_missing_values_is_made_once_they_are_there_REC_14(content: str) -> None:
    """The same, with a look of Flux at once where it would have waited for minutes by then."""
    world = Turmoil()
    world.put_secret(SECRETS[0], "a: 1")
    world.submit(intent(values=VALUES))
    world.run(20)
    failing(world, "6.7.0")
    world.submit(intent(version="6.7.0", values=VALUES))
    world.run(60)
    world.try_remove(ObjectRef(SECRET, NS, SECRETS[0]))
    world.flux.crash()  # a stalled release is looked at when something changes, and by a new process
    world.run(900)
    assert get_path(conditions_of(world.look(HELM))["Ready"], "reason") == "ValuesError"
    world.behave()
    world.put_secret(SECRETS[0], content)

    ask_for_a_retry(world)
    world.run(30)

    assert claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Ready")


@pytest.mark.parametrize(
    ("handled", "asked", "done"),
    [
        ("", "", True),
        ("t1", "", True),
        ("", "t1", False),
        ("t1", "t1", True),
        ("t1/again", "t1", True),
        ("t1", "t10", False),
        ("t10", "t1", False),
        ("t1", "t1/operation/u1", False),
        ("t1/operation/u1", "t1", True),
        ("t1/operation/u1/again", "t1", True),
        ("t1/operation/u1", "t2", False),
        ("t1/operation/u1", "/operation/u1", True),
        ("t1/operation/u1", "/operation/u2", False),
        ("/operation/u1", "t1/operation/u1", False),
    ],
)
def test_what_an_operation_leaves_over_asks_for_nothing_new_REC_14(handled: str, asked: str, done: bool) -> None:
    """A failed Upgrade to the same version lapses, and the older annotation alone was taken for another request."""
    status = {"lastHandledResetAt": handled} if handled else {}

    assert is_handled(status, asked) is done
    assert (retry_annotations(asked, {"status": status}) == {}) is done


def test_a_retry_of_a_suspended_release_waits_for_it_to_go_on_REC_14() -> None:
    """Flux handles every request about it at once and resets nothing: asking anew each time never came to rest."""
    world = world_with()
    failing(world, "6.7.0", times=1)
    world.submit(intent(version="6.7.0"))
    world.run(60)
    world.edit(HELM, {"spec": {"suspend": True}}, manager="flux")
    world.run(5)

    ask_for_a_retry(world)
    world.run(5)

    assert world.condition(INSTANCE, "Suspended") == ("True", "ManuallySuspended")
    world.edit(HELM, {"spec": {"suspend": None}}, manager="flux")
    world.run(60)
    assert claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Ready")


@given(
    reason=st.sampled_from(["RetriesExceeded", "ValuesError", "SourceNotReady"]),
    failures=st.integers(0, 1),
    handled=st.sampled_from([None, "t1", "t1/again", "t1/look", "somebody's"]),
)
def test_asking_for_a_retry_comes_to_rest_whatever_flux_makes_of_it_REC_14(
    reason: str, failures: int, handled: str | None
) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    status = {"conditions": [ready], "failures": failures, "lastHandledReconcileAt": handled}
    asked = [retry_annotations("t1", {"status": status})]
    for _ in range(4):
        status["lastHandledReconcileAt"] = asked[-1].get(REQUESTED_AT, status["lastHandledReconcileAt"])
        asked.append(retry_annotations("t1", {"status": status}))

    assert asked[-1] == asked[-2]
    assert any(asked) or handled == "t1/again"
