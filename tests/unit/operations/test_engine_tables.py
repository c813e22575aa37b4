"""OPS-2, OPS-6: what an engine declares, by phase and by type, and which template binds what to it."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.apimachinery.resources import JOB, VELERO_BACKUP, VELERO_RESTORE
from purekube.readiness.result import failed, progressing, ready
from tests.support.operation_worlds import CONTEXT, NS, SETTINGS, operation, operation_manifest, template
from vworkspace_core.api.operation import OperationType
from vworkspace_core.operations.builtin import builtin_templates, needs_of_engine, template_name
from vworkspace_core.operations.context import OperationObserved
from vworkspace_core.operations.contract import (
    Engine,
    EngineContext,
    EngineObject,
    EngineStatus,
    Progress,
    Row,
    always,
    by_type,
    no_yaml,
    phase_row,
    readiness_by_phase,
    row_of,
)
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.parameters import parameter_problems, template_problems
from vworkspace_core.operations.templates import OperationTemplate, Templates, load_template

DONE = phase_row("Done", Progress.SUCCEEDED, "Good", "it is done")
BROKEN = phase_row("Broken", Progress.FAILED, "Bad", "it broke", {"message": "no"})
GOING = phase_row("Going", Progress.RUNNING, "Going", "it goes on")
NONE = phase_row("", Progress.RUNNING, "New")
ROWS = (DONE, BROKEN, GOING, NONE)


def test_a_row_has_a_sample_of_its_phase() -> None:
    assert Row("Done", Progress.SUCCEEDED, "Good", "it is done") == DONE
    assert [row.sample for row in ROWS] == [
        {"status": {"phase": "Done"}},
        {"status": {"phase": "Broken", "message": "no"}},
        {"status": {"phase": "Going"}},
        {},
    ]
    assert phase_row("", Progress.RUNNING, "New", status={"a": 1}).sample == {"status": {"a": 1}}


@pytest.mark.parametrize(
    ("phase", "row"),
    [("Done", DONE), ("Broken", BROKEN), ("", NONE), ("Other", GOING), (None, GOING), (3, GOING), (["Done"], GOING)],
)
def test_an_unknown_phase_has_the_row_that_is_named_for_it(phase: Any, row: Row) -> None:
    assert row_of(ROWS, phase, unknown="Going") is row


@pytest.mark.parametrize(
    ("status", "readiness"),
    [
        ({"phase": "Done"}, ready("Done")),
        ({"phase": "Broken"}, failed("Broken", "it broke")),
        ({"phase": "Going"}, progressing("Going", "it goes on")),
        ({"phase": "Other"}, progressing("Other", "")),
        ({"phase": None}, progressing("Pending", "")),
        ({}, progressing("Pending", "")),
    ],
)
def test_the_readiness_of_a_kind_follows_its_rows(status: dict[str, Any], readiness: Any) -> None:
    assert readiness_by_phase(ROWS)({"status": status}) == readiness


def test_kinds_follow_the_type_of_an_operation() -> None:
    backup, restore, command = (operation(of) for of in ("backup.velero", "restore.velero", "runCommand.job"))
    kinds = by_type(backup=VELERO_BACKUP, restore=VELERO_RESTORE)

    assert [kinds(one) for one in (backup, restore, command)] == [
        (VELERO_BACKUP,),
        (VELERO_RESTORE,),
        (VELERO_RESTORE,),
    ]
    assert always(JOB, VELERO_BACKUP)(command) == (JOB, VELERO_BACKUP)
    assert always()(command) == ()
    both = attrs.evolve(ENGINES["velero"], kinds=kinds)
    assert set(both.made_kinds) == {VELERO_BACKUP, VELERO_RESTORE}
    assert attrs.evolve(ENGINES["job"], kinds=always(JOB)).made_kinds == (JOB,)


def test_an_engine_works_beside_the_operation_unless_it_has_a_place_of_its_own() -> None:
    one = operation()

    assert attrs.evolve(ENGINES["job"], namespace=None).place(one, SETTINGS) == NS
    assert ENGINES["velero"].place(one, attrs.evolve(SETTINGS, velero_namespace="elsewhere")) == "elsewhere"


def test_an_engine_promises_nothing_that_it_does_not_say() -> None:
    one = operation()
    bare = Engine("bare", always(JOB), lambda *given: (), lambda *given: EngineStatus(Progress.RUNNING, "R"), {}, 60)
    target: Any = None
    context: Any = None

    assert bare.check(one, target, context) is None
    assert bare.looks_up(one, target, SETTINGS) == ()
    assert bare.initial_outputs(one, target, {}) == {}
    assert (bare.recurring(one), bare.needs_seconds(one, {}), bare.blocks_end(one, {})) == (False, 0, False)
    assert (bare.extra_reads(one, {}), bare.diagnostics(one, {}), bare.final_status(one, {})) == ((), (), None)
    assert bare.remedy(one, EngineStatus(Progress.RUNNING, "R"), SETTINGS) == ""
    assert (bare.install, bare.after_stop, bare.templates, bare.demo) == ("", "", (), None)
    assert EngineObject(JOB, JOB.manifest("a", "b")).ref == ObjectRef(JOB, "b", "a")


def test_what_is_found_once_is_not_looked_for_again() -> None:
    context = EngineContext(SETTINGS, template("runCommand.job"))
    asked: list[str] = []

    def find() -> str:
        asked.append("x")
        return f"found {len(asked)}"

    assert [context.once("a", find), context.once("a", find), context.once("b", find)] == [
        "found 1",
        "found 1",
        "found 2",
    ]
    with pytest.raises(ValueError, match="no YAML parser is configured"):
        no_yaml("a: b")


def test_the_kinds_of_an_engine_whose_place_is_missing_count_as_missing() -> None:
    other = Kind("x.example", "v1", "X", "xs")
    observed = OperationObserved(missing_kinds=frozenset({other}), missing_places=frozenset({"velero"}), objects={})
    of_velero = CONTEXT.for_engine(observed, template("backup.velero"))
    of_job = CONTEXT.for_engine(observed, template("runCommand.job"))

    assert of_velero.missing_kinds == frozenset({other, *ENGINES["velero"].made_kinds})
    assert of_job.missing_kinds == frozenset({other})
    present = attrs.evolve(observed, missing_places=frozenset({"elsewhere"}))
    assert CONTEXT.for_engine(present, template("backup.velero")).missing_kinds == frozenset({other})
    assert (of_job.settings, of_job.template) == (SETTINGS, template("runCommand.job"))
    strange = attrs.evolve(template("runCommand.job"), engine="none")
    assert CONTEXT.for_engine(observed, strange).missing_kinds == frozenset({other})


# --- templates --------------------------------------------------------------------------------------------------------

DATA: dict[str, Any] = {
    "name": "runbook.tool",
    "type": "Runbook",
    "engine": "tool",
    "capability": "runbook",
    "parameters": {"type": "object"},
}


def test_a_template_has_modest_defaults() -> None:
    assert load_template(DATA) == OperationTemplate(
        "runbook.tool", OperationType.RUNBOOK, "tool", "runbook", {"type": "object"}, rbac_profile="tool"
    )
    full = {"rbacProfile": "p", "needsApproval": True, "needsReadyTarget": True, "allowForeignBackups": True}
    assert load_template({**DATA, **full}) == OperationTemplate(
        "runbook.tool", OperationType.RUNBOOK, "tool", "runbook", {"type": "object"}, "p", True, True, True
    )
    hooks = load_template({**DATA, "allowUnrestrictedHooks": True})
    assert (hooks.needs_approval, hooks.allow_unrestricted_hooks) == (True, True)


ORDINARY = "they are how a broken application gets well"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"allowUnrestrictedHooks": True, "needsApproval": False},
         Problem("needsApproval", "must not be false where allowUnrestrictedHooks is true")),
        ({"type": "Restore", "needsReadyTarget": True},
         Problem("needsReadyTarget", f"is not for type Restore: {ORDINARY}")),
        ({"type": "Upgrade", "needsReadyTarget": True},
         Problem("needsReadyTarget", f"is not for type Upgrade: {ORDINARY}")),
        ({"parameters": {"$ref": "#/no"}}, Problem("parameters.$ref", "leads to nothing inside this schema")),
        ({"needsApproval": "yes"}, Problem("needsApproval", "must be true or false, not a string")),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_is_told_with_its_field(change: dict[str, Any], problem: Problem) -> None:
    with pytest.raises(ValidationProblems) as refused:
        load_template({**DATA, **change})
    assert refused.value.problems == (problem,)
    with pytest.raises(ValidationProblems) as listed:
        Templates().adding([DATA, {**DATA, **change}])
    assert listed.value.problems == (attrs.evolve(problem, path=f"templates[1].{problem.path}"),)


def test_a_template_takes_the_place_of_its_namesake_and_of_nothing_else() -> None:
    first, second = load_template(DATA), load_template({**DATA, "name": "backup.tool", "type": "Backup"})
    both = Templates().with_template(first).with_template(second)
    assert both.items == (first, second)
    assert [both.find("Runbook", "tool"), both.find("Backup", "tool"), both.find("Backup", "x")] == [
        first,
        second,
        None,
    ]

    renewed = attrs.evolve(first, needs_approval=True)
    assert both.with_template(renewed).items == (renewed, second)
    moved = attrs.evolve(first, type=OperationType.BACKUP)
    with pytest.raises(ValidationProblems) as refused:
        both.with_template(moved)
    told = "binds type Backup to engine tool, as backup.tool does already"
    assert refused.value.problems == (Problem("name", told),)
    with pytest.raises(ValidationProblems) as listed:
        Templates().adding(["x"])
    assert [problem.path for problem in listed.value.problems] == ["templates[0]"]


def test_the_built_in_templates_are_named_by_type_and_engine() -> None:
    assert template_name(OperationType.RUN_COMMAND, "job") == "runCommand.job"
    for item in builtin_templates().items:
        assert item.name == template_name(item.type, item.engine)
        assert (item.capability, item.rbac_profile) == (item.type.lower(), item.engine)
    assert builtin_templates() is builtin_templates()


def test_each_engine_says_what_its_templates_require() -> None:
    ours = [
        "backup.velero", "restore.velero", "migration.workflow", "runbook.workflow", "runCommand.job", "upgrade.helm",
        "backup.volsync", "restore.volsync", "migration.helmHookJob", "backup.snapshot", "restore.snapshot",
    ]  # fmt: skip
    # Another engine adds its own (docs/extending.md).
    every = {item.name: item for item in builtin_templates().items}
    items = {name: item for name, item in every.items() if name in ours}

    assert list(items) == ours
    assert [name for name, item in items.items() if item.needs_approval] == ["restore.velero"]
    assert [name for name, item in items.items() if item.needs_ready_target] == [
        "migration.workflow", "runbook.workflow", "runCommand.job", "migration.helmHookJob",
    ]  # fmt: skip
    for engine in ENGINES.values():
        for declared in engine.templates:
            made = every[template_name(declared.type, engine.name)]
            assert (made.type, made.engine, made.schema) == (declared.type, engine.name, declared.schema)
            assert not made.allow_foreign_backups
            assert not made.allow_unrestricted_hooks


def test_an_engine_of_a_single_template_needs_its_parameters_for_any_type() -> None:
    upgrade = template("upgrade.helm")
    kept = {key: rule for key, rule in upgrade.schema.items() if key not in ("additionalProperties", "minProperties")}

    assert "minProperties" in upgrade.schema
    assert [needs_of_engine(attrs.evolve(upgrade, type=of)) for of in OperationType] == [kept] * len(OperationType)
    assert needs_of_engine(attrs.evolve(upgrade, name="other", schema={})) == kept


def test_an_engine_needs_the_parameters_of_its_own_template() -> None:
    backup, restore = template("backup.velero"), template("restore.velero")

    def kept(of: OperationTemplate) -> dict[str, Any]:
        return {key: rule for key, rule in of.schema.items() if key not in ("additionalProperties", "minProperties")}

    assert needs_of_engine(backup) == kept(backup) != kept(restore)
    assert needs_of_engine(restore) == kept(restore)
    assert needs_of_engine(attrs.evolve(backup, type=OperationType.MIGRATION)) == kept(restore)
    assert needs_of_engine(attrs.evolve(backup, engine="tool")) == {}
    only = template("runCommand.job")
    assert needs_of_engine(attrs.evolve(only, type=OperationType.BACKUP)) == kept(only)


def test_parameters_fit_the_template_and_then_the_engine() -> None:
    own = template("runCommand.job")
    lax = attrs.evolve(own, schema={})
    empty = attrs.evolve(operation(), spec=attrs.evolve(operation().spec, parameters=None))
    missing = Problem("spec.parameters.image", "is required")

    assert parameter_problems(operation(), own) == ()
    assert missing in parameter_problems(empty, own)
    assert missing in parameter_problems(empty, lax)
    assert parameter_problems(operation(parameters={"image": "x", "more": 1}), lax) == ()
    strict = attrs.evolve(own, schema={"required": ["more"]})
    assert parameter_problems(operation(), strict) == (Problem("spec.parameters.more", "is required"),)


def test_an_operation_is_judged_by_its_template_and_nothing_else_is() -> None:
    templates = builtin_templates()
    good, unknown = operation_manifest(), operation_manifest(engine="velero")

    assert template_problems(good, templates) == ()
    assert template_problems(unknown, templates) == (
        Problem("spec.engine", "there is no template for type RunCommand and engine velero"),
    )
    assert template_problems(operation_manifest(parameters={}), templates) != ()
    assert template_problems({**good, "kind": "ConfigMap"}, templates) == ()
    assert template_problems({**good, "spec": {"type": 1}}, templates) == ()
