"""No parameters whatever stop a decision: what is wrong is told with its path, for every engine (D4, U4, OPS-3)."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    TARGET,
    conditions_of,
    message_of,
    observed,
    operation,
    started,
    target_manifest,
    template,
)
from tests.support.strategies import json_values
from vworkspace_core.api.operation import EngineRef, Phase
from vworkspace_core.operations.context import lookups
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import target_of
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.parameters import parameter_problems
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation
from vworkspace_core.operations.templates import Templates, load_template

OF = sorted(GOOD)
ASKS_FOR_NOTHING = Templates(
    tuple(
        load_template(
            {
                "name": one,
                "type": str(template(one).type),
                "engine": template(one).engine,
                "capability": template(one).capability,
                "parameters": {},
            }
        )
        for one in OF
    )
)
"""As a file of templates may have them: no schema asks for what the engine needs (D4)."""

LOOSE = attrs.evolve(CONTEXT, templates=ASKS_FOR_NOTHING)


@st.composite
def bent(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A template, and its good parameters with some of them gone, or of any other form."""
    of = draw(st.sampled_from(OF))
    known = sorted(template(of).schema["properties"])
    good = {key: value for key, value in GOOD[of].items() if draw(st.booleans())}
    change = draw(st.dictionaries(st.sampled_from(known) | st.text(max_size=5), json_values(6), max_size=3))
    return of, {**good, **change}


@given(bent(), st.booleans(), st.sampled_from([None, *Phase]), st.sampled_from([None, "", "uid-1"]))
@example(("migration.helmHookJob", {}), False, None, None)
@example(("migration.helmHookJob", {"hookName": ["a"]}), False, None, None)
@example(("migration.helmHookJob", {"hookName": {"a": 1}}), True, Phase.RUNNING, "")
@example(("runCommand.job", {"image": "a", "command": "sh -c x"}), True, None, None)
@example(("runCommand.job", {"image": "a", "env": "A=b"}), True, Phase.RUNNING, "")
@example(("backup.volsync", {"schedule": None}), True, Phase.RUNNING, "uid-1")
@example(("upgrade.helm", {"targetVersion": {}, "valuesPatch": 7}), True, Phase.RUNNING, None)
@example(("upgrade.helm", {"valuesPatch": {"replicas": 3}}), False, Phase.RUNNING, "")
def test_no_parameters_stop_a_decision(
    found: tuple[str, dict[str, Any]], is_loose: bool, phase: Phase | None, uid: str | None
) -> None:
    """Contexts are named and not drawn: their repr, with every template, is more than Hypothesis prints."""
    context = LOOSE if is_loose else CONTEXT
    of, parameters = found
    one = operation(of, parameters=parameters)
    ref = None if uid is None else EngineRef("batch/v1", "Job", "org-myteam", "op-1-0badcafe", uid)
    begun = None if phase in (None, Phase.PENDING) else "2026-06-01T11:59:30Z"
    one = attrs.evolve(one, status=attrs.evolve(one.status, phase=phase, engine_ref=ref, started_at=begun))
    seen = observed(of)

    needs_live_view(one, seen, context)
    refs = list(lookups(one, context, target_manifest(of)))
    assert all(isinstance(each, ObjectRef) for each in refs)
    engine = ENGINES[one.spec.engine]
    engine.extra_reads(one, seen.objects)
    engine.observe(one, seen.objects)
    engine.blocks_end(one, seen.objects)
    target = target_of(one, seen.objects)
    assert target is not None
    release_request(target, [one])
    decision = reconcile_operation(one, seen, context)

    if phase in (None, Phase.PENDING):
        assert_started_or_told(of, parameters, context, conditions_of(decision))


def assert_started_or_told(
    of: str, parameters: Mapping[str, Any], context: Any, conditions: Mapping[str, tuple[str, str]]
) -> None:
    one = operation(of, parameters=parameters)
    problems = parameter_problems(one, next(each for each in context.templates.items if each.name == of))
    if problems:
        assert conditions["Accepted"] == ("False", "ValidationFailed")
        assert all(problem.path.startswith("spec.parameters") for problem in problems)
    else:
        assert "Accepted" in conditions


@pytest.mark.parametrize(
    ("of", "parameters", "path"),
    [
        ("migration.helmHookJob", {}, "spec.parameters.hookName: is required"),
        ("migration.helmHookJob", {"hookName": ["a"]}, "spec.parameters.hookName: "),
        ("runCommand.job", {}, "spec.parameters.image: is required"),
        ("runCommand.job", {"image": "a", "command": "sh -c x"}, "spec.parameters.command: "),
        ("runCommand.job", {"image": "a", "env": "A=b"}, "spec.parameters.env: "),
        ("migration.workflow", {}, "spec.parameters.workflowTemplate: is required"),
        ("restore.velero", {}, "spec.parameters.backupName: is required"),
        ("backup.snapshot", {}, "spec.parameters.pvc: is required"),
        ("restore.snapshot", {}, "spec.parameters.snapshotName: is required"),
        ("backup.volsync", {"source": "a"}, "spec.parameters.repository: is required"),
        ("upgrade.helm", {"targetVersion": "latest"}, "spec.parameters.targetVersion: "),
    ],
)
def test_a_template_that_asks_for_less_than_its_engine_needs_is_made_up_for(
    of: str, parameters: dict[str, Any], path: str
) -> None:
    decision = reconcile_operation(operation(of, parameters=parameters), observed(of), LOOSE)

    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")
    assert path in message_of(decision, "Accepted")


@pytest.mark.parametrize("of", [of for of in OF if of != "restore.velero"])
def test_good_parameters_are_good_for_a_template_that_asks_for_nothing_too(of: str) -> None:
    assert isinstance(start_or_unmet(operation(of), observed(of), LOOSE), Start)
    more = operation(of, parameters={**GOOD[of], "unknown-to-the-engine": True})
    assert isinstance(start_or_unmet(more, observed(of), LOOSE), Start)


@pytest.mark.parametrize("depth", [900, 9000])
@pytest.mark.parametrize("of", OF)
def test_parameters_of_any_depth_are_told_of_RUN_11(of: str, depth: int) -> None:
    deep: Any = 1
    for _ in range(depth):
        deep = [deep]

    decision = reconcile_operation(
        operation(of, parameters={**GOOD[of], "deep": deep}, approved=False), observed(of), CONTEXT
    )

    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")


def test_parameters_that_became_bad_before_the_object_was_made_end_the_run() -> None:
    """The CRD keeps them as they are once the run has started; an object that came another way may be there."""
    one, _ = started("runCommand.job")
    ref = one.status.engine_ref
    assert ref is not None
    status = attrs.evolve(one.status, engine_ref=attrs.evolve(ref, uid=""))
    changed = attrs.evolve(one, spec=attrs.evolve(one.spec, parameters={"command": 7}), status=status)

    decision = reconcile_operation(changed, observed(), CONTEXT)

    assert decision.creates == ()
    assert conditions_of(decision)["Failed"] == ("True", "PreconditionFailed")
    assert "spec.parameters.image: is required" in message_of(decision, "Failed")
    assert TARGET in observed().objects
