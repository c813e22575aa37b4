"""Laws of every engine: bounded parameters, owners where they are legal, one pod at a time (OPS-2, OPS-6, OPS-8)."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.resources import JOB, VELERO_BACKUP, VOLUME_SNAPSHOT
from tests.support.instance_worlds import UID
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    HOOK_TEMPLATE,
    NS,
    OP_UID,
    SETTINGS,
    conditions_of,
    observed,
    target_manifest,
    template,
)
from tests.support.operation_worlds import operation as made
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.operations.contract import EngineContext
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.engines.helm_hook_job import _annotations, _labels
from vworkspace_core.operations.identity import engine_manifest
from vworkspace_core.operations.pods import job_problems
from vworkspace_core.operations.reconcile import reconcile_operation

SCHEMAS = [
    pytest.param(template.schema, id=f"{template.type}.{engine.name}")
    for engine in ENGINES.values()
    for template in engine.templates
]


def unbounded(schema: Any, path: str) -> Iterator[str]:
    """Places at which a tenant may write as much as they like."""
    kinds = schema.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "string" in kinds and "maxLength" not in schema and "enum" not in schema:
        yield path
    if "array" in kinds and "maxItems" not in schema:
        yield path
    if "object" in kinds and schema.get("additionalProperties") is not False and "maxProperties" not in schema:
        yield path
    if "object" in kinds and isinstance(schema.get("additionalProperties"), dict):
        if "maxLength" not in schema.get("propertyNames", {}):
            yield f"{path}.{{}}"
        yield from unbounded(schema["additionalProperties"], f"{path}.*")
    for name, inner in schema.get("properties", {}).items():
        yield from unbounded(inner, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from unbounded(schema["items"], f"{path}[]")
    if not kinds and "enum" not in schema and "const" not in schema:
        yield path


FREE = {"valuesPatch"}
"""Values of charts have any form; admission limits them by their size as a whole (RUN-11)."""


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_parameter_of_a_built_in_template_is_bounded_OPS_2(schema: Any) -> None:
    found = [path for path in unbounded(schema, "parameters") if not FREE & set(path.split("."))]

    assert found == []


@given(st.none() | st.integers(-1, 3) | st.sampled_from(["1", [1]]), st.none() | st.integers(-1, 3))
@example(1, 1)
@example(None, 2)
@example(2, None)
def test_a_job_is_accepted_exactly_where_one_pod_runs_at_a_time_OPS_8(completions: Any, parallelism: Any) -> None:
    fields = {"completions": completions, "parallelism": parallelism}
    spec = {"template": HOOK_TEMPLATE, **{name: value for name, value in fields.items() if value is not None}}
    paths = {problem.path.rpartition(".")[2] for problem in job_problems(spec, SETTINGS)}

    refused = {name for name, value in fields.items() if value is not None and value != 1}
    assert paths == refused


KEYS = st.sampled_from(
    ["helm.sh/hook", "meta.helm.sh/release-name", "prometheus.io/scrape", "helm.sh.example/a", "a", ""]
)


@given(st.dictionaries(KEYS, st.text(max_size=3) | st.none() | st.integers()))
def test_a_hooks_pod_keeps_its_annotations_except_helms_own_OPS_8(annotations: dict[str, Any]) -> None:
    template = {"metadata": {"annotations": annotations}}

    assert _annotations(template) == {
        key: value
        for key, value in annotations.items()
        if isinstance(value, str) and not key.startswith(("helm.sh/", "meta.helm.sh/"))
    }
    assert _annotations({"metadata": {"annotations": "none"}}) == {}


def test_a_hooks_pod_keeps_its_labels_except_those_of_another_job_OPS_8() -> None:
    own = {"app": "nextcloud", "controller-uid": "1", "job-name": "a", "batch.kubernetes.io/controller-uid": "1",
           "batch.kubernetes.io/job-name": "a"}  # fmt: skip

    assert _labels({"metadata": {"labels": own}}) == {"app": "nextcloud"}


@pytest.mark.parametrize("kind", [JOB, VOLUME_SNAPSHOT, VELERO_BACKUP], ids=str)
@pytest.mark.parametrize("namespace", [None, NS, "velero"])
def test_an_object_has_its_operation_as_owner_exactly_where_it_is_beside_it_and_holds_no_data_OPS_6(
    namespace: str | None, kind: Kind
) -> None:
    """An owner in another namespace is garbage to the API server; data outlives the request for it."""
    target = read_application_instance(target_manifest())
    context = EngineContext(SETTINGS, template("runCommand.job"), holds_data=(VOLUME_SNAPSHOT, VELERO_BACKUP))
    manifest = engine_manifest(kind, made(), target, context, namespace=namespace)

    meta = manifest["metadata"]
    assert meta["namespace"] == (namespace or NS)
    owned = namespace != "velero" and kind == JOB
    assert [owner["uid"] for owner in meta.get("ownerReferences", ())] == ([OP_UID] if owned else [])
    assert meta["labels"]["app.vworkspace.io/instance-uid"] == UID
    elsewhere = meta["labels"].get("app.vworkspace.io/application-namespace")
    assert elsewhere == (NS if namespace == "velero" else None)


@pytest.mark.parametrize("of", sorted(GOOD))
def test_nothing_is_called_accepted_before_it_was_validated_OPS_3(of: str) -> None:
    """Cancelled before it started, it was never judged; with bad parameters it is refused."""
    cancelled = made(of, annotations={"ops.vworkspace.io/cancel": "true"})
    found = conditions_of(reconcile_operation(cancelled, observed(of), CONTEXT))
    assert "Accepted" not in found
    assert found["Cancelled"][0] == "True"

    bad = made(of, parameters={"no-such-parameter": True})
    assert conditions_of(reconcile_operation(bad, observed(of), CONTEXT))["Accepted"][0] == "False"
    started = reconcile_operation(made(of), observed(of), CONTEXT)
    assert conditions_of(started)["Accepted"] == ("True", "TemplateValidated")
    assert get_path(started.status, "status", "phase") == "Running"
