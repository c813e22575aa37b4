"""Laws of the decision, over every mixture of reports Flux might make (REC-2, REC-5, REC-6, REC-7)."""

import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision, as_data
from tests.support.flux_reports import helm_reports, source_reports
from tests.support.instance_worlds import (
    CLUSTER,
    CONTEXT,
    DIGEST,
    NAMESPACE,
    RELEASE,
    SOURCE,
    applied,
    instance_manifest,
    stored,
    written,
)
from tests.support.strategies import application_instances
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.codec import read_application_instance, unstructure
from vworkspace_core.api.labels import CLUSTER_ID, FINALIZER, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.vocabulary import is_admitted
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.reconcile import reconcile


def ours(instance: ApplicationInstance) -> ApplicationInstance:
    """The instance, labelled for this cluster, with the finalizer on, not being deleted."""
    labels = {**instance.metadata.labels, MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: CLUSTER}
    meta = attrs.evolve(
        instance.metadata, labels=labels, finalizers=(FINALIZER,), deletion_timestamp=None, generation=1
    )
    return attrs.evolve(instance, metadata=meta)


def gated(namespace: str) -> Manifest:
    return {"metadata": {"name": namespace, "labels": {"managed-by": "vworkspace"}}}


def reported(release: dict[str, Any], source: dict[str, Any]) -> InstanceObserved:
    """Everything wanted is applied at generation 1, and Flux reports this."""
    objects = applied(instance_manifest())
    objects[RELEASE]["status"], objects[SOURCE]["status"] = release, source
    return InstanceObserved(NAMESPACE, objects)


def decision_on(manifest: Manifest, observed: InstanceObserved, context: Context = CONTEXT) -> Decision:
    return reconcile(read_application_instance(manifest), observed, context)


reports = st.builds(reported, helm_reports(), source_reports())


@given(application_instances())
def test_carried_out_and_decided_again_there_is_nothing_to_apply_REC_6(instance: ApplicationInstance) -> None:
    source = ours(instance)
    namespace = gated(source.metadata.namespace)
    first = reconcile(source, InstanceObserved(namespace), CONTEXT)

    objects = {apply.ref: stored(apply.manifest) for apply in first.applies}
    second = reconcile(source, InstanceObserved(namespace, objects), CONTEXT)

    assert not second.applies
    assert not second.deletes


@given(reports)
def test_a_written_status_is_not_written_again_REC_6(observed: InstanceObserved) -> None:
    manifest = instance_manifest()
    manifest = written(manifest, decision_on(manifest, observed))

    assert decision_on(manifest, observed).status is None
    assert decision_on(manifest, observed).events == ()


@given(reports)
def test_every_condition_is_in_the_vocabulary_RES_4(observed: InstanceObserved) -> None:
    decision = decision_on(instance_manifest(), observed)

    assert decision.status is not None
    for condition in decision.status["status"]["conditions"]:
        assert is_admitted("ApplicationInstance", condition["type"], condition["status"], condition["reason"]), (
            condition
        )


@given(reports, reports)
def test_last_transition_time_moves_with_the_status_alone_RES_4(
    before: InstanceObserved, after: InstanceObserved
) -> None:
    manifest = instance_manifest()
    manifest = written(manifest, decision_on(manifest, before))
    later = attrs.evolve(CONTEXT, now=CONTEXT.now + timedelta(hours=1))

    decision = decision_on(manifest, after, later)

    old = {c["type"]: c for c in get_path(manifest, "status", "conditions")}
    for condition in get_path(decision.status, "status", "conditions") or ():
        kept = condition["type"] in old and old[condition["type"]]["status"] == condition["status"]
        expected = old[condition["type"]]["lastTransitionTime"] if kept else "2026-06-01T13:00:00Z"
        assert condition["lastTransitionTime"] == expected


@given(reports)
def test_ready_means_that_flux_confirmed_exactly_this_release_REC_7(observed: InstanceObserved) -> None:
    decision = decision_on(instance_manifest(), observed)

    found = {c["type"]: c for c in get_path(decision.status, "status", "conditions")}
    if found["Ready"]["status"] != "True":
        return
    status = observed.objects[RELEASE]["status"]
    newest = status["history"][0]
    artifact = observed.objects[SOURCE]["status"]["artifact"]["revision"].partition("@")[2]
    assert newest["status"] == "deployed"
    assert newest["chartVersion"].startswith("6.6.0+")
    assert newest["ociDigest"] == status.get("lastAttemptedRevisionDigest", newest["ociDigest"]) == artifact
    assert status["lastAttemptedGeneration"] == 1
    assert observed.objects[SOURCE]["status"]["observedGeneration"] == 1


@given(reports)
def test_no_secret_of_fluxs_messages_is_repeated_RES_7(observed: InstanceObserved) -> None:
    assert b"hunter2" not in canonical_json(as_data(decision_on(instance_manifest(), observed)))


@given(reports, st.randoms(use_true_random=False))
def test_the_order_of_what_is_observed_does_not_matter(observed: InstanceObserved, order: random.Random) -> None:
    shuffled = list(observed.objects.items())
    order.shuffle(shuffled)
    objects = {}
    for ref, live in shuffled:
        conditions = list(get_path(live, "status", "conditions") or ())
        order.shuffle(conditions)
        objects[ref] = {**live, "status": {**live["status"], "conditions": conditions}}

    decision = decision_on(instance_manifest(), InstanceObserved(NAMESPACE, objects))

    assert canonical_json(as_data(decision)) == canonical_json(as_data(decision_on(instance_manifest(), observed)))


