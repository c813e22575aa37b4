"""RES-5: names that fit everywhere, gates, and what hangs on labels and annotations."""

import re
import string
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from purekube.apimachinery.meta import ABANDON, APPLIED_HASH, ObjectMeta, is_abandoned
from purekube.apimachinery.names import bounded_name, engine_object_name
from tests.support.strategies import (
    CLUSTER_ID,
    application_instances,
    dns_labels,
    gated_namespace,
    json_values,
    operations,
    uids,
)
from vworkspace_core.api import labels
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.labels import (
    allowed_types,
    cancellation_requested,
    capabilities,
    cluster_id_of,
    downstream_labels,
    is_managed,
    namespace_is_managed,
    operation_labels,
    retry_token,
    type_is_allowed,
)
from vworkspace_core.api.operation import Operation

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")
LONG_NAMES = st.text(alphabet=string.ascii_lowercase + string.digits + "-.", min_size=64, max_size=253).map(
    lambda text: f"a{text[1:-1]}z"
)
LIMITS = st.integers(11, 80)


@given(st.text(max_size=63))
def test_a_name_that_fits_is_left_alone(name: str) -> None:
    assert bounded_name(name) == name


@given(LONG_NAMES, LIMITS)
def test_a_long_name_is_cut_to_a_valid_label_and_closed_with_a_hash(name: str, limit: int) -> None:
    assume(len(name) > limit)

    short = bounded_name(name, limit)

    assert len(short) <= limit
    assert LABEL_VALUE.fullmatch(short)
    head, _, digest = short.rpartition("-")
    assert re.fullmatch("[0-9a-f]{10}", digest)
    assert name.startswith(head)
    assert not head or head[-1].isalnum()


@given(LONG_NAMES, LONG_NAMES, LIMITS)
@example("a" * 70 + "b", "a" * 70 + "c", 63)
@example("a" * 62 + "--b", "a" * 62 + "-.b", 63)
@example("a" * 64, "a" * 65, 63)
def test_different_names_stay_different(left: str, right: str, limit: int) -> None:
    assume(left != right)

    assert bounded_name(left, limit) != bounded_name(right, limit)


@given(LONG_NAMES, LIMITS)
def test_shortening_twice_is_shortening_once(name: str, limit: int) -> None:
    assert bounded_name(bounded_name(name, limit), limit) == bounded_name(name, limit)


def test_the_rule_is_pinned_since_names_in_clusters_must_not_move() -> None:
    assert bounded_name("n" * 50 + "-" * 20 + "x") == "n" * 50 + "-" + "4bd891cafb"
    assert bounded_name("-" * 64) == "d164134b9d"


def test_a_limit_without_room_for_the_hash_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="leaves no room for 10 hash digits"):
        bounded_name("n" * 64, 9)


@given(dns_labels(253), uids(), st.integers(8, 80))
def test_an_engine_object_keeps_eight_digits_of_its_uid_OPS_1(name: str, uid: str, limit: int) -> None:
    result = engine_object_name(name, uid, limit)

    assert len(result) <= limit
    assert result.endswith(uid[:8])
    assert LABEL_VALUE.fullmatch(result)
    assert result == f"{name}-{uid[:8]}" or len(f"{name}-{uid[:8]}") > limit


def test_a_uid_that_is_no_uuid_gives_eight_hex_digits_too() -> None:
    assert re.fullmatch("backup-[0-9a-f]{8}", engine_object_name("backup", "uid-1"))
    assert engine_object_name("backup", "uid-1") != engine_object_name("backup", "uid-2")


@given(application_instances())
def test_downstream_labels_tell_whose_they_are(instance: ApplicationInstance) -> None:
    found = downstream_labels(instance, CLUSTER_ID)

    assert found == {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": CLUSTER_ID,
        "app.vworkspace.io/application-instance": instance.metadata.name,
        "app.vworkspace.io/instance-uid": instance.metadata.uid,
    }


@given(operations(), LONG_NAMES, LONG_NAMES)
def test_labels_of_an_operation_fit_whatever_the_names(operation: Operation, target: str, cluster_id: str) -> None:
    found = operation_labels(operation.metadata, target, cluster_id, target_uid="u")

    assert found["app.vworkspace.io/operation"] == operation.metadata.name
    assert found["app.vworkspace.io/operation-uid"] == operation.metadata.uid
    assert all(LABEL_VALUE.fullmatch(value) and len(value) <= 63 for value in found.values())
    assert "app.vworkspace.io/instance-uid" not in operation_labels(operation.metadata, target, cluster_id)


