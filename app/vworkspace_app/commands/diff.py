"""The command `diff`, which shows what applying manifests would change in a cluster, object by object (SEE-2)."""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.problems import ValidationProblems
from purekube.controller.appliers import estimated
from purekube_http import KubeApiClient
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.terminal import shows_colours
from purekube_run.process.yaml_documents import files_in, read_documents
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.plan import PlanRequest, plan_of
from vworkspace_app.commands.shared import plan_documents
from vworkspace_app.commands.shared.options import Kubeconfig
from vworkspace_app.commands.shared.session import at_cluster, now
from vworkspace_app.overview.differences import Difference, applier_and_note, difference
from vworkspace_app.overview.reading import boxes_of
from vworkspace_core.api.kinds import ALL_KINDS, APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.own_status import unmanaged
from vworkspace_core.api.reasons import InstanceReason

SAME, DIFFERS, FAILED = 0, 1, 2
"""The exit statuses, as of `kubectl diff`: no difference (0), a difference (1), an error or a refused change (2)."""

_OF_SPEC: Final = (InstanceReason.POLICY_DENIED, InstanceReason.VALIDATION_FAILED)
"""The reasons of Blocked that only another spec ends, or another policy."""
_KINDS: Final = (APPLICATION_INSTANCE, OPERATION)


async def _online(files: Sequence[str], box_files: Sequence[str], manager: str, api: KubeApiClient) -> int:
    statuses = [SAME]
    boxes = {box.kind: box for box in await boxes_of(api, box_files)}
    for kind, manifest, writer in applied(_documents(files), tuple(boxes)):
        try:
            found = await difference(api, kind, manifest, now(), boxes.get(kind), manager or writer)
        except ValidationProblems as error:
            told = "; ".join(map(str, error.problems))
            raise CommandError(f"{ref_of(manifest, kind)} cannot be read: {told}") from error
        print(text(found, colour=shows_colours(sys.stdout, os.environ)), end="")
        if found.note:
            plan_documents.note(found.note)
        print(f"diff: {ref_of(manifest, kind)}: {diff_line(found)}", file=sys.stderr)
        statuses.append(status_of(found))
    return max(statuses)


def _documents(files: Sequence[str]) -> list[Manifest]:
    """Return every object in the files. Raises CommandError if there is none.

    A command in front of a pipe that failed prints none, and this is not a file that would change nothing.
    """
    if documents := read_documents(files):
        return documents
    raise CommandError("there is nothing to compare: the files hold no object")


def applied(documents: Sequence[Manifest], boxes: Sequence[Kind] = ()) -> Iterator[tuple[Kind, Manifest, str]]:
    """Yield the kind and manifest of the object in each document: the document itself, or the payload of a job.

    The third value is the field manager that applies it, if that is known: a job is a request of the control plane,
    which the operator applies. Raises CommandError for a kind that is neither ApplicationInstance nor
    Operation nor in `boxes`, the kinds for which boxes (operators that YAML files declare) are given.
    """
    for document in documents:
        manifest, writer = document, ""
        for path in (("payload", "operation"), ("payload", "instance"), ("payload",)):
            inside = get_path(document, *path)
            if isinstance(inside, dict) and inside.get("apiVersion"):
                manifest, writer = inside, FIELD_MANAGER
                break
        kind = next((each for each in (*_KINDS, *boxes) if plan_documents.is_of(manifest, each)), None)
        if kind is None:
            named = f"{manifest.get('kind')} {get_path(manifest, 'metadata', 'name')}"
            raise CommandError(
                f"{named} is neither an ApplicationInstance nor an Operation, nor of a kind of --box: try kubectl diff"
            )
        plan_documents.check_name(manifest)
        yield kind, manifest, writer


def text(found: Difference, *, colour: bool) -> str:
    """Return as text a unified diff of each object that applying one manifest would change.

    If the API server would refuse a change, the reason follows the diff of that change. With `colour`, the diffs have
    terminal colours.
    """
    parts = []
    for change in found.changes:
        parts.append(plan_documents.diff_text([(change.ref, change.before, change.after)], colour=colour))
        if change.refused:
            parts.append(f"! {change.ref} would be refused: {change.refused}\n")
    return "".join(parts)


