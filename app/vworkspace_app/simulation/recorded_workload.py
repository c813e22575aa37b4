"""The acts of people and of the control plane in a recording, as the workload of a simulation (SIM-1).

Names and versions become those of a simulation: what is taken over is who did what, in which order, and when.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.recording_file import Recording, is_recording, read_recording
from vworkspace_app.simulation.run import read_script
from vworkspace_app.simulation.script import Do
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY


def workload_in(path: Path) -> tuple[tuple[Act, ...], float]:
    """Return the acts in a recording or a saved run, and its length in seconds. Raises BadFile."""
    if is_recording(path):
        recording = read_recording(path)
        return tuple(acts_in(recording)), recording.seconds
    script = read_script(path)
    return script.acts, script.seconds


def acts_in(recording: Recording) -> Iterator[Act]:
    """Yield what users did: one act for each change that was no controller's."""
    before: dict[ObjectRef, Manifest] = {}
    names: dict[tuple[str | None, str], str] = {}
    for number, change in enumerate(recording.changes):
        old = before.get(change.ref)
        if change.ref.kind == APPLICATION_INSTANCE:
            key = (change.ref.namespace, change.ref.name)
            by_job = bool(get_path(change.last, "metadata", "annotations", IDEMPOTENCY_KEY))
            name = names.setdefault(key, f"{'job' if by_job else 'app'}-{len(names)}")
            for do in _acts(old, change.manifest, by_job=by_job):
                yield Act(change.at, do, name, number)
        elif change.ref.kind == OPERATION and old is None and change.manifest is not None:
            target = (change.ref.namespace, str(get_path(change.last, "spec", "targetRef", "name")))
            if target in names:
                yield Act(change.at, Do.BACKUP, names[target], number)
        if change.manifest is None:
            before.pop(change.ref, None)
        else:
            before[change.ref] = change.manifest


def _acts(old: Manifest | None, new: Manifest | None, *, by_job: bool) -> Iterator[Do]:
    """Yield what was done to an instance between two versions of it."""
    if new is None or get_path(new, "metadata", "deletionTimestamp"):
        if old is not None and not get_path(old, "metadata", "deletionTimestamp"):
            yield Do.DELETE_JOB if by_job else Do.DELETE
        return
    if old is None or get_path(old, "metadata", "uid") != get_path(new, "metadata", "uid"):
        yield Do.JOB if by_job else Do.CREATE
        return
    if by_job:
        if _spec(old) != _spec(new):
            yield Do.JOB
        return
    if _spec(old, "chart") != _spec(new, "chart"):
        yield Do.UPGRADE
    if _spec(old, "values") != _spec(new, "values"):
        yield Do.VALUES
    if bool(_spec(old, "suspend")) != bool(_spec(new, "suspend")):
        yield Do.SUSPEND if _spec(new, "suspend") else Do.RESUME


def _spec(manifest: Manifest, *path: str) -> Any:
    return get_path(manifest, "spec", *path)
