"""The simulated controllers by the names under which they are chosen."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vworkspace_fake.downstream.addresses import ADDRESSES
from vworkspace_fake.downstream.claims import VOLUME_PROVISIONER
from vworkspace_fake.downstream.controller import DownstreamController
from vworkspace_fake.downstream.job import JOB_CONTROLLER
from vworkspace_fake.downstream.snapshot import SNAPSHOT_CONTROLLER
from vworkspace_fake.downstream.velero import VELERO
from vworkspace_fake.downstream.volsync import VOLSYNC
from vworkspace_fake.downstream.workflow import WORKFLOW_CONTROLLER
from vworkspace_fake.downstream.workloads import WORKLOADS

CONTROLLERS: Final[Mapping[str, tuple[DownstreamController, ...]]] = MappingProxyType(
    {
        "velero": (VELERO,),
        "workflow": (WORKFLOW_CONTROLLER,),
        "job": (JOB_CONTROLLER,),
        "volsync": (VOLSYNC,),
        "snapshot": (SNAPSHOT_CONTROLLER, VOLUME_PROVISIONER),
        "workloads": (*WORKLOADS, *ADDRESSES),
    }
)
"""The controllers by name.

`snapshot` includes the provisioner: a snapshot needs a bound claim, and a restore makes one.
"""
