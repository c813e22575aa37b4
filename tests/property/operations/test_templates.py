"""Templates are data, and what does not fit them is refused with path and rule (OPS-2, OPS-3, bad input)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.durations import go_duration, seconds_with_days
from purekube.apimachinery.problems import ValidationProblems
from tests.support.operation_worlds import GOOD, template
from tests.support.strategies import json_values
from tests.support.template_data import BUILTIN_TEMPLATES
from vworkspace_core.api.operation import EngineName, OperationType
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.templates import Templates, load_template

BUILTIN = builtin_templates()
NAMES = ("image", "command", "env")


def test_the_eleven_of_OPS_2_are_there_and_only_the_velero_restore_needs_approval() -> None:
    assert {item.name for item in BUILTIN.items} == set(GOOD)
    assert [item.name for item in BUILTIN.items if item.needs_approval] == ["restore.velero"]
    assert {item.engine for item in BUILTIN.items} == {engine.value for engine in EngineName}


def test_restores_and_upgrades_never_wait_for_a_ready_target_OPS_3() -> None:
    asking = {item.type for item in BUILTIN.items if item.needs_ready_target}

    assert asking == {OperationType.MIGRATION, OperationType.RUN_COMMAND, OperationType.RUNBOOK}


@pytest.mark.parametrize("name", GOOD)
def test_good_parameters_are_good(name: str) -> None:
    assert template(name).problems_of(GOOD[name]) == ()


@pytest.mark.parametrize(
    ("name", "change", "path", "words"),
    [
        ("backup.velero", {"retention": 30}, "spec.parameters.retention", "must be a string, not a number"),
        ("backup.velero", {"retention": "30d\n"}, "spec.parameters.retention", "such as"),
        ("backup.velero", {"retention": "thirty days"}, "spec.parameters.retention", "such as"),
        ("backup.velero", {"includeNamespaces": ["ok", "Bad_Name"]}, "spec.parameters.includeNamespaces[1]", "such as"),
        ("backup.velero", {"includeNamespaces": ["*"]}, "spec.parameters.includeNamespaces[0]", "such as"),
        ("backup.velero", {"includeNamespaces": []}, "spec.parameters.includeNamespaces", "must not be empty"),
        (
            "backup.velero",
            {"storageLocation": "a" * 254},
            "spec.parameters.storageLocation",
            "characters, not 254",
        ),
        ("backup.velero", {"storageLocation": "ünïcode"}, "spec.parameters.storageLocation", "such as"),
        ("backup.velero", {"storageLocation": "a: b\nkind: Secret"}, "spec.parameters.storageLocation", "such as"),
        ("backup.velero", {"hooks": {}}, "spec.parameters.hooks", "unknown key"),
        ("restore.velero", {"backupName": "b; rm -rf /"}, "spec.parameters.backupName", "such as"),
        ("restore.velero", {"namespaceMapping": {"a": "B"}}, "spec.parameters.namespaceMapping.a", "such as"),
        ("upgrade.helm", {"targetVersion": "^6"}, "spec.parameters.targetVersion", "such as"),
        ("upgrade.helm", {"targetVersion": "latest"}, "spec.parameters.targetVersion", "such as"),
        ("upgrade.helm", {"targetVersion": "\u0666.\u0667.\u0660"}, "spec.parameters.targetVersion", "such as"),
        ("upgrade.helm", {"valuesPatch": ["x"]}, "spec.parameters.valuesPatch", "must be an object, not a list"),
        ("migration.helmHookJob", {"hookName": "$(reboot)"}, "spec.parameters.hookName", "such as"),
        (
            "migration.workflow",
            {"workflowTemplateParameters": {"x": "{{workflow.name}}"}},
            "spec.parameters.workflowTemplateParameters.x",
            "such as",
        ),
        (
            "migration.workflow",
            {"workflowTemplateParameters": {"x": "a\nb: c"}},
            "spec.parameters.workflowTemplateParameters.x",
            "such as",
        ),
        ("runCommand.job", {"image": "x y"}, "spec.parameters.image", "such as"),
        ("runCommand.job", {"command": "sh -c true"}, "spec.parameters.command", "must be a list, not a string"),
        ("runCommand.job", {"privileged": True}, "spec.parameters.privileged", "unknown key"),
        ("runCommand.job", {"backoffLimit": True}, "spec.parameters.backoffLimit", "must be an integer, not a boolean"),
        (
            "runCommand.job",
            {"env": [{"name": "A", "valueFrom": {}}]},
            "spec.parameters.env[0].valueFrom",
            "at least one of",
        ),
        ("backup.volsync", {"schedule": "0 3 * * *; reboot"}, "spec.parameters.schedule", "such as"),
        ("restore.snapshot", {"size": "-1Gi"}, "spec.parameters.size", "such as"),
        ("restore.snapshot", {"accessModes": ["All"]}, "spec.parameters.accessModes[0]", "one of"),
    ],
)
def test_bad_input_is_refused_with_path_and_rule(name: str, change: dict[str, Any], path: str, words: str) -> None:
    problems = template(name).problems_of({**GOOD[name], **change})

    assert [problem.path for problem in problems] == [path]
    assert words in problems[0].message


@pytest.mark.parametrize("name", [name for name in GOOD if name != "backup.velero"])
def test_what_is_required_is_named(name: str) -> None:
    problems = template(name).problems_of({})

    assert problems
    assert all(problem.path.startswith("spec.parameters") for problem in problems)


@pytest.mark.parametrize("name", GOOD)
def test_no_message_repeats_a_value(name: str) -> None:
    hidden = "hunter2-of-the-hidden"
    broken = {key: [hidden] if isinstance(value, str) else hidden for key, value in GOOD[name].items()}

    problems = template(name).problems_of(broken)

    assert problems
    assert hidden not in "; ".join(map(str, problems))


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_of_what_is_required_exactly_what_is_missing_is_named(required: set[str], given_names: set[str]) -> None:
    schema = {"type": "object", "required": sorted(required)}
    one = load_template({**BUILTIN_TEMPLATES[1], "parameters": schema})

    told = {str(problem) for problem in one.problems_of(dict.fromkeys(given_names, 1))}

    assert told == {f"spec.parameters.{name}: is required" for name in required - given_names}


@given(st.sampled_from(BUILTIN.items), json_values(20))
def test_any_parameters_are_judged_without_raising(one: Any, parameters: Any) -> None:
    for problem in one.problems_of(parameters):
        assert problem.path.startswith("spec.parameters")
        assert problem.message


def test_every_built_in_template_is_one_that_a_file_may_hold_OPS_2() -> None:
    """They are not checked at each start."""
    assert Templates().adding(BUILTIN_TEMPLATES) == BUILTIN


def test_a_template_is_added_as_data_and_replaces_its_namesake() -> None:
    foreign = {**BUILTIN_TEMPLATES[1], "allowForeignBackups": True}

    templates = BUILTIN.adding([foreign])

    found = templates.find("Restore", "velero")
    assert found is not None
    assert found.allow_foreign_backups
    assert len(templates.items) == len(BUILTIN.items)
    assert templates.find("Backup", "job") is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"type": "Explode"}, "type"),
        ({"extra": 1}, "extra"),
        ({"capability": "flying"}, "capability"),
        ({"parameters": {"type": "nonsense"}}, "parameters.type"),
        ({"needsReadyTarget": True}, "needsReadyTarget"),
        ({"allowUnrestrictedHooks": True, "needsApproval": False}, "needsApproval"),
    ],
)
def test_a_template_that_cannot_be_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationProblems) as refused:
        load_template({**BUILTIN_TEMPLATES[1], **change})

    assert [problem.path for problem in refused.value.problems] == [path]


def test_two_templates_for_one_type_and_engine_are_refused() -> None:
    with pytest.raises(ValidationProblems, match=r"as backup\.velero does already"):
        Templates().adding([BUILTIN_TEMPLATES[0], {**BUILTIN_TEMPLATES[0], "name": "backup.other"}])


@pytest.mark.parametrize(
    ("reference", "good"),
    [
        ("#/$defs/name", True),
        ("#named", True),
        ("#", True),
        ("#/$defs/other", False),
        ("#other", False),
        ("https://example.test/schema.json", False),
        ("file:///etc/passwd", False),
        ("other.json", False),
        ("http://[", False),
    ],
)
def test_a_schema_never_reaches_outside_itself(reference: str, good: bool) -> None:
    defs = {"name": {"type": "string"}, "named": {"$anchor": "named", "type": "string"}}
    properties = {"a": {"allOf": [{}, {"$ref": reference}]}, "b": {"const": {"$ref": "data"}}}
    schema = {"type": "object", "properties": properties, "$defs": defs}

    if good:
        load_template({**BUILTIN_TEMPLATES[0], "parameters": schema}).problems_of({"a": 1})
        return
    with pytest.raises(ValidationProblems) as refused:
        load_template({**BUILTIN_TEMPLATES[0], "parameters": schema})
    assert [problem.path for problem in refused.value.problems] == ["parameters.properties.a.allOf[1].$ref"]


def test_a_schema_that_goes_round_in_circles_refuses_every_value() -> None:
    operation_template = load_template({**BUILTIN_TEMPLATES[0], "parameters": {"$ref": "#"}})

    assert [str(problem) for problem in operation_template.problems_of({})] == [
        "spec.parameters: is nested too deeply, or the template's schema refers to itself without end"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "("}}},
        {"patternProperties": {"(": {}}},
        {"$ref": 5},
        {"$defs": []},
        {"properties": {"a": {"$id": "https://example.test/a", "$ref": "#/b"}}},
    ],
)
def test_a_schema_that_would_fail_later_is_refused_when_it_is_read(schema: dict[str, Any]) -> None:
    with pytest.raises(ValidationProblems) as refused:
        load_template({**BUILTIN_TEMPLATES[0], "parameters": schema})

    assert all(problem.path.startswith("parameters") for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("30d", 2_592_000, "720h0m0s"),
        ("720h", 2_592_000, "720h0m0s"),
        ("1d12h", 129_600, "36h0m0s"),
        ("90s", 90, "1m30s"),
    ],
)
def test_durations_become_gos(text: str, seconds: int, written: str) -> None:
    assert seconds_with_days(text) == seconds
    assert go_duration(seconds) == written


@pytest.mark.parametrize("text", ["", "0d", "d", "30", "1w", "-1h", "99999d999999h", "1h ", "1h\n", "\u0661d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        seconds_with_days(text)
