"""The command `box rollout`, which shows, pauses, resumes and undoes the roll-out of an applied box (PH-10).

A box is an operator that a YAML file declares. An earlier revision may need admission policies that differ from the
present ones. This command only prints them: a user who has the right to write admission policies has to apply them.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

import attrs

from purekube.apimachinery.definitions import BOX_NAME, OPERATOR_BOX
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.boxes.rollouts.applied import AppliedBox
from purekube.boxes.rollouts.reasons import CONDITIONS, ROLLED_OUT
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION, Revision, definition_of, read_revisions, way_back
from purekube.boxes.webhooks.admission_policy import policy_of
from purekube.ports import KubeApi, PatchType
from purekube_run.boxes.applied_load import load_definition
from purekube_run.boxes.requirements import policy_problems
from purekube_run.controller.lookups import all_of
from purekube_run.process.command_line import FAILURE, USAGE, CommandError
from purekube_run.process.terminal import aligned
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Kubeconfig
from vworkspace_app.commands.shared.session import at_cluster
from vworkspace_core.api.labels import CLI_MANAGER

Action: TypeAlias = Literal["status", "history", "pause", "resume", "undo", "policies"]

_JUDGED: Final = {
    "objects": "objects",
    "creates": "creates",
    "changes": "changes",
    "deletes": "deletes",
    "deletesAfterwards": "deletes afterwards",
    "refused": "refused",
}


_THEN: Final = (
    f"the next changed file of it conflicts with {CLI_MANAGER}: apply that once with: "
    "kubectl apply --server-side --force-conflicts -f FILE\n"
)


@attrs.frozen
class RolloutRequest:
    """The arguments of the command `box rollout`: the action (such as `undo`), the name of the OperatorBox, and the
    revision to return to, or "" if none is given.
    """

    action: Action
    name: str
    to_revision: str = ""


def rollout(
    action: Annotated[Action, Parameter(help="What to show or do.")],
    name: Annotated[str, Parameter(help="The name of the OperatorBox.")],
    /,
    *,
    to_revision: Annotated[
        str, Parameter(help="With undo and policies: the revision to return to; default: the last that was Ready.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show or change the roll-out of a box that is applied to the cluster.

    `undo` writes the definition of an earlier revision into the OperatorBox, which then rolls out. If a GitOps tool
    applies the OperatorBox, the tool reverts that: change its source instead. `resume` continues a paused roll-out, and
    tries a revision again that `onFailure: Undo` gave up. `policies` prints the admission policies of an earlier
    revision: where they differ from the present ones, `undo` waits until they are applied. With `status`, exit status 1
    says that the roll-out is not complete, and 2 that there was an error. Examples:

        vworkspace-operator box rollout status webapp
        vworkspace-operator box rollout undo webapp --to-revision webapp-0123456789
    """
    if to_revision and action not in ("undo", "policies"):
        raise CommandError(f"--to-revision is for undo and policies, not for {action}", status=USAGE)
    text, status = at_cluster(kubeconfig, lambda api: carried_out(api, RolloutRequest(action, name, to_revision)))
    print(text, end="")
    return status


async def carried_out(api: KubeApi, request: RolloutRequest) -> tuple[str, int]:
    """Carry out a call of `box rollout`. Return the text to print, and the exit status.

    Raises CommandError if the box or revision does not exist, and the errors of the API server.
    """
    box = await _box(api, request.name)
    selector = f"{BOX_NAME}={request.name}"
    history = read_revisions(await all_of(api, CONTROLLER_REVISION, selector=selector))
    match request.action:
        case "status":
            return _status_text(box), 0 if _is_complete(box) else FAILURE
        case "history":
            return "".join(f"{line}\n" for line in _history_lines(history, box.revision)), 0
        case "pause":
            await _patch(api, box, {"spec": {"rollout": {"pause": True}}})
            return f"operatorbox {request.name} paused\n", 0
        case "resume":
            return await _resumed(api, box, history), 0
        case "undo":
            return await _undone(api, box, history, request.to_revision), 0
        case "policies":
            named = next((revision for revision in history if revision.name == request.to_revision), None)
            return await _policies(api, named or _target(box, history, request.to_revision)[0], request.name), 0
        case _:
            assert_never(request.action)


async def _box(api: KubeApi, name: str) -> AppliedBox:
    try:
        return AppliedBox.read(await api.get(ObjectRef(OPERATOR_BOX, None, name)))
    except NotFound as error:
        raise CommandError(f"there is no OperatorBox {name} in the cluster") from error


async def _patch(api: KubeApi, box: AppliedBox, patch: Manifest) -> None:
    ref = ObjectRef(OPERATOR_BOX, None, box.metadata.name)
    await api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=CLI_MANAGER)


# --- showing ----------------------------------------------------------------------------------------------------------


