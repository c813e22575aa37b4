"""Simulated downstream controllers, which write the statuses that the real controllers write (RUN-9).

They are downstream of the operator: they act on objects that the operator, or Helm for it, creates. The package
simulates Velero, Argo Workflows, the Job controller, VolSync, the CSI snapshotter, a volume provisioner, the
controllers of Deployments, StatefulSets and DaemonSets, a load balancer and an ingress controller.
"""

from kubelab.downstream.behaviour import (
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
from kubelab.downstream.crds import downstream_crds
from kubelab.downstream.downstream_simulator import CONTROLLERS, DownstreamSimulator

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
]
