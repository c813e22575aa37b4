"""Simulated downstream controllers: they write the statuses that the real ones write (RUN-9).

Velero, Argo Workflows, the Job controller, VolSync, the CSI snapshotter and a volume provisioner.
"""

from vworkspace_fake.downstream.behaviour import (
    DownstreamBehaviour,
    Ending,
    JobBehaviour,
    Outcome,
    Rule,
    SnapshotBehaviour,
    VeleroBehaviour,
    VolSyncBehaviour,
    WorkflowBehaviour,
    WorkflowStep,
)
from vworkspace_fake.downstream.catalogue import CONTROLLERS
from vworkspace_fake.downstream.run import run
from vworkspace_fake.downstream.simulator import DownstreamSimulator
from vworkspace_fake.downstream.workflow_nodes import resume_patch

__all__ = [
    "CONTROLLERS",
    "DownstreamBehaviour",
    "DownstreamSimulator",
    "Ending",
    "JobBehaviour",
    "Outcome",
    "Rule",
    "SnapshotBehaviour",
    "VeleroBehaviour",
    "VolSyncBehaviour",
    "WorkflowBehaviour",
    "WorkflowStep",
    "resume_patch",
    "run",
]
