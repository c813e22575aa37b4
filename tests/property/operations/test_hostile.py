"""Hostile input (issue 4, bad input): refused with path and reason and nothing created, or harmless as a mere text."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.operation_simulation import Cluster
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    conditions_of,
    gated,
    message_of,
    observed,
    operation,
    template,
)
from vworkspace_core.api.codec import read_operation, unstructure
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation

NASTY = [
    "a: b\nkind: Secret",
    "x\n---\napiVersion: v1",
    "{{workflow.name}}",
    "$(reboot)",
    "`reboot`",
    "a; rm -rf /",
    "a && curl evil",
    "../../etc/passwd",
    "-",
    "a..b",
    ".a",
    "a.",
    "A",
    "аdmin",  # noqa: RUF001 - a Cyrillic letter is what is tried
    "ünïcode",
    "a\u202eb",
    "a\x00b",
    "a\tb",
    " a",
    "a ",
    "a\n",
    "\u0661",
    "*",
    "kube-system/../x",
    "a" * 254,
    "a" * 40_000,
    "",
]
hostile = st.sampled_from(NASTY) | st.text(min_size=1, max_size=60)


def leaves(value: Any) -> Iterator[str]:
    """Every text and key in a manifest."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value


def shape(value: Any) -> Any:
    """A manifest without its texts: what a smuggled line would change."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shape(item) for item in value]
    return type(value).__name__


def texts(of: str) -> list[str]:
    """The parameters of a template that are texts."""
    properties = template(of).schema["properties"]
    return [name for name, schema in properties.items() if schema.get("type") == "string" or name == "workflowTemplate"]


PLACES = [(of, name) for of in GOOD for name in texts(of)]


@pytest.mark.parametrize(("of", "name"), PLACES, ids=[f"{of}.{name}" for of, name in PLACES])
@given(value=hostile)
@example(value="a" * 253)
@example(value="a: b\nkind: Secret")
def test_a_hostile_text_is_refused_with_its_path_or_stays_a_text(of: str, name: str, value: str) -> None:
    benign = start_or_unmet(operation(of), observed(of), CONTEXT)
    found = operation(of, parameters={**GOOD[of], name: value})

    decision = reconcile_operation(found, observed(of), CONTEXT)

    assert isinstance(benign, Start)
    conditions = conditions_of(decision)
    if conditions["Accepted"][0] == "False":
        reasons = ("ValidationFailed", "HookNotFound")
        assert conditions["Accepted"][1] in reasons
        assert conditions["Accepted"][1] != "ValidationFailed" or f"spec.parameters.{name}" in message_of(
            decision, "Accepted"
        )
        assert not decision.writes_downstream
        return
    start = start_or_unmet(found, observed(of), CONTEXT)
    assert isinstance(start, Start)
    for made, usual in zip(start.objects, benign.objects, strict=True):
        if name in GOOD[of]:
            assert shape(made.manifest) == shape(usual.manifest), "nothing but texts may differ"
        told = set(leaves(made.manifest)) - set(leaves(usual.manifest))
        assert all(value.strip() and "\n" not in one for one in told)


@pytest.mark.parametrize("place", ["command", "args"])
@given(value=st.sampled_from(NASTY[:-2]) | st.text(max_size=60))
def test_an_argument_of_a_command_is_handed_over_as_it_is_and_no_shell_sees_it_OPS_8(place: str, value: str) -> None:
    start = start_or_unmet(
        operation(parameters={**GOOD["runCommand.job"], place: ["tool", value]}), observed(), CONTEXT
    )

    assert isinstance(start, Start)
    pod = start.objects[0].manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container[place] == ["tool", value]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    fields = {"restartPolicy", "serviceAccountName", "automountServiceAccountToken"}
    assert set(pod) == {*fields, "securityContext", "containers", "volumes"}


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("backup.velero", {"retention": 30}, "spec.parameters.retention"),
    ("backup.velero", {"hooks": {"resources": []}}, "spec.parameters.hooks"),
    ("backup.velero", {"includeNamespaces": ["kube-system"]}, "spec.parameters.includeNamespaces[0]"),
    ("backup.velero", {"includedResources": ["applicationinstances"]}, "spec.parameters.includedResources[0]"),
    ("backup.velero", {"storageLocation": "a" * 254}, "spec.parameters.storageLocation"),
    (
        "restore.velero",
        {"namespaceMapping": {"org-myteam": "kube-system"}},
        "spec.parameters.namespaceMapping.org-myteam",
    ),
    ("restore.velero", {"namespaceMapping": {"org-myteam": "Ünï"}}, "spec.parameters.namespaceMapping.org-myteam"),
    ("restore.velero", {"backupName": "of-another-tenant"}, "spec.parameters.backupName"),
    ("migration.workflow", {"workflowTemplate": 5}, "spec.parameters.workflowTemplate"),
    ("migration.workflow", {"entrypoint": "evil"}, "spec.parameters.entrypoint"),
    (
        "migration.workflow",
        {"workflowTemplateParameters": {"x": "{{=sprig.env('HOME')}}"}},
        "spec.parameters.workflowTemplateParameters.x",
    ),
    ("runCommand.job", {"image": "a\n  securityContext: {privileged: true}"}, "spec.parameters.image"),
    ("runCommand.job", {"env": {"A B": "c"}}, "spec.parameters.env"),
    ("runCommand.job", {"serviceAccountName": "default"}, "spec.parameters.serviceAccountName"),
    ("backup.volsync", {"repository": "../secrets"}, "spec.parameters.repository"),
    ("backup.volsync", {"retain": {"last": 3}}, "spec.parameters.retain.last"),
    ("backup.snapshot", {"pvc": "b" * 254}, "spec.parameters.pvc"),
    ("restore.snapshot", {"snapshotName": "not-there"}, "spec.parameters.snapshotName"),
]


@pytest.mark.parametrize(("of", "change", "path"), BAD, ids=[f"{i}-{of}-{path}" for i, (of, _, path) in enumerate(BAD)])
def test_bad_input_is_refused_with_its_path_and_nothing_is_ever_created(
    of: str, change: dict[str, Any], path: str
) -> None:
    world = Cluster(of)
    world.make_foreign_backup("of-another-tenant")
    ref = world.submit(of, "op-1", parameters={**GOOD[of], **change})

    for _ in range(3):
        world.settle(ref)
        world.pass_time(3600)

    assert world.condition(ref, "Accepted") == ("False", "ValidationFailed")
    (told,) = (
        condition.message for condition in world.operation(ref).status.conditions if condition.type == "Accepted"
    )
    assert f"{path}: " in told or f"{path}[" in told, told
    assert world.phase(ref) is Phase.PENDING
    assert world.creations() == 0


@pytest.mark.parametrize(
    "name", ["a" * 253, ".".join(["b" * 60] * 4), "c" * 64, "d." + "e" * 63, "0", "f" + "-" * 200 + "f"]
)
def test_names_at_the_limits_of_dns_run_like_any_other_RES_5(name: str) -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", name)

    world.settle(ref)

    found, _ = world.engine_object(ref)
    assert len(found.name) <= 63
    assert world.phase(ref) is Phase.RUNNING


def test_a_mapping_is_judged_by_the_namespaces_as_they_are_OPS_7() -> None:
    """The gate is looked at when the run starts, and once more before anything is created."""
    ref, namespace = gated("org-copy")
    one = operation("restore.velero", parameters={"backupName": "b-1", "namespaceMapping": {"org-myteam": "org-copy"}})
    seen = observed("restore.velero", objects={ref: namespace})
    decided = reconcile_operation(one, seen, CONTEXT).status
    assert decided is not None
    begun = {**decided["status"]}
    started = operation("restore.velero", parameters=one.spec.parameters)
    started = attrs.evolve(started, status=_status_of(begun, started))
    ungated = observed("restore.velero", objects={ref: {"metadata": {"name": "org-copy"}}})

    assert reconcile_operation(started, seen, CONTEXT).creates
    late = reconcile_operation(started, ungated, CONTEXT)

    assert late.creates == ()
    assert conditions_of(late)["Failed"] == ("True", "PreconditionFailed")


def _status_of(status: dict[str, Any], one: Any) -> Any:
    """The status as it would be read back."""
    return read_operation({**unstructure(one), "status": status}).status
