"""`uninstall --keep-applications` and the marks of the operator on engine objects, which nothing takes off later."""

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import metadata
from purekube.controller.ownership import is_locked
from tests.support.operation_simulation import Cluster, Died
from tests.unit.operations.test_life import NIGHTLY, postponed
from vworkspace_app.uninstall.steps import advance_deletion
from vworkspace_core.api.kinds import OPERATION


@pytest.mark.parametrize("of", ["backup.velero", "backup.snapshot", "backup.volsync", "restore.volsync"])
def test_no_object_of_an_engine_stays_locked_RUN_7(of: str) -> None:
    """Without the operator nobody could delete it: neither a person, nor Velero when the backup expires."""
    world = Cluster(of)
    key = world.submit(of, "op-1", approved=of.startswith("restore"))
    world.api.fatal, world.api.after = 2, True  # the writes: the finalizer, the intent, the create
    with pytest.raises(Died):
        world.settle(key)
    ((ref, made),) = world.engine_objects()
    assert is_locked(made)

    for _ in range(5):
        run_sync(advance_deletion(world.admin, OPERATION, [live] if (live := world.get(key)) else []))
    kept = world.get(ref)
    assert (world.get(key), metadata(kept or {}).get("uid")) == (None, metadata(made)["uid"])
    assert not is_locked(kept or {})


@pytest.mark.parametrize("collected", [False, True])
def test_a_postponed_schedule_counts_again_without_the_operator_RUN_7(collected: bool) -> None:
    """Uninstalled during a Restore, the operator left a backup that was due once a year."""
    world, key, _ = postponed()
    source, _ = world.engine_object(key)
    if collected:  # by the garbage collector, between two requests of the command
        world.edit(source, {"metadata": {"ownerReferences": None}})
    for _ in range(5):
        run_sync(advance_deletion(world.admin, OPERATION, [live] if (live := world.get(key)) else []))
    kept = world.get(source) or {}
    assert world.get(key) is None
    assert kept["spec"]["trigger"] == {"schedule": NIGHTLY}
    assert not metadata(kept).get("annotations")