def _status_text(box: AppliedBox) -> str:
    status = box.manifest.get("status") or {}
    counts: Mapping[str, Any] = get_path(status, "rollout") or {}
    told = ", ".join(f"{number} {name}" for name, number in counts.items())
    lines = [f"{box.metadata.name}: revision {status.get('revision') or 'none'}: {told or 'no object'}"]
    judgement: Mapping[str, Any] = get_path(status, "judgement") or {}
    if judgement:
        named = ", ".join(f"{judgement.get(each) or 0} {told}" for each, told in _JUDGED.items())
        lines += [f"  judged {judgement.get('revision')}: {named}"]
        lines += [f"    {each.get('object')}: {each.get('message')}" for each in judgement.get("refusals") or ()]
    by_type = {condition.type: condition for condition in box.conditions}
    lines += [_condition_line(by_type[name]) for name in CONDITIONS if name in by_type]
    return "".join(f"{line}\n" for line in lines)


def _condition_line(condition: Condition) -> str:
    return f"  {condition.type}={condition.status} {condition.reason}: {condition.message}".rstrip(": ")


def _is_complete(box: AppliedBox) -> bool:
    generation = box.metadata.generation
    return any(
        condition.type == ROLLED_OUT
        and condition.status is ConditionStatus.TRUE
        and condition.observed_generation == generation
        for condition in box.conditions
    )


def _history_lines(history: Sequence[Revision], present: str) -> Sequence[str]:
    rows = [("REVISION", "NUMBER", "STATE")]
    for revision in history:
        notes = [
            *(["present"] if revision.name == present else []),
            *(["was Ready"] if revision.is_proven else ["never Ready"] if revision.is_sound else []),
            *([f"refused: {revision.refused}"] if revision.refused else []),
            *([f"given up: {revision.given_up}"] if revision.given_up else []),
        ]
        rows.append((revision.name, str(revision.number), ", ".join(notes)))
    return aligned(rows)


# --- changing ---------------------------------------------------------------------------------------------------------


async def _resumed(api: KubeApi, box: AppliedBox, history: Sequence[Revision]) -> str:
    if get_path(box.spec, "rollout", "pause"):
        await _patch(api, box, {"spec": {"rollout": {"pause": False}}})
    for revision in history:
        if revision.name == box.revision and revision.given_up:
            patch = revision.annotated(given_up=None)
            await api.patch(revision.ref, patch, patch_type=PatchType.MERGE, field_manager=CLI_MANAGER)
    return f"operatorbox {box.metadata.name} resumed\n"


async def _undone(api: KubeApi, box: AppliedBox, history: Sequence[Revision], to_revision: str) -> str:
    target, passed_over = _target(box, history, to_revision)
    policy = {name: value for name, value in box.spec.items() if name not in definition_of(box.spec)}
    manifest = {key: value for key, value in box.manifest.items() if key != "status"}
    changed = {**manifest, "spec": {**target.definition, **policy}}
    await api.update(changed, kind=OPERATOR_BOX, field_manager=CLI_MANAGER)
    told = f"; passed over, since {passed_over}" if passed_over else ""
    text = f"operatorbox {box.metadata.name} rolls back to {target.name}{told}\n{_THEN}"
    return text + await _policies_first(api, target, box.metadata.name)


async def _policies_first(api: KubeApi, target: Revision, name: str) -> str:
    """Return how to apply the admission policies of the revision `target`; "" if the cluster has them.

    The roll-back is written already, so an error here, such as a missing right, becomes part of the text.
    """
    try:
        box = (await load_definition(api, name, target.definition)).box
        lacking = () if box is None else await policy_problems(api, box)
    except OperatorError as error:
        return f"whether its admission policies are there was not checked: {error.message}\n"
    if not lacking:
        return ""
    command = f"vworkspace-operator box rollout policies {name} --to-revision {target.name}"
    return f"once its admission policies are applied: {command} | kubectl apply --server-side -f -\n"


async def _policies(api: KubeApi, target: Revision, name: str) -> str:
    """Return the admission policies of the revision `target`, as YAML. Raises CommandError if it does not compile."""
    loaded = await load_definition(api, name, target.definition)
    if loaded.box is None:
        raise CommandError("\n".join(f"{target.name}: {problem}" for problem in loaded.problems))
    policies = list(policy_of(loaded.box).values())
    return dump(policies, Format.YAML) if policies else ""


def _target(box: AppliedBox, history: Sequence[Revision], to_revision: str) -> tuple[Revision, str]:
    """Return the revision to roll back to, and a text about newer revisions that are passed over.

    It is the revision `to_revision`, or if that is "", the last good one. Raises CommandError if there is none.
    """
    earlier = [revision for revision in history if revision.name != box.revision]
    if to_revision:
        if named := [revision for revision in earlier if revision.name == to_revision]:
            return named[-1], ""
        raise CommandError(f"operatorbox {box.metadata.name} has no revision {to_revision}: see box rollout history")
    found = way_back(history, box.revision)
    newer = [revision for revision in earlier if found is None or revision.number > found.number]
    why = "; ".join(f"{each.name} {_unfit(each)}" for each in reversed(newer))
    if found is not None:
        return found, why
    more = f" to return to: {why}; choose one by --to-revision" if why else ""
    raise CommandError(f"operatorbox {box.metadata.name} has no earlier revision{more}: see box rollout history")


def _unfit(revision: Revision) -> str:
    """Return in words why a roll-back passes over a revision: it was given up, was refused, or was never Ready."""
    if revision.given_up:
        return "was given up"
    return "was refused" if revision.refused else "was never Ready"