def diff_line(found: Difference) -> str:
    """Return a one-line summary of what the operator would do after the compared manifest was applied.

    An example is `1 apply (...), 0 deletes`.
    """
    own = found.changes[0]
    if own.refused:
        return "the API server would not take it, so that nothing downstream would change"
    event = unmanaged(own.ref, found.present) if own.ref.kind in _KINDS else None
    if event is not None:
        return event.note
    told = plan_documents.summary(found.decision, found.afterwards, found.present)
    return f"{told}; the control plane holds this object: its next job sets it again" if found.is_held else told


def status_of(found: Difference) -> int:
    """Return the exit status of the command `diff` for one manifest that the user would apply.

    It is 2 if the API server would refuse a change, or the operator the spec of an instance, 1 if any object would
    change, and otherwise 0.
    """
    if any(change.refused for change in found.changes) or _is_spec_refused(found):
        return FAILED
    return (
        DIFFERS
        if plan_documents.diff_text([(each.ref, each.before, each.after) for each in found.changes], colour=False)
        else SAME
    )


def _is_spec_refused(found: Difference) -> bool:
    """Report whether the operator would refuse the spec of the instance that was compared."""
    blocked = condition_of(found.decision.status, "Blocked")
    return blocked.get("status") == "True" and blocked.get("reason") in _OF_SPEC


def _offline(files: Sequence[str], folder: Path, manager: str) -> int:
    observed, colour = _observed(folder), shows_colours(sys.stdout, os.environ)
    statuses = [SAME]
    for kind, manifest, writer in applied(_documents(files)):
        ref = ref_of(manifest, kind)
        applier, note = applier_and_note(ref, observed.get(ref), manager or writer)
        if note:
            plan_documents.note(note)
        desired = estimated(observed.get(ref), manifest, applier)
        documents = [*(each for other, each in observed.items() if other != ref), desired]
        request = PlanRequest(files, wanted=f"{kind.kind}/{ref.name}", output=None)
        planned = plan_of(request, partial(tuple, documents), colour=colour)
        own = plan_documents.diff_text([(ref, observed.get(ref), desired)], colour=colour)
        print(own + planned.text, end="")
        print(f"diff: {ref}: {planned.summary}", file=sys.stderr)
        statuses.append(FAILED if planned.is_blocked else DIFFERS if own or planned.text else SAME)
    return max(statuses)


def _observed(folder: Path) -> dict[ObjectRef, Manifest]:
    """Return the objects in the YAML and JSON files of a folder and its subfolders, or in a single file, by
    reference.
    """
    paths = [str(path) for path in files_in(folder)]
    return {_ref(document): document for document in (read_documents(paths) if paths else [])}


def _ref(document: Manifest) -> ObjectRef:
    """Return the reference to an object. For a kind that the operator does not know, the kind lacks its plural."""
    for kind in ALL_KINDS:
        if plan_documents.is_of(document, kind):
            return ref_of(document, kind)
    group, _, version = str(document.get("apiVersion")).rpartition("/")
    return ref_of(document, Kind(group, version, str(document.get("kind")), ""))


def diff(
    *files: Annotated[str, Parameter(name="FILE", help="YAML files; `-` is standard input.")],
    offline: Annotated[
        Path | None, Parameter(help="A folder or file with what is observed, in the place of a cluster.")
    ] = None,
    box: Annotated[
        list[str] | None, Parameter(help="File with a box: objects of its kind are compared, too; repeatable.")
    ] = None,
    field_manager: Annotated[
        str, Parameter(help="Compare as this field manager applies; default: the one that applied the object before.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what applying instances, Operations, jobs or objects of boxes would change in them and downstream.

    The changes are what the operator would decide for the present objects in the cluster. If you have the rights, they
    are also sent to the API server as dry runs. Nothing is written. What is removed depends on who applies: the file
    is compared as the field manager that applied the object before would apply it, server-side or not.
    Exit status 0: nothing would change; 1: something would; 2: something would be refused, or there was an error.
    Examples:

        vworkspace-operator diff instance.yaml
        kubectl get appinst nextcloud -o yaml | sed s/6.6.0/6.8.0/ | vworkspace-operator diff -
        vworkspace-operator diff instance.yaml --offline observed/
        vworkspace-operator diff shop.yaml --box webapp.yaml
    """
    if not files:
        raise CommandError("give at least one FILE (see vworkspace-operator diff --help)", status=USAGE)
    if box and offline is not None:
        raise CommandError("--box asks a cluster; offline `box plan` says the same of a box", status=USAGE)
    if offline is not None:
        return _offline(files, offline, field_manager)
    return at_cluster(kubeconfig, partial(_online, files, box or (), field_manager))
