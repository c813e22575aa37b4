"""Nothing comes out that a tenant could not do itself: every field, parameter and annotation, in the core (RUN-12)."""

from collections.abc import Iterator
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import HELM_RELEASE, JOB, SECRET
from tests.support.instance_worlds import CONTEXT, NAMESPACE, instance_manifest
from tests.support.operation_worlds import CONTEXT as OPERATING
from tests.support.operation_worlds import GOOD, NS, observed, operation_manifest, template
from tests.support.tenant_matrix import VICTIM, annotated, attempts, beyond, parameter_attempts
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.operation import Operation
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.operations.preconditions import Start, start_or_unmet

Made = tuple[Kind, Manifest]


def of_instance(manifest: dict[str, Any]) -> Iterator[Made]:
    try:
        source = read_application_instance(manifest)
    except ValidationProblems:
        return  # the API server refuses it
    decision = reconcile(source, InstanceObserved(namespace=NAMESPACE), CONTEXT)
    for apply in decision.applies:
        yield apply.kind, apply.manifest
    for made in decision.creates:
        yield made.kind, made.manifest


def of_operation(manifest: dict[str, Any], of: str) -> Iterator[Made]:
    try:
        operation = read_operation(manifest)
    except ValidationProblems:
        return
    found = start_or_unmet(operation, observed(of), OPERATING)
    if isinstance(found, Start):
        yield from ((made.ref.kind, made.manifest) for made in found.objects)


def test_the_matrix_looks_at_every_field_and_something_comes_out_of_the_good_ones() -> None:
    assert [made[0] for made in of_instance(instance_manifest())][-1] == HELM_RELEASE
    fields = {path for path, _ in attempts(instance_manifest(), ApplicationInstance)}
    assert {"spec.release.namespace", "spec.release.serviceAccountName", "spec.chart.url"} <= fields
    for of in GOOD:
        made = list(of_operation(operation_manifest(of), of))
        assert made or of == "upgrade.helm", of


def test_nothing_comes_out_of_an_instance_that_its_tenant_could_not_do_RUN_12() -> None:
    good = instance_manifest()
    tried = [*attempts(good, ApplicationInstance), *annotated(good)]
    out = [(path, problem) for path, bad in tried for made in of_instance(bad) for problem in beyond(*made, NS)]
    assert out == []
    assert sum(1 for _, bad in tried for made in of_instance(bad) if made[0] == HELM_RELEASE) > 50, "most get through"


@pytest.mark.parametrize("of", GOOD)
def test_nothing_comes_out_of_an_operation_that_its_tenant_could_not_do_RUN_12(of: str) -> None:
    good = operation_manifest(of)
    tried = [*attempts(good, Operation), *parameter_attempts(good, template(of)), *annotated(good)]
    out = [(path, problem) for path, bad in tried for made in of_operation(bad, of) for problem in beyond(*made, NS)]
    assert out == []


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (HELM_RELEASE, {"serviceAccountName": "cluster-admin"}),
        (HELM_RELEASE, {"serviceAccountName": "vworkspace-release", "targetNamespace": VICTIM}),
        (HELM_RELEASE, {"serviceAccountName": "vworkspace-release", "kubeConfig": {}}),
        (JOB, {"template": {"spec": {"hostPID": True, "containers": [{}]}}}),
        (SECRET, {}),
    ],
)
def test_the_judge_sees_what_it_is_for(kind: Kind, spec: dict[str, Any]) -> None:
    assert beyond(kind, {"metadata": {"namespace": NS}, "spec": spec}, NS)
    assert beyond(kind, {"metadata": {"namespace": VICTIM}, "spec": {}}, NS)
