"""RUN-11: the worst object that an API server takes costs bounded work wherever it is judged, counted in calls."""

from collections.abc import Callable
from typing import Any

import pytest

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest, refused
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem, ValidationProblems
from tests.support.instance_worlds import CLUSTER, CONTEXT, NAMESPACE, instance_manifest
from tests.support.operation_worlds import CONTEXT as OPERATIONS
from tests.support.operation_worlds import TEMPLATES, observed, operation_manifest
from tests.support.work import calls_of
from vworkspace_core.api.admission import admit, stored_problems
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.reconcile import decide_unreadable, reconcile, unreadable_instance
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.schema_violations import violations_of
from vworkspace_core.webhook.admission import WebhookSettings, refusals

pytestmark = pytest.mark.slow

_MOST_CALLS = 1_000_000
"""Some 100 ms of one core."""


def inline(values: Any) -> Manifest:
    return instance_manifest(values={"source": "inline", "inline": values})


def cluster(sources: list[Any]) -> Manifest:
    spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": "https://x", "policy": {"allowedChartSources": sources}}
    return {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec}


def nested(depth: int) -> Any:
    value: Any = {"password": "x"}
    for _ in range(depth):
        value = {"a" * 40: value}
    return value


WORST: dict[str, Callable[[int], Manifest]] = {
    "list of wrong items": lambda n: operation_manifest("runCommand.job", parameters={"command": [1] * n}),
    "list of good items": lambda n: operation_manifest("runCommand.job", parameters={"args": ["a"] * n}),
    "list of objects": lambda n: operation_manifest("runCommand.job", parameters={"env": [{}] * n}),
    "map": lambda n: operation_manifest("runCommand.job", parameters={"env": {f"1{i}": 1 for i in range(n)}}),
    "unknown keys": lambda n: operation_manifest("backup.velero", parameters={f"k{i}": 1 for i in range(n)}),
    "resources": lambda n: operation_manifest("backup.velero", parameters={"includedResources": ["?"] * n}),
    "values patch": lambda n: operation_manifest(
        "upgrade.helm", parameters={"valuesPatch": {"password": ["x"] * n}, "targetVersion": "1.0.0"}
    ),
    "secrets": lambda n: inline({"password": ["x"] * n}),
    "nearly secrets": lambda n: inline({"password": [""] * n}),
    "keys": lambda n: inline({f"{i}d": "" for i in range(n)}),
    "numbers": lambda n: inline({"a": [0] * n}),
    "a long key": lambda n: inline({"k" * n: {"password": "x"}}),
    "a dear key": lambda n: inline({"token=a" + "," * n: {"password": "x"}}),
    "depth": lambda n: inline(nested(min(n // 10, 600))),
    "unknown fields": lambda n: {**inline({}), "spec": {f"k{i}": i for i in range(n)}},
    "conditions": lambda n: {**inline({}), "status": {"conditions": [{}] * n}},
    "owners": lambda n: {**inline({}), "metadata": {"name": "x", "ownerReferences": [{}] * n}},
    "chart sources": lambda n: cluster(["oci://x"] * n),
    "wrong chart sources": lambda n: cluster([1] * n),
}
SIZES = {"numbers": 250_000, "secrets": 120_000, "nearly secrets": 120_000}


def size_of(name: str) -> int:
    return SIZES.get(name, 60_000)


@pytest.mark.parametrize("name", WORST)
def test_what_is_wrong_is_counted_to_32_and_no_further(name: str) -> None:
    """H6."""
    manifest = WORST[name](size_of(name))
    request = AdmissionRequest("u", AdmissionOperation.CREATE, "org-myteam", "x", object=manifest)
    settings = WebhookSettings(CLUSTER, templates=TEMPLATES)

    for judge in (admit, stored_problems, lambda one: refusals(request, settings, namespace_managed=True)):
        work = calls_of(lambda judge=judge: refused(request, judge(manifest)))  # type: ignore[misc]
        assert work < _MOST_CALLS

    found = (*admit(manifest), *stored_problems(manifest), *refusals(request, settings, namespace_managed=False))
    assert len(found) <= 3 * MOST_PROBLEMS
    assert all(len(str(problem)) < 4096 for problem in found)


@pytest.mark.parametrize("name", WORST)
def test_twice_the_object_is_at_most_three_times_the_work(name: str) -> None:
    small, large = (WORST[name](size) for size in (2_000, 4_000))
    stored_problems(small)  # whatever is computed once, by whichever test of the process comes first

    assert calls_of(lambda: stored_problems(large)) <= 3 * calls_of(lambda: stored_problems(small)) + 200


@pytest.mark.parametrize("name", [name for name in WORST if "chart sources" not in name])
def test_a_decision_on_the_worst_object_is_bounded_work(name: str) -> None:
    manifest = WORST[name](size_of(name))

    assert calls_of(lambda: decided(manifest)) < _MOST_CALLS


def decided(manifest: Manifest) -> object:
    try:
        if manifest["kind"] == "Operation":
            return reconcile_operation(read_operation(manifest), observed(), OPERATIONS)
        return reconcile(read_application_instance(manifest), InstanceObserved(NAMESPACE), CONTEXT)
    except ValidationProblems as error:
        return decide_unreadable(unreadable_instance(manifest, error), InstanceObserved(NAMESPACE), CONTEXT)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "string"}},
        {"items": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}},
        {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "object"}}]},
        {"uniqueItems": True},
        {"contains": {"type": "string"}},
        {"prefixItems": [], "unevaluatedItems": False},
    ],
    ids=str,
)
def test_a_template_that_bounds_no_list_is_bounded_all_the_same(schema: Any) -> None:
    """Whoever writes a template may forget `maxItems`."""
    values = [1, 2] * 60_000

    assert calls_of(lambda: violations_of(schema, values, "spec.parameters")) < _MOST_CALLS
    assert violations_of(schema, values, "spec.parameters")


def test_no_more_members_than_are_looked_into() -> None:
    assert violations_of({"items": {}}, [1] * 1025, "p") == (Problem("p", "must have at most 1024 items, not 1025"),)
    assert violations_of({"additionalProperties": {}}, {str(i): 1 for i in range(1025)}, "p") != ()
    assert violations_of({"type": "array"}, [1] * 1025, "p") == ()
    assert violations_of({"items": {}, "maxItems": 2000}, [1] * 1025, "p") == ()
