"""RUN-12, PH-3: what stands on a parent as a record, whoever wrote it."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from purekube.boxes.decision.decide import composite_of
from purekube.composites.parent import MOST_KINDS, recorded_kinds
from purekube.controller.decision import Snapshot
from tests.support.boxes import box_of, config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOX = box_of(config("once", apply="Once"))
CREATED = "box.vworkspace.io/created"


def parent(annotations: dict[str, str], manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
    meta = {
        "name": "shop",
        "namespace": "team",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 1,
        "finalizers": [composite_of(BOX).finalizer],
        "annotations": annotations,
        "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": fields}],
    }
    spec = {"image": "i", "parts": [], "replicas": 2}
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": meta, "spec": spec}


def records(text: str, manager: str) -> list[tuple[str | None, str]]:
    composite = composite_of(BOX)
    decision = composite.decide(composite.read(parent({CREATED: text}, manager)), Snapshot(), NOW)
    return [(create.ref.namespace, create.ref.name) for create in decision.creates]


def test_a_record_never_takes_an_object_into_the_namespace_of_another_tenant_RUN_12() -> None:
    forged = msgspec.json.encode([{"node": "once", "name": "mine", "namespace": "org-victim"}]).decode()
    assert records(forged, BOX.field_manager) == [("team", "mine")]
    assert records(forged, "kubectl-edit") == [], "what a tenant wrote is no record: it is written down first"


def test_a_cached_parent_believes_what_a_live_one_does_for_each_tenant_RUN_12() -> None:
    composite = composite_of(BOX)
    for manager, text in ((BOX.field_manager, "[]"), ("kubectl-edit", "")):
        live = parent({CREATED: "[]"}, manager)
        for manifest in (live, composite.as_cached(live)):
            assert composite.record(composite.read(manifest), CREATED) == text


def test_kinds_that_a_tenant_makes_up_are_read_as_kinds_or_not_at_all() -> None:
    assert recorded_kinds("Pod/../../secrets.v1 Secret/?x.v1 X/y.v1.g/h A/b " + "[" * 90_000) == ()
    assert len(recorded_kinds(" ".join(f"A/a{at}.v1" for at in range(MOST_KINDS * 9)))) == MOST_KINDS
    assert [kind.crd_name for kind in recorded_kinds("Ingress/ingresses.v1.networking.k8s.io Node/nodes.v1/")] == [
        "ingresses.networking.k8s.io",
        "nodes.",
    ]
