"""What the simulated Job controller leaves in a Job, fact by fact (downstream-status 7.3)."""

import re
from typing import Any

import pytest

from kubelab.downstream import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending, JobBehaviour
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import CORE_EVENT, JOB, POD, SERVICE_ACCOUNT
from tests.support.downstream_world import NS, DownstreamWorld, conditions, job


def begun(behaviour: DownstreamBehaviour | None = None, **spec: Any) -> DownstreamWorld:
    world = DownstreamWorld(behaviour, names=["job"])
    world.create(job(**spec), JOB)
    world.simulator.tick(world.clock.now())
    return world


def failing(times: int | None = None, **outcome: Any) -> DownstreamBehaviour:
    return DownstreamBehaviour((DownstreamRule(DownstreamOutcome(Ending.FAIL, times=times, **outcome)),))


def condition_steps(world: DownstreamWorld) -> list[dict[str, str]]:
    found = [conditions(state.get("status") or {}) for state in world.states(JOB)]
    return [step for index, step in enumerate(found) if index == 0 or step != found[index - 1]]


def test_a_job_that_succeeds_meets_its_criteria_before_it_is_complete() -> None:
    world = begun()
    assert world.status(JOB, "j") | {"startTime": ""} == {
        "startTime": "",
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    world.settle()
    met = {"SuccessCriteriaMet": "True/CompletionsReached"}
    assert condition_steps(world) == [{}, met, met | {"Complete": "True/CompletionsReached"}]
    status = world.status(JOB, "j")
    assert status["succeeded"] == 1
    assert status["completionTime"] > status["startTime"]
    assert "active" not in status
    assert "observedGeneration" not in status


def test_a_job_that_fails_has_a_failure_target_first_and_no_completion_time() -> None:
    world = begun(failing())
    world.settle()
    target = {"FailureTarget": "True/BackoffLimitExceeded"}
    assert condition_steps(world) == [{}, target, target | {"Failed": "True/BackoffLimitExceeded"}]
    status = world.status(JOB, "j")
    assert status["failed"] == 1
    assert "completionTime" not in status


@pytest.mark.parametrize(("limit", "failures", "end"), [(2, 2, "Complete"), (2, 3, "Failed"), (0, 1, "Failed")])
def test_failed_pods_are_replaced_up_to_the_backoff_limit(limit: int, failures: int, end: str) -> None:
    world = begun(failing(failures), backoffLimit=limit)
    world.settle()
    status = world.status(JOB, "j")
    assert status["failed"] == failures
    assert end in conditions(status)


def test_the_wait_before_a_retry_doubles_and_no_pod_is_active_meanwhile() -> None:
    world = begun(failing(2), backoffLimit=6)
    world.run(3)
    assert world.status(JOB, "j").get("active") is None
    world.run(10)
    assert world.status(JOB, "j")["active"] == 1
    world.run(2)
    assert world.status(JOB, "j")["failed"] == 2
    world.run(18)
    assert world.status(JOB, "j").get("active") is None
    world.run(2)
    assert world.status(JOB, "j")["active"] == 1


def test_the_deadline_ends_a_job_that_stalls() -> None:
    world = begun(DownstreamBehaviour((DownstreamRule(DownstreamOutcome(Ending.STALL)),)), activeDeadlineSeconds=60)
    world.run(59)
    assert conditions(world.status(JOB, "j")) == {}
    world.run(1)
    assert conditions(world.status(JOB, "j")) == {"FailureTarget": "True/DeadlineExceeded"}
    assert world.status(JOB, "j")["terminating"] == 1
    world.settle()
    assert conditions(world.status(JOB, "j"))["Failed"] == "True/DeadlineExceeded"
    assert world.status(JOB, "j")["failed"] == 1


def test_a_pod_failure_policy_ends_a_job_at_once() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    policy = {"rules": [rule]}
    for code, reason, failed in ((42, "PodFailurePolicy", 1), (1, "BackoffLimitExceeded", 3)):
        world = begun(failing(exit_code=code), backoffLimit=2, podFailurePolicy=policy)
        world.settle()
        assert conditions(world.status(JOB, "j"))["Failed"] == f"True/{reason}"
        assert world.status(JOB, "j")["failed"] == failed


def _policy(*rules: tuple[str, str, int]) -> dict[str, Any]:
    return {
        "rules": [
            {"action": action, "onExitCodes": {"operator": operator, "values": [code]}}
            for action, operator, code in rules
        ]
    }


@pytest.mark.parametrize(
    ("rules", "reason", "failed"),
    [
        ([("Count", "In", 1), ("FailJob", "NotIn", 0)], "BackoffLimitExceeded", 2),
        ([("FailJob", "NotIn", 0), ("Count", "In", 1)], "PodFailurePolicy", 1),
    ],
)
def test_the_first_matching_rule_of_a_pod_failure_policy_decides(
    rules: list[tuple[str, str, int]], reason: str, failed: int
) -> None:
    world = begun(failing(), backoffLimit=1, podFailurePolicy=_policy(*rules))
    world.settle()
    assert conditions(world.status(JOB, "j"))["Failed"] == f"True/{reason}"
    assert world.status(JOB, "j")["failed"] == failed


def test_an_ignored_failure_is_not_counted_but_waited_for() -> None:
    world = begun(failing(3), backoffLimit=0, podFailurePolicy=_policy(("Ignore", "In", 1)))
    world.run(10)
    assert world.status(JOB, "j").get("active") is None
    world.settle()
    assert conditions(world.status(JOB, "j"))["Complete"] == "True/CompletionsReached"
    assert "failed" not in world.status(JOB, "j")


def test_a_pod_failure_policy_names_the_container_and_the_pod() -> None:
    world = begun(failing(exit_code=42), podFailurePolicy=_policy(("FailJob", "In", 42)))
    world.settle()
    found = world.status(JOB, "j")["conditions"][-1]["message"]
    assert re.fullmatch(
        rf"Container run for pod {NS}/j-[a-z0-9]{{5}} failed with exit code 42 matching FailJob rule at index 0", found
    )


def test_a_success_ends_the_growth_of_the_wait_before_a_retry() -> None:
    outcomes = ((Ending.FAIL, 1), (Ending.SUCCEED, 0), (Ending.FAIL, 2))
    once = (DownstreamRule(DownstreamOutcome(ending, exit_code=code, times=1)) for ending, code in outcomes)
    world = begun(DownstreamBehaviour(tuple(once)), completions=2, parallelism=1, backoffLimit=6)
    world.run(2 + 10 + 2 + 2)
    assert world.status(JOB, "j")["failed"] == 2
    world.run(9)
    assert world.status(JOB, "j").get("active") is None
    world.run(1)
    assert world.status(JOB, "j")["active"] == 1


def test_a_job_without_completions_is_complete_after_one_success_when_its_pods_have_ended() -> None:
    world = begun(failing(1), parallelism=2, backoffLimit=6)
    world.settle()
    status = world.status(JOB, "j")
    assert conditions(status)["Complete"] == "True/CompletionsReached"
    assert (status["succeeded"], status["failed"]) == (1, 1)


def test_a_deadline_counts_more_than_a_success_at_the_same_moment() -> None:
    world = begun(activeDeadlineSeconds=2)
    world.settle()
    assert conditions(world.status(JOB, "j"))["Failed"] == "True/DeadlineExceeded"


def test_an_exceeded_backoff_limit_counts_more_than_the_deadline() -> None:
    world = begun(failing(), activeDeadlineSeconds=2, backoffLimit=0)
    world.settle()
    assert conditions(world.status(JOB, "j"))["Failed"] == "True/BackoffLimitExceeded"


def test_a_suspended_job_runs_nothing_and_begins_afresh_when_it_is_resumed() -> None:
    world = begun(suspend=True)
    world.run(60)
    status = world.status(JOB, "j")
    assert conditions(status) == {"Suspended": "True/JobSuspended"}
    assert "startTime" not in status
    world.patch(JOB, "j", {"spec": {"suspend": False}})
    world.simulator.tick(world.clock.now())
    status = world.status(JOB, "j")
    assert conditions(status) == {"Suspended": "False/JobResumed"}
    first = status["startTime"]
    world.patch(JOB, "j", {"spec": {"suspend": True}})
    world.run(60)
    assert world.status(JOB, "j").get("active") is None
    world.patch(JOB, "j", {"spec": {"suspend": False}})
    world.settle()
    status = world.status(JOB, "j")
    assert status["startTime"] > first
    assert conditions(status)["Complete"] == "True/CompletionsReached"


def test_a_finished_job_is_removed_after_its_ttl_and_not_before() -> None:
    world = begun(ttlSecondsAfterFinished=100)
    world.settle()
    world.run(99)
    assert world.find(JOB, "j") is not None
    world.run(1)
    assert world.find(JOB, "j") is None


def test_parallel_pods_run_together_up_to_the_completions() -> None:
    world = begun(completions=5, parallelism=2)
    assert world.status(JOB, "j")["active"] == 2
    world.settle()
    actives = [get_path(state, "status", "active") or 0 for state in world.states(JOB)]
    assert max(actives) == 2
    assert world.status(JOB, "j")["succeeded"] == 5


def test_a_job_of_another_controller_is_left_alone() -> None:
    world = begun(managedBy="example.org/kueue")
    world.run(600)
    assert world.status(JOB, "j") == {}


def test_pods_are_ready_after_a_while() -> None:
    world = begun(DownstreamBehaviour(job=JobBehaviour(ready_seconds=5, pod_seconds=20)))
    assert world.status(JOB, "j")["ready"] == 0
    world.run(5)
    assert world.status(JOB, "j")["ready"] == 1


def test_a_restarted_controller_goes_on_with_its_pods() -> None:
    world = begun(failing(1), backoffLimit=3)
    world.run(1)
    world.simulator.crash()
    world.settle()
    assert world.status(JOB, "j")["failed"] == 1
    assert "Complete" in conditions(world.status(JOB, "j"))


def test_a_job_made_again_under_the_same_name_begins_from_nothing() -> None:
    world = begun()
    world.run(1)
    world.delete(JOB, "j")
    world.create(job(), JOB)
    world.run(1)
    assert world.status(JOB, "j")["active"] == 1
    world.run(10)
    assert world.status(JOB, "j")["succeeded"] == 1


def test_a_rule_for_one_namespace_leaves_others_alone() -> None:
    world = begun(DownstreamBehaviour((DownstreamRule(DownstreamOutcome(Ending.FAIL), namespace=f"not-{NS}"),)))
    world.settle()
    assert "Complete" in conditions(world.status(JOB, "j"))


# --- pods that cannot start (D7) --------------------------------------------------------------------------------------


def told(world: DownstreamWorld) -> list[tuple[str, str]]:
    """The Events on the Job, oldest first."""
    page = run_sync(world.api.list(CORE_EVENT, namespace=NS, field_selector="involvedObject.name=j"))
    return sorted((item["reason"], item["message"]) for item in page.items)


def under(account: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "serviceAccountName": account, "containers": [{"name": "run", "image": "tool:1"}]}
    return {"template": {"spec": pod}}


def test_without_its_service_account_there_is_no_pod_and_an_event() -> None:
    world = begun(**under("nobody"))
    world.clock.advance(3600)
    world.simulator.tick(world.clock.now())

    status = world.status(JOB, "j")
    assert "active" not in status
    assert "conditions" not in status, "the Job itself says nothing of it"
    assert told(world) == [
        (
            "FailedCreate",
            f'Error creating: pods "j-" is forbidden: error looking up service account {NS}/nobody:'
            ' serviceaccount "nobody" not found',
        )
    ]
    account = SERVICE_ACCOUNT.manifest("nobody", NS)
    run_sync(world.api.create(account, kind=SERVICE_ACCOUNT, field_manager="admin"))
    world.settle()
    assert conditions(world.status(JOB, "j"))["Complete"] == "True/CompletionsReached"
    assert ("Completed", "Job completed") in told(world)


def test_a_pod_that_is_refused_is_tried_again() -> None:
    quota = 'pods "j-" is forbidden: exceeded quota: small'
    world = begun(DownstreamBehaviour((DownstreamRule(DownstreamOutcome(Ending.REFUSED, quota)),)))
    assert "active" not in world.status(JOB, "j")
    assert told(world) == [("FailedCreate", f"Error creating: {quota}")]

    world.simulator.behaviour = DownstreamBehaviour()
    world.settle()
    assert conditions(world.status(JOB, "j"))["Complete"] == "True/CompletionsReached"


def test_a_pod_that_cannot_start_is_there_and_says_why_until_the_job_ends() -> None:
    stuck = DownstreamRule(DownstreamOutcome(Ending.STALL, "Back-off pulling image", waiting="ImagePullBackOff"))
    world = begun(DownstreamBehaviour((stuck,)), activeDeadlineSeconds=60)

    (pod,) = run_sync(world.api.list(POD, namespace=NS)).items
    assert get_path(pod, "status", "containerStatuses", 0, "state", "waiting") == {
        "reason": "ImagePullBackOff",
        "message": "Back-off pulling image",
    }
    assert get_path(pod, "metadata", "ownerReferences", 0, "uid") == world.get(JOB, "j")["metadata"]["uid"]
    assert world.status(JOB, "j")["active"] == 1

    world.clock.advance(61)
    world.settle()
    assert conditions(world.status(JOB, "j"))["Failed"] == "True/DeadlineExceeded"
    assert [
        get_path(item, "metadata", "deletionTimestamp") is None for item in run_sync(world.api.list(POD)).items
    ] == []
