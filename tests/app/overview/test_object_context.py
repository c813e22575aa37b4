"""What `status NAME` reads around one of several objects in a namespace: what is its own, and no more (SEE-1)."""

from datetime import UTC, datetime
from functools import partial

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CORE_EVENT
from tests.support.builders import NAMESPACE, instance_manifest, operation_manifest
from tests.support.e2e_world import usual_crds
from tests.support.furnished import furnish
from vworkspace_app.overview.reading import ObjectContext, read_object_context
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def event(name: str, about: Manifest, minute: int) -> Manifest:
    names = {key: about["metadata"][key] for key in ("name", "namespace", "uid")}
    involved = {"kind": about["kind"], **names}
    fields = {"involvedObject": involved, "reason": "Seen", "lastTimestamp": f"2026-06-01T11:{minute:02}:00Z"}
    return {**CORE_EVENT.manifest(name, NAMESPACE), **fields}


def two_instances() -> tuple[InProcessKube, Manifest, Manifest]:
    """A namespace with two ApplicationInstances."""
    api = InProcessKube(ApiServer(now=lambda: NOW))
    furnish(api, usual_crds(engines=False), NAMESPACE)
    create = partial(api.create, kind=APPLICATION_INSTANCE, field_manager="test")
    return api, run_sync(create(instance_manifest("mine"))), run_sync(create(instance_manifest("other")))


def read(api: InProcessKube, instance: Manifest) -> ObjectContext:
    return run_sync(read_object_context(api, APPLICATION_INSTANCE, instance, now=NOW))


def test_the_operations_of_another_instance_are_not_shown_below_this_one() -> None:
    api, mine, _ = two_instances()
    for name, target in (("a", "mine"), ("b", "other")):
        run_sync(api.create(operation_manifest(name, target=target), kind=OPERATION, field_manager="test"))
    assert [ref.name for ref in read(api, mine).objects if ref.kind == OPERATION] == ["a"]


def test_the_last_five_events_about_an_object_are_shown_the_oldest_first() -> None:
    """And none about an object before it of the same name, or about another one."""
    api, mine, other = two_instances()
    former = {**mine, "metadata": {**mine["metadata"], "uid": "a-former-one"}}
    events = [event(f"mine-{minute}", mine, minute) for minute in (7, 3, 9, 1, 5, 2)]
    events += [event("other", other, 30), event("former", former, 40)]
    for each in events:
        run_sync(api.create(each, kind=CORE_EVENT, field_manager="test"))
    shown = [each["metadata"]["name"] for each in read(api, mine).events]
    assert shown == ["mine-2", "mine-3", "mine-5", "mine-7", "mine-9"]
