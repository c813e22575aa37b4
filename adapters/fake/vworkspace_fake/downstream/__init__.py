"""Simulated downstream controllers: they write the statuses that the real ones write (RUN-9).

Velero, Argo Workflows, the Job controller, VolSync, the CSI snapshotter, a volume provisioner, the controllers of
Deployments, StatefulSets and DaemonSets, a load balancer and an ingress controller.
"""

from vworkspace_fake.downstream.behaviour import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    JobBehaviour,
    SnapshotBehaviour,
    VeleroBehaviour,
    VolSyncBehaviour,
    WorkflowBehaviour,
    WorkflowStep,
    WorkloadBehaviour,
)
from vworkspace_fake.downstream.catalogue import CONTROLLERS
from vworkspace_fake.downstream.crds import downstream_crds
from vworkspace_fake.downstream.run import run
from vworkspace_fake.downstream.simulator import DownstreamSimulator
from vworkspace_fake.downstream.workflow_nodes import resume_patch

__all__ = [
    "CONTROLLERS",
    "DownstreamBehaviour",
    "DownstreamOutcome",
    "DownstreamRule",
    "DownstreamSimulator",
    "Ending",
    "JobBehaviour",
    "SnapshotBehaviour",
    "VeleroBehaviour",
    "VolSyncBehaviour",
    "WorkflowBehaviour",
    "WorkflowStep",
    "WorkloadBehaviour",
    "downstream_crds",
    "resume_patch",
    "run",
]
