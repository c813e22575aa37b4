"""Every request that a step in an instance's life costs the API server, in order, by its own audit log (REC-1, REC-6).

What is counted is what the operator sends for that object: caches, the report on the Cluster and the records of jobs
apart. The numbers stand in docs/benchmarks.md.
"""

from collections.abc import Awaitable, Callable

import pytest

from kubelab.access.audit_log import AuditEntry
from kubelab.model.calls import RequestVerb
from tests.support.e2e_world import CLUSTER, INSTANCE, LATER, OPERATOR, OWN_NS, World, instance
from tests.support.operation_requests import APPROVAL_SECRET, ENGINES_QUICK, FLUX, Operating
from tests.support.servers import IN_PROCESS
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY

FOREIGN_RELEASE = ["list secrets"]
"""Whether Helm alone has installed a release of that name (decision 185)."""
FIRST_WRITES = ["patch ocirepositories", "patch helmreleases"]
BEGUN = ["patch applicationinstances status"]
"""The Event about the beginning is left out, because its end comes within two seconds (RUN-5)."""
TOLD = ["patch applicationinstances status", "create events"]
LOOKED_AT_BY_THE_AGENT = ["get namespaces", "get applicationinstances"]
IS_CURRENT = ["get applicationinstances"]
"""Nothing is written downstream for an old copy, where no write to the instance itself comes first (REC-7)."""
OWNED = [f"list {kind}" for kind in ("helmreleases", "ocirepositories", "helmrepositories", "configmaps")]
LIVE = ["get namespaces", *OWNED]
DEFINITION = ["get customresourcedefinitions"]

Step = Callable[[World], Awaitable[None]]


def requests(step: Step, *, on_ready: bool = True) -> list[str]:
    """What the operator sends because of `step`, which begins when a Ready instance has been quiet for a while."""
    sent: list[AuditEntry] = []

    async def story(world: World) -> None:
        if on_ready:
            await world.ready()
            await world.clock.sleep(5)
        world.cluster.audit.clear()
        await step(world)
        await world.clock.sleep(2)  # the last Events
        sent.extend(world.cluster.audit.select(lambda entry: entry.user == OPERATOR))

    IN_PROCESS.run(story)
    return [_short(entry) for entry in sent if _counts(entry)]


def _counts(entry: AuditEntry) -> bool:
    return entry.verb is not RequestVerb.WATCH and f"/{OWN_NS}/" not in entry.path and "/clusters" not in entry.path


def _short(entry: AuditEntry) -> str:
    """Verb, resource and subresource: `patch applicationinstances status`."""
    parts = entry.path.split("/")[3 if entry.path.startswith("/api/") else 4 :]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return " ".join((entry.verb.value, parts[0], *parts[2:]))


async def _is_ready(world: World) -> None:
    await world.until(lambda: world.conditions().get("Ready", "").startswith("True"), "Ready")


def test_from_kubectl_to_ready_there_are_five_writes_and_one_event() -> None:
    async def somebody_creates_it(world: World) -> None:
        manifest = instance()
        manifest["metadata"]["labels"] = {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}
        world.create_object(manifest, APPLICATION_INSTANCE)
        await _is_ready(world)

    sent = requests(somebody_creates_it, on_ready=False)

    assert sent == [*FOREIGN_RELEASE, "patch applicationinstances", *FIRST_WRITES, *BEGUN, *TOLD]


def test_from_a_job_to_ready_there_are_four_writes_and_one_event_PULL_2() -> None:
    async def odoo_asks_for_it(world: World) -> None:
        await world.ready()

    sent = requests(odoo_asks_for_it, on_ready=False)

    by_agent, by_reconciler = sent[:3], sent[3:]
    assert by_agent == [*LOOKED_AT_BY_THE_AGENT, "patch applicationinstances"]
    assert by_reconciler == [*FOREIGN_RELEASE, *IS_CURRENT, *FIRST_WRITES, *BEGUN, *TOLD]


@pytest.mark.slow
def test_another_version_costs_as_much_and_takes_the_old_source_away_PULL_2_REC_14() -> None:
    async def odoo_asks_for_another_version(world: World) -> None:
        await world.ready(LATER, 8)

    sent = requests(odoo_asks_for_another_version)

    by_agent, by_reconciler = sent[:3], sent[3:]
    assert by_agent == [*LOOKED_AT_BY_THE_AGENT, "patch applicationinstances"]
    pruned = [*IS_CURRENT, "delete ocirepositories"]
    assert by_reconciler == [*IS_CURRENT, *FIRST_WRITES, *BEGUN, *pruned, *TOLD]


@pytest.mark.slow
def test_other_values_cost_three_writes() -> None:
    async def somebody_edits_it(world: World) -> None:
        generation = world.edit(INSTANCE, {"spec": {"values": {"inline": {"replicaCount": 3}}}})["metadata"][
            "generation"
        ]
        await world.until(lambda: world.get(INSTANCE)["status"]["observedGeneration"] == generation, "seen")
        await _is_ready(world)

    assert requests(somebody_edits_it) == [*IS_CURRENT, "patch helmreleases", *BEGUN, *TOLD]


def test_a_deletion_is_decided_on_live_reads_and_never_asks_what_a_delete_has_left_REC_10() -> None:
    async def somebody_deletes_it(world: World) -> None:
        world.delete_object(INSTANCE)
        await world.until(lambda: world.find(INSTANCE) is None, "gone")

    sent = requests(somebody_deletes_it)

    writes = [request for request in sent if request.split()[0] not in ("get", "list")]
    assert [request for request in writes if request != "create events"] == [
        "delete helmreleases",
        "patch applicationinstances status",
        "delete ocirepositories",
        "patch applicationinstances status",
        "patch applicationinstances",
    ]
    for delete in ("delete helmreleases", "delete ocirepositories"):
        after = sent[sent.index(delete) + 1]
        assert after == "patch applicationinstances status", "its answer says what is left"
    assert sent[:6] == [*LIVE, *DEFINITION]


def test_a_settled_instance_costs_nothing_REC_6() -> None:
    async def an_hour_passes(world: World) -> None:
        await world.clock.sleep(3600)

    of_caches = "list "  # each kind is listed anew now and then
    assert [request for request in requests(an_hour_passes) if not request.startswith(of_caches)] == []


def test_an_operation_that_waits_lists_no_others_and_one_that_starts_lists_them_once_OPS_5() -> None:
    async def story(world: World) -> None:
        ops = Operating(world)
        await ops.prepare()
        ops.approve_with(APPROVAL_SECRET)
        waiting = ops.submit("backup.velero", "waiting", approvals={"required": True})
        await ops.says(waiting, "Blocked", "True/AwaitingApproval")
        await world.clock.sleep(5)
        world.cluster.audit.clear()
        for number in range(3):
            world.edit(waiting, {"metadata": {"labels": {"look": str(number)}}})
            await world.clock.sleep(5)
        assert _operations_listed(world) == 0

        started = ops.submit("backup.velero", "started")
        await ops.reaches(started, "Succeeded")
        assert _operations_listed(world) == 1

    IN_PROCESS.run(story, behaviour=FLUX, engines=ENGINES_QUICK)


def _operations_listed(world: World) -> int:
    sent = world.cluster.audit.select(lambda entry: entry.user == OPERATOR and entry.verb is RequestVerb.LIST)
    return sum(1 for entry in sent if entry.path.endswith("/operations"))
