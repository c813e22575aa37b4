"""RUN-11: no object costs work or memory without a bound, whoever wrote it, on none of the ways through the core.

Twice the object may cost at most three times the calls, and the worst that an API server takes at most `MOST_CALLS`
and 64 MiB. Calls are those of Python and of C functions (`tests/support/work.py`); loops inside one call of C are
bounded by the bytes that they read, but for regular expressions, which `test_bounds_of_patterns.py` counts.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest, allowed, patched, refused
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.nesting import decode_answer
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.structuring import read_meta
from purekube.controller.informer.store import ObjectStore
from purekube.ports import PatchType
from tests.support.effort import of_both
from tests.support.instance_worlds import CLUSTER, CONTEXT, NAMESPACE, NOW, instance_manifest, scene
from tests.support.jobs import CLUSTER_ID, job
from tests.support.operation_worlds import CONTEXT as OPERATIONS
from tests.support.operation_worlds import observed as operation_world
from tests.support.simulation import HELM, INSTANCE, Simulation
from tests.support.work import MIB, calls_of, peak_of
from tests.support.worst import CORPUS, INSTANCES, JOBS, STATUSES, TEXTS, Grower
from vworkspace_core.api.admission import admit, stored_problems
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.intent import forget
from vworkspace_core.instances.reconcile import decide_unreadable, reconcile, unreadable_instance
from vworkspace_core.jobs.events import condition_events, reported_conditions
from vworkspace_core.jobs.result import result_of
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.scope import admit as admit_job
from vworkspace_core.jobs.wire import Job, parse_job
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.unreadable import decide_unreadable_operation, unreadable_operation
from vworkspace_core.webhook.admission import WebhookSettings, default_patch, refusals

pytestmark = pytest.mark.slow

MOST_CALLS = 1_500_000
"""What a CPython of today does in some 150 milliseconds."""
MOST_BYTES = 64 * MIB
SLACK = 2_000
PART = of_both(4, 1)
"""`make test-slow` takes a quarter of the worst for a quarter of the work; `make test-long` the whole."""
NOTHING = InstanceObserved(NAMESPACE)
WEBHOOK = WebhookSettings(CLUSTER)

Way = Callable[[Any], Any]


def reconciled(manifest: Manifest) -> Any:
    """As the controllers do with an object from their cache."""
    if manifest["kind"] == "Operation":
        try:
            return reconcile_operation(read_operation(manifest), operation_world(), OPERATIONS)
        except ValidationProblems as error:
            return decide_unreadable_operation(unreadable_operation(manifest, error), operation_world(), OPERATIONS)
    try:
        return reconcile(read_application_instance(manifest), NOTHING, CONTEXT)
    except ValidationProblems as error:
        return decide_unreadable(unreadable_instance(manifest, error), NOTHING, CONTEXT)


def reviewed(manifest: Manifest) -> Any:
    """As the webhooks do, to the bytes of the answer."""
    request = AdmissionRequest("u", AdmissionOperation.CREATE, "org-myteam", "n", object=manifest)
    problems = refusals(request, WEBHOOK, namespace_managed=True)
    answer = refused(request, problems) if problems else allowed(request)
    return json.dumps([answer, patched(request, default_patch(request))])


def updated(manifest: Manifest) -> Any:
    """An update from the same object: nothing of its spec changes."""
    request = AdmissionRequest(
        "u", AdmissionOperation.UPDATE, "org-myteam", "n", object=manifest, old_object=dict(manifest)
    )
    return refusals(request, WEBHOOK, namespace_managed=True)


def applied_by_a_job(manifest: Manifest) -> Any:
    """As the agent does with a payload."""
    found = parse_job(job(payload=manifest))
    return admit_job(found, JobScope(CLUSTER_ID)) if isinstance(found, Job) else found


def told_by_the_agent(manifest: Manifest) -> Any:
    """As the agent does with what it watches."""
    return reported_conditions(manifest), condition_events(None, manifest, NOW), result_of(manifest, 1)


def cached(manifest: Manifest) -> Any:
    """As an informer does with what comes over the wire, and a reader of its store."""
    raw = msgspec.json.encode({"items": [manifest, instance_manifest()]})
    store = ObjectStore(APPLICATION_INSTANCE)
    store.buffer(decode_answer(raw, "items")["items"])
    return [*store.replace("1")], [*store.objects()]


WAYS: Mapping[str, Way] = {
    "the informer's store": cached,
    "metadata": read_meta,
    "admission": admit,
    "what is stored": stored_problems,
    "the webhook": reviewed,
    "the webhook, of an update": updated,
    "reconcile": reconciled,
    "the agent's payload": applied_by_a_job,
    "the agent's events": told_by_the_agent,
}


@pytest.mark.parametrize("grower", CORPUS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_an_object_costs_bounded_work_on_every_way(way: str, grower: Grower) -> None:
    check(WAYS[way], grower)


def check(way: Way, grower: Grower) -> None:
    """The law, for one way and one thing that grows."""
    small, large = (grower.make(max(1, grower.full // part)) for part in (128, 64))
    way(small)  # whatever is computed once
    forget()  # what is remembered of small specs would make the small one look cheap
    few = calls_of(lambda: way(small))
    calls_of(lambda: way(large), 3 * few + SLACK)
    worst = grower.make(grower.full // PART)
    calls_of(lambda: way(worst), MOST_CALLS // PART)
    quarter = grower.make(grower.full // (4 * PART))
    assert peak_of(lambda: way(quarter)) <= MOST_BYTES // (4 * PART)


@pytest.mark.parametrize("grower", STATUSES, ids=str)
def test_what_flux_says_costs_bounded_work(grower: Grower) -> None:
    check(lambda status: scene(status).decide(), grower)


@pytest.mark.parametrize("grower", JOBS, ids=str)
def test_what_a_control_plane_says_costs_bounded_work(grower: Grower) -> None:
    def taken(fields: Mapping[str, Any]) -> Any:
        found = parse_job({**job(), **fields})
        return admit_job(found, JobScope(CLUSTER_ID)) if isinstance(found, Job) else found

    check(taken, grower)


@pytest.mark.parametrize("grower", TEXTS, ids=str)
def test_redaction_costs_bounded_work(grower: Grower) -> None:
    check(redact, grower)


FEW = ("many keys", "a long list", "a long key", "hard to redact", "a long text", "conditions", "annotations")


@pytest.mark.parametrize(
    "grower", [instance for instance in INSTANCES if any(part in instance.name for part in FEW)], ids=str
)
def test_a_whole_pass_costs_bounded_work(grower: Grower) -> None:
    """From the cache to the last write, all decisions on the way included; the API server's own work is left out."""
    world = Simulation()
    made = grower.make(min(grower.full // 2, 20_000))  # with its managedFields it is as much as the server stores
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    made["metadata"] = {key: made["metadata"][key] for key in kept if key in made["metadata"]}
    with suppress(Invalid):
        run_sync(world.admin.create(made, kind=APPLICATION_INSTANCE, field_manager="people"))
        run_sync(
            world.admin.patch(
                INSTANCE,
                {"status": made.get("status", {})},
                patch_type=PatchType.MERGE,
                field_manager="people",
                subresource="status",
            )
        )

    calls_of(lambda: world.reconcile(INSTANCE), 2 * MOST_CALLS, but="kubelab")


@pytest.mark.parametrize("grower", STATUSES, ids=str)
def test_a_whole_pass_over_what_flux_says_costs_bounded_work(grower: Grower) -> None:
    world = Simulation()
    world.submit(instance_manifest())
    world.reconcile(INSTANCE)
    with suppress(Invalid):
        run_sync(
            world.admin.patch(
                HELM,
                {"status": grower.make(grower.full)},
                patch_type=PatchType.MERGE,
                field_manager="flux",
                subresource="status",
            )
        )

    calls_of(lambda: world.reconcile(INSTANCE), MOST_CALLS, but="kubelab")
