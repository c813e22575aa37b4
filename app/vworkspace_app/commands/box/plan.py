"""The command `box plan`, which prints what a box would do for one object or for each object of a cluster."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from purekube.apimachinery.manifest import Manifest
from purekube_http import KubeApiClient
from purekube_run.boxes.installed import installed_definitions, missing_definitions
from purekube_run.boxes.load import further_crds, load_box, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.terminal import aligned
from purekube_run.process.yaml_documents import Format, dump, files_in, read_documents
from purekube_run.simulation.extensions.plan import BoxPlan, PlannedObject, plan_box
from purekube_run.simulation.extensions.plan_against import PlanAgainst, plan_against
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.diff import DIFFERS, FAILED, SAME
from vworkspace_app.commands.shared.options import Crds
from vworkspace_app.commands.shared.plan_documents import check_name, object_lines, time_of
from vworkspace_app.commands.shared.session import at_cluster


def planned(
    file: str,
    parent: str,
    observed: Sequence[Path] = (),
    crds: Sequence[Path] = (),
    now: str = "",
    output: str = "text",
) -> tuple[BoxPlan, str]:
    """Return what the box in `file` would do for the object in the file `parent`, and the same as text.

    `observed` are files with existing objects, and `crds` files with further CRDs. `now` is the time of the decision
    (RFC 3339), or empty for the present. `output` is the format of the text. Raises CommandError for malformed input.
    """
    further = list(further_crds(crds))
    (box,) = runnable([load_box(file, further)])
    given = [document for document in read_documents([parent]) if document.get("kind") == box.kind.kind]
    if len(given) != 1:
        raise CommandError(f"--cr {parent}: holds {len(given)} objects of kind {box.kind.kind}, not one")
    others = _observed(observed)
    for manifest in (given[0], *others):
        check_name(manifest)
    own = str(box.kind.crd_name)
    definitions = [crd.manifest for crd in further if crd.manifest["metadata"]["name"] != own]
    box_plan = plan_box(box, given[0], others, definitions, time_of(now))
    return box_plan, _TEXTS[output](box_plan)


def _observed(paths: Sequence[Path]) -> list[Manifest]:
    files: list[str] = []
    for path in paths:
        if not path.exists():
            raise CommandError(f"--observed {path}: there is no such file or folder", status=USAGE)
        files += map(str, files_in(path))
    return list(read_documents(files))


# --- as text ---------------------------------------------------------------------------------------------------------


def _text(box_plan: BoxPlan) -> str:
    rows = [(obj.node or "prune", obj.object, obj.action, _object_line(obj)) for obj in box_plan.objects]
    lines = (f"  {line}" for line in aligned(rows))
    return "".join(f"{line}\n" for line in (*lines, _summary(box_plan)))


def _object_line(one: PlannedObject) -> str:
    changes = ", ".join(f"{change.path} {_value(change.before)} → {_value(change.after)}" for change in one.changes)
    place = f"     {one.place}" if one.place else ""
    return "; ".join(part for part in (changes, f"{one.state}: {one.message}" if one.message else "") if part) + place


def _value(value: Any) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _summary(box_plan: BoxPlan) -> str:
    writes = ", ".join(f"{count} {verb}" for verb, count in box_plan.writes.items()) or "nothing"
    refused = f" ({box_plan.refused} refused)" if box_plan.refused else ""
    return f"status: {box_plan.ready}        writes: {writes}{refused}"


def _diff(box_plan: BoxPlan) -> str:
    changed = [obj for obj in box_plan.objects if obj.action != "-"]
    lines = [line for obj in changed for line in object_lines(obj.object, obj.before, obj.after)]
    return "".join(f"{line}\n" for line in lines)


def _data(box_plan: BoxPlan) -> dict[str, Any]:
    return {
        "object": box_plan.object,
        "objects": [_entry(obj) for obj in box_plan.objects],
        "writes": dict(box_plan.writes),
        "refused": box_plan.refused,
        "status": box_plan.status,
    }


def _entry(planned_object: PlannedObject) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "node": planned_object.node,
        "object": planned_object.object,
        "action": planned_object.action,
        "state": planned_object.state,
    }
    entry |= {
        name: value for name, value in (("message", planned_object.message), ("place", planned_object.place)) if value
    }
    if planned_object.changes:
        entry["changes"] = [{"path": two.path, "from": two.before, "to": two.after} for two in planned_object.changes]
    if planned_object.action != "-" and planned_object.before is None and planned_object.after is not None:
        entry["manifest"] = planned_object.after
    return entry


def _against_text(found: PlanAgainst, file: str) -> str:
    lines = [f"{file} against {found.summary}"]
    for box_plan in found.changed:
        rows = [planned for planned in box_plan.objects if planned.action != "-" or planned.message]
        lines += [box_plan.object, *(f"  {row.object}  {row.action}  {_object_line(row)}".rstrip() for row in rows)]
    lines += [f"{name}\n  {message}" for name, message in found.unfit]
    return "".join(f"{line}\n" for line in lines)


def _against_data(found: PlanAgainst) -> dict[str, Any]:
    return {
        "objects": [_data(box_plan) for box_plan in found.plans],
        "unfit": [{"object": name, "message": message} for name, message in found.unfit],
        "writes": found.writes,
        "refused": found.refused,
    }


def against_output(found: PlanAgainst, file: str, output: str) -> str:
    """Return the plans of the box in `file` for all objects of a cluster as text in the form `output`."""
    match output:
        case "text":
            return _against_text(found, file)
        case "diff":
            unfit = (f"! {name} has no plan: {message}\n" for name, message in found.unfit)
            return "".join([*map(_diff, found.plans), *unfit])
    return dump([_against_data(found)], Format(output))


def _planned_against(
    file: str, crds: Sequence[Path], now: str, kubeconfig: Path, output: str
) -> tuple[PlanAgainst, str]:
    """Return the plans for all objects of the box's kind in a cluster, and the same as text in the form `output`.

    Raises CommandError.
    """
    known = list(further_crds(crds))
    loaded = load_box(file, known)

    async def judged(api: KubeApiClient) -> PlanAgainst:
        installed = await installed_definitions(api, missing_definitions([loaded]))
        (box,) = runnable([load_box(file, [*known, *installed])])
        own = str(box.kind.crd_name)
        definitions = [crd.manifest for crd in (*known, *installed) if crd.manifest["metadata"]["name"] != own]
        return await plan_against(api, box, definitions, time_of(now))

    found = at_cluster(kubeconfig, judged)
    return found, against_output(found, file, output)


_TEXTS: Final[Mapping[str, Callable[[BoxPlan], str]]] = {
    "text": _text,
    "diff": _diff,
    "yaml": lambda found: dump([_data(found)], Format.YAML),
    "json": lambda found: dump([_data(found)], Format.JSON),
}


def plan(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    parent: Annotated[
        str, Parameter(name="--cr", help="File with the object that the box is for; `-` is standard input.")
    ] = "",
    against: Annotated[
        Path | None,
        Parameter(help="Instead: kubeconfig of a cluster, for every object of the kind there; nothing is written."),
    ] = None,
    observed: Annotated[
        list[Path] | None,
        Parameter(
            name=("--observed", "--children", "--externals"),
            help="File or folder with objects that are there: children, externals, what others made; repeatable.",
            negative="",
        ),
    ] = None,
    crds: Crds = None,
    now: Annotated[str, Parameter(help="The time to decide at (RFC 3339); default: the present.")] = "",
    output: Annotated[
        Literal["text", "diff", "yaml", "json"],
        Parameter(name=("--output", "-o"), help="How the plan is shown; diff: what would change of each object."),
    ] = "text",
    exit_code: Annotated[
        bool,
        Parameter(
            help="Exit status 0: nothing to write except the status; 1: something; 2: something would be refused, or"
            " there was an error.",
            negative="",
        ),
    ] = False,
) -> int:
    """Show what a box would do now for one object, or for every object of a cluster, without a write.

    The pass runs on the embedded API server, which gets the observed objects first. So it is a real API server that
    sets defaults, and that refuses conflicts with other field managers and changes of immutable fields. Conflicts are
    found only if the observed objects show their managedFields. Contents of Secrets are not shown. Examples:

        vworkspace-operator box plan webapp.yaml --cr shop.yaml
        vworkspace-operator box plan webapp.yaml --cr shop.yaml --observed live/ -o diff
        vworkspace-operator box plan webapp.yaml --against kc
    """
    if (against is None) == (not parent):
        raise CommandError("give --cr or --against (see vworkspace-operator box plan --help)", status=USAGE)
    if against is not None and observed:
        raise CommandError("--observed is for --cr: --against reads the objects of the cluster", status=USAGE)
    if against is not None:
        judged, text = _planned_against(file, crds or [], now, against, output)
        status = FAILED if judged.refused or judged.unfit else DIFFERS if judged.writes else SAME
    else:
        found, text = planned(file, parent, observed or [], crds or [], now, output)
        status = FAILED if found.refused else DIFFERS if found.changes else SAME
    print(text, end="")
    return status if exit_code else SAME
