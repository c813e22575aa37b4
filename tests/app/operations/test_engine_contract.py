"""What every engine keeps, whichever it is: its declaration and what follows from it (OPS-6)."""

from collections.abc import Iterator

import pytest

from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.names import engine_object_name
from purekube.apimachinery.resources import Access
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    NS,
    OP_UID,
    SETTINGS,
    TEMPLATES,
    as_created,
    conditions_of,
    message_of,
    observed,
    operation,
    operation_manifest,
    started,
    template,
)
from tools.status_samples import shown_by
from vworkspace_app.install.everything import installation, tenant
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.overview.reading import made_kinds
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.clusters.inventory import InformerReport, installed_engines
from vworkspace_core.install import access
from vworkspace_core.operations.builtin import template_name
from vworkspace_core.operations.contract import Engine, Progress, Row
from vworkspace_core.operations.engines import ENGINES, engine_kinds
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.overview.checkup import CheckResult, controllers
from vworkspace_core.overview.summary import summary_of_child
from vworkspace_core.overview.tree import tree_of

OPTIONS = InstallOptions(velero_namespace="velero")
CHANGES = {"create", "patch", "delete"}

every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
with_controller = pytest.mark.parametrize(
    "engine", [engine for engine in ENGINES.values() if engine.controller is not None], ids=lambda engine: engine.name
)
every_template = pytest.mark.parametrize("of", [item.name for item in TEMPLATES.items])


def granted(rights: Iterator[Access] | tuple[Access, ...], kind: Kind) -> set[str]:
    return {verb for right in rights if right.kind == kind for verb in right.verbs}


def test_the_CRD_lists_every_engine() -> None:
    (crd,) = (crd for crd in crd_manifests() if crd["spec"]["names"]["kind"] == "Operation")
    schema = get_path(crd["spec"]["versions"][0], "schema", "openAPIV3Schema", "properties", "spec", "properties")

    assert get_path(schema, "engine", "enum") == list(ENGINES)


@every_engine
def test_an_engine_says_what_it_makes_and_has_a_template(engine: Engine) -> None:
    assert set(engine.made_kinds) <= set(engine_kinds()), "what it makes is watched"
    assert engine.templates
    assert engine.tables
    assert all(rows for rows in engine.tables.values())


@every_engine
def test_the_roles_let_the_operator_do_what_an_engine_needs_RUN_7(engine: Engine) -> None:
    """By the tables of rights, and by the manifests that are printed from them."""
    place = access.VELERO if engine.namespace is not None else access.TENANT
    roles = [rule for manifest in (*installation(OPTIONS), *tenant(NS, OPTIONS)) for rule in manifest.get("rules", ())]

    for kind in engine.made_kinds:
        assert granted(place, kind) >= CHANGES
        assert granted((*place, *access.EVERYWHERE), kind) >= {"get", "list", "watch"}
        rules = [rule for rule in roles if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]]
        assert {verb for rule in rules for verb in rule["verbs"]} >= {*CHANGES, "get", "list", "watch"}
    for right in engine.access:
        assert granted(access.EVERYWHERE, right.kind) >= set(right.verbs)
    for right in engine.tenant_access:
        assert granted(access.TENANT, right.kind) >= set(right.verbs)
    for kind in engine.awaited:
        assert granted((*access.EVERYWHERE, *place), kind) >= {"get", "list", "watch"}


@with_controller
def test_a_missing_controller_is_named_with_what_installs_it_SEE_1(engine: Engine) -> None:
    controller = engine.controller
    assert controller is not None
    served = {kind: InformerReport() for kind in controller.definitions}
    found = {kind.crd_name: None for kind in (*controller.definitions, *controller.read_later)}

    assert engine.name in installed_engines(served)
    assert engine.name not in installed_engines({})
    told = [finding for finding in controllers(found) if finding.point in (f"engine {engine.name}", "Flux")]
    assert f"install {controller.install}" in {finding.remedy for finding in told}
    assert {finding.verdict for finding in told} <= {CheckResult.OPTIONAL, CheckResult.FAILED}


