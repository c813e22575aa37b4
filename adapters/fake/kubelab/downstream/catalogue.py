"""The simulated controllers by the names under which they are chosen."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kubelab.downstream.addresses import ADDRESSES
from kubelab.downstream.claims import VOLUME_PROVISIONER
from kubelab.downstream.controller import DownstreamController
from kubelab.downstream.job import JOB_CONTROLLER
from kubelab.downstream.snapshot import SNAPSHOT_CONTROLLER
from kubelab.downstream.velero import VELERO
from kubelab.downstream.volsync import VOLSYNC
from kubelab.downstream.workflow import WORKFLOW_CONTROLLER
from kubelab.downstream.workloads import WORKLOADS

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