@given(reports)
def test_deciding_changes_none_of_its_arguments_REC_2(observed: InstanceObserved) -> None:
    manifest = instance_manifest()
    before = canonical_json([manifest, [*observed.objects.values()]])

    decision_on(manifest, observed)

    assert canonical_json([manifest, [*observed.objects.values()]]) == before


@given(reports)
def test_transitions_are_the_changes_of_status_or_reason_REC_1(observed: InstanceObserved) -> None:
    manifest = instance_manifest()
    decision = decision_on(manifest, observed)

    changed = [change.condition.type for change in decision.transitions]
    told = [kind for kind in changed if kind != "Reconciling" or "Ready" not in changed]
    assert [event.note.split()[0] for event in decision.events] == told, "one Event for one story"
    again = decision_on(written(manifest, decision), observed)
    assert again.transitions == ()


@given(application_instances())
def test_the_names_of_everything_downstream_follow_from_the_source_alone_REC_6(instance: ApplicationInstance) -> None:
    source = ours(instance)
    namespace = gated(source.metadata.namespace)
    decision = reconcile(source, InstanceObserved(namespace), CONTEXT)

    for apply in decision.applies:
        meta = apply.manifest["metadata"]
        assert meta["namespace"] == source.metadata.namespace
        assert meta["ownerReferences"][0]["uid"] == source.metadata.uid
        assert source.spec.release is not None
        assert meta["name"].startswith(source.spec.release.name)
    if source.spec.mode is Mode.PLACEHOLDER:
        assert decision.applies == ()


@given(application_instances(), st.sampled_from(["foreign", "ungated", "unlabelled", "terminating"]))
def test_behind_a_gate_nothing_is_applied_RES_5(instance: ApplicationInstance, gate: str) -> None:
    source = ours(instance)
    namespace: dict[str, Any] = {**gated(source.metadata.namespace)}
    labels = dict(source.metadata.labels)
    match gate:
        case "foreign":
            labels[CLUSTER_ID] = "another"
        case "unlabelled":
            del labels[MANAGED_BY]
        case "ungated":
            namespace["metadata"] = {"name": source.metadata.namespace}
        case "terminating":
            namespace["metadata"] |= {"deletionTimestamp": "2026-06-01T11:00:00Z"}
    source = attrs.evolve(source, metadata=attrs.evolve(source.metadata, labels=labels))

    decision = reconcile(source, InstanceObserved(namespace), CONTEXT)

    assert not decision.writes_downstream


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_in_every_process_REC_2() -> None:
    """Across processes and hash seeds: nothing in a decision may depend on the order of a set or dict of strings."""
    answers = {_bytes_in_another_process(seed) for seed in ("0", "1", "4242")}

    assert len(answers) == 1


def _bytes_in_another_process(seed: str) -> bytes:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.property.instances.test_laws import sample_decisions\n"
        "sys.stdout.buffer.write(sample_decisions())"
    )
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, check=True, capture_output=True
    ).stdout


def sample_decisions() -> bytes:
    """A handful of decisions of every sort, as bytes."""
    from tests.support.instance_worlds import attempted, deployed, fetched, flux_condition

    values = {"source": "secretRef", "secretRef": {"name": "v", "key": "values.yaml"}}
    rich = instance_manifest(values=values, integrations={"ingress": {"enabled": True, "host": "a.example"}})
    failing = attempted([flux_condition("Ready", "False", "ValuesError", "x")], version="")
    stranger = {"metadata": {"name": "nextcloud", "namespace": "org-myteam", "labels": {"b": "1", "a": "2"}}}
    samples = [
        decision_on(instance_manifest(), InstanceObserved(NAMESPACE)),
        decision_on(rich, InstanceObserved(NAMESPACE)),
        decision_on(instance_manifest(), reported(deployed(), fetched(DIGEST))),
        decision_on(instance_manifest(), reported(failing, fetched())),
        decision_on(instance_manifest(), InstanceObserved(NAMESPACE, {RELEASE: stranger})),
        decision_on(instance_manifest(), InstanceObserved()),
    ]
    return canonical_json([as_data(sample) for sample in samples])


@given(application_instances())
def test_a_decision_survives_the_wire_REC_2(instance: ApplicationInstance) -> None:
    """What is decided on a structured object is what is decided on the object read back from its manifest."""
    source = ours(instance)
    read_back = read_application_instance(unstructure(source))
    observed = InstanceObserved(gated(source.metadata.namespace))

    assert as_data(reconcile(source, observed, CONTEXT)) == as_data(reconcile(read_back, observed, CONTEXT))


def test_conditions_of_other_owners_are_left_alone_RES_4() -> None:
    manifest = {**instance_manifest(), "status": {"conditions": [_foreign()]}}
    decision = decision_on(manifest, InstanceObserved(NAMESPACE))

    assert "Backup" not in [c["type"] for c in get_path(decision.status, "status", "conditions")]
    assert [t.condition.type for t in decision.transitions] == ["Ready", "Reconciling"]


def _foreign() -> dict[str, Any]:
    return unstructure(Condition("Backup", ConditionStatus.TRUE, "Done", "", "2026-01-01T00:00:00Z", 1))


def test_the_ref_of_everything_is_known_before_it_exists() -> None:
    decision = decision_on(instance_manifest(), InstanceObserved(NAMESPACE))

    assert {apply.ref for apply in decision.applies} == {RELEASE, SOURCE}
    assert all(isinstance(apply.ref, ObjectRef) for apply in decision.applies)