@every_template
def test_an_Operation_waits_for_a_controller_that_is_not_installed_REC_12(of: str) -> None:
    engine = ENGINES[template(of).engine]
    made = engine.kinds(operation(of))
    defined = engine.controller.definitions if engine.controller is not None else ()
    if not set(made) & set(defined):
        return  # it needs no CRD
    world = observed(of, missing_kinds=frozenset(made))

    decision = reconcile_operation(operation(of), world, CONTEXT)

    assert conditions_of(decision)["Blocked"] == ("True", "DependencyMissing")
    assert message_of(decision, "Blocked").endswith(f"install {engine.install}")


@every_template
def test_an_example_starts_and_a_refused_change_of_it_does_not(of: str) -> None:
    """What the documentation prints. The own example, as far as it speaks of nothing but itself."""
    engine = ENGINES[template(of).engine]
    (own,) = (each for each in engine.templates if template_name(each.type, engine.name) == of)

    assert template(of).problems_of(own.example) == ()
    assert isinstance(start_or_unmet(operation(of), observed(of), CONTEXT), Start)
    assert own.refused, "a test of what is refused"
    for change in own.refused:
        outcome = start_or_unmet(operation(of, parameters={**GOOD[of], **change}), observed(of), CONTEXT)
        assert isinstance(outcome, UnmetPrecondition)
        assert outcome.accepted is False


@every_template
def test_an_engine_object_is_the_Operations_own_OPS_1(of: str) -> None:
    running, made = started(of)
    engine = ENGINES[running.spec.engine]
    if made is None:
        assert engine.made_kinds == ()
        return
    meta = made.manifest["metadata"]

    assert started(of)[1] == made, "the same Operation gives the same object"
    assert made.kind in engine.kinds(running)
    assert meta["name"] == engine_object_name(running.metadata.name, OP_UID)
    assert meta["namespace"] == engine.place(running, SETTINGS)
    assert meta["labels"]["app.vworkspace.io/operation-uid"] == OP_UID
    owners = meta.get("ownerReferences", [])
    assert all(owner["uid"] == OP_UID and engine.namespace is None for owner in owners)


def rows_of(of: str) -> Iterator[tuple[Row, str]]:
    engine = ENGINES[template(of).engine]
    for names, rows in engine.tables.items():
        for row in rows:
            yield row, names


@every_template
def test_an_unknown_phase_is_no_failure_and_an_end_is_final(of: str) -> None:
    running, made = started(of)
    if made is None:
        return
    engine = ENGINES[running.spec.engine]
    live = {**as_created(made), "status": {"phase": "ASecondOfItsMinorVersions"}}

    status = engine.observe(running, {made.ref: live})

    assert status.phase is Progress.RUNNING
    for row, names in rows_of(of):
        if made.kind.kind in names.split(", ") and row.progress is not Progress.RUNNING and not row.beside:
            shown = shown_by(row, running, made.kind, as_created(made))
            assert engine.observe(running, shown).phase is row.progress


@every_template
def test_status_shows_the_engine_object_with_its_state_SEE_1(of: str) -> None:
    running, made = started(of)
    if made is None:
        return
    engine = ENGINES[running.spec.engine]
    manifest = operation_manifest(of)
    assert made.kind in made_kinds(), "status reads it"
    (branch,) = tree_of(OPERATION, manifest, {made.ref: as_created(made)}).children

    assert branch.summary.ref == made.ref
    for row, names in rows_of(of):
        if made.kind.kind in names.split(", ") and row.phase:
            live = shown_by(row, running, made.kind, as_created(made))[made.ref]
            state = str(summary_of_child(made.kind, live).state)
            if row.progress is Progress.FAILED:
                assert state != "Ready", f"{engine.name} {row.phase}"
