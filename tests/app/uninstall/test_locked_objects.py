"""`uninstall --keep-applications` after the operator died between the create of an engine object and its record."""

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import metadata
from purekube.controller.ownership import is_locked
from tests.support.operation_simulation import Cluster, Died
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