@given(json_values())
@example({"metadata": None})
@example({"metadata": {"labels": {"app.kubernetes.io/managed-by": "vworkspace"}}})
def test_only_the_label_opens_the_gate(namespace: Any) -> None:
    assert not namespace_is_managed(namespace)


def test_a_labelled_namespace_is_gated_and_a_missing_one_is_not() -> None:
    assert namespace_is_managed(gated_namespace())
    assert not namespace_is_managed(None)
    assert not namespace_is_managed({"metadata": {"labels": {"managed-by": "helm"}}})


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (None, None),
        ("", frozenset()),
        (" , ", frozenset()),
        ("Backup", {"Backup"}),
        ("Backup, Restore,,RunCommand ", {"Backup", "Restore", "RunCommand"}),
    ],
)
def test_types_admitted_in_a_namespace(annotation: str | None, expected: frozenset[str] | None) -> None:
    annotations = {} if annotation is None else {labels.ALLOWED_TYPES: annotation}
    namespace = {"metadata": {"annotations": annotations}}

    assert allowed_types(namespace) == expected
    assert type_is_allowed(namespace, "Backup") == (expected is None or "Backup" in expected)


def test_capabilities_are_read_from_annotations_and_nothing_else() -> None:
    meta = ObjectMeta(
        name="n",
        annotations={
            "ops.vworkspace.io/backup": "velero",
            "ops.vworkspace.io/restore": " ",
            "ops.vworkspace.io/cancel": "true",
            "ops.vworkspace.io/teleport": "job",
            "app.vworkspace.io/upgrade": "helm",
        },
        labels={"ops.vworkspace.io/migration": "workflow"},
    )

    assert capabilities(meta) == {"backup": "velero"}


def test_questions_to_an_object() -> None:
    plain = ObjectMeta(name="n")
    asked = ObjectMeta(
        name="n",
        labels={"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "c"},
        annotations={
            "ops.vworkspace.io/cancel": "true",
            "vworkspace.io/abandon": "true",
            "vworkspace.io/retry": "token-1",
        },
    )

    assert [is_managed(plain), cluster_id_of(plain), retry_token(plain)] == [False, None, None]
    assert [cancellation_requested(plain), is_abandoned(plain)] == [False, False]
    assert [is_managed(asked), cluster_id_of(asked), retry_token(asked)] == [True, "c", "token-1"]
    assert [cancellation_requested(asked), is_abandoned(asked)] == [True, True]


def test_a_value_other_than_true_asks_for_nothing() -> None:
    meta = ObjectMeta(name="n", annotations={labels.CANCEL: "false", ABANDON: "True", labels.RETRY: ""})

    assert [cancellation_requested(meta), is_abandoned(meta), retry_token(meta)] == [False, False, None]


@pytest.mark.parametrize(
    ("constant", "name"),
    [
        (labels.MANAGED_BY, "app.vworkspace.io/managed-by"),
        (labels.CLUSTER_ID, "app.vworkspace.io/cluster-id"),
        (labels.APPLICATION_INSTANCE, "app.vworkspace.io/application-instance"),
        (labels.OPERATION, "app.vworkspace.io/operation"),
        (labels.OPERATION_UID, "app.vworkspace.io/operation-uid"),
        (labels.INSTANCE_UID, "app.vworkspace.io/instance-uid"),
        (labels.NAMESPACE_GATE, "managed-by"),
        (labels.ALLOWED_TYPES, "ops.vworkspace.io/allowed-types"),
        (labels.CANCEL, "ops.vworkspace.io/cancel"),
        (labels.LAST_APPLIED_GENERATION, "vworkspace.io/last-applied-generation"),
        (APPLIED_HASH, "vworkspace.io/applied-hash"),
        (labels.IDEMPOTENCY_KEY, "vworkspace.io/idempotency-key"),
        (labels.FINALIZER, "vworkspace.io/operator"),
        (ABANDON, "vworkspace.io/abandon"),
        (labels.RETRY, "vworkspace.io/retry"),
    ],
)
def test_names_are_a_contract_with_clusters_that_exist(constant: str, name: str) -> None:
    assert constant == name
