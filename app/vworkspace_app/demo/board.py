"""The live display of the demo below its printed steps: a table of the present objects and the open jobs.

A job is a request that the control plane, a server, offers to the operator.
"""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from vworkspace_app.demo.narrator import Sighting, Spectator
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_fake.controlplane.server import ControlPlaneServer

_COLOURS = {"True": "green", "False": "bold", "Unknown": "magenta"}
_PHASES = {"Running": "magenta", "Succeeded": "green", "Failed": "red", "Cancelled": "bold"}
"""The colours of phases, readable on light and dark backgrounds."""


def instance_table(spectator: Spectator, control: ControlPlaneServer, waiting_for: str) -> Table:
    """Return a table with a row for each of the instance, its chart source and its HelmRelease, and a row for the open
    jobs.

    The row of an object has its generation and the status and reason of its condition Ready, the last row the ids of
    the open jobs. `spectator` has the states of the objects, and `waiting_for` is the table's caption.
    """
    table = box_table(spectator, (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE), waiting_for)
    table.add_row("open jobs", "", "", _open_jobs(control))
    return table


def box_table(spectator: Spectator, kinds: Sequence[Kind], waiting_for: str) -> Table:
    """Return a table with one row per kind, about the newest object of that kind: its generation and condition Ready.

    A kind without an object has a row without values. `spectator` has the states of the objects, and `waiting_for` is
    the table's caption.
    """
    table = _table(("object", "generation", "Ready", "reason"), waiting_for)
    for kind in kinds:
        table.add_row(kind.kind, *_cells(_latest(spectator, kind)))
    return table


def _table(columns: Sequence[str], waiting_for: str) -> Table:
    return Table(*columns, caption=waiting_for or None, caption_style="dim", title_style="bold", expand=False)


def _open_jobs(control: ControlPlaneServer) -> str:
    return ", ".join(job.id for job in control.jobs if job.open) or "none"


def operations_table(spectator: Spectator, control: ControlPlaneServer, waiting_for: str) -> Table:
    """Return a table with one row per Operation, in order of creation, and a row for the open jobs.

    The row of an Operation has its name, type, engine and phase, and the reason for the phase. The last row has the ids
    of the open jobs. `spectator` has the states of the objects, and `waiting_for` is the table's caption.
    """
    table = _table(("operation", "type", "engine", "phase", "why"), waiting_for)
    latest = {get_path(seen.object, "metadata", "name"): seen for seen in spectator.sightings if seen.kind == OPERATION}
    for name, seen in latest.items():
        if not seen.is_gone:
            spec, phase = seen.object["spec"], str(get_path(seen.object, "status", "phase") or "—")
            shown = Text(phase, style=_PHASES.get(phase, "dim"))
            table.add_row(name, spec["type"], spec["engine"], shown, _condition_reason(seen))
    table.add_row("open jobs", "", "", "", _open_jobs(control))
    return table


def _condition_reason(seen: Sighting) -> str:
    """Return the reason of the Operation's most important condition that is True, or "" if none is.

    The order of importance is Failed, Cancelled, Succeeded, Blocked, Running.
    """
    entries = (condition_of(seen.object, kind) for kind in ("Failed", "Cancelled", "Succeeded", "Blocked", "Running"))
    return next((str(entry["reason"]) for entry in entries if entry.get("status") == "True"), "")


def _latest(spectator: Spectator, kind: Kind) -> Manifest | None:
    """Return the last state of the object of a kind, or None if it was deleted or never seen.

    The demo has at most one object per kind.
    """
    for sighting in reversed(spectator.sightings):
        if sighting.kind == kind:
            return None if sighting.is_gone else sighting.object
    return None


def _cells(manifest: Manifest | None) -> tuple[str, Text, str]:
    if manifest is None:
        return "", Text("—", style="dim"), ""
    ready = condition_of(manifest, "Ready")
    status = str(ready.get("status", "—"))
    generation = str(get_path(manifest, "metadata", "generation"))
    return generation, Text(status, style=_COLOURS.get(status, "dim")), str(ready.get("reason", ""))
