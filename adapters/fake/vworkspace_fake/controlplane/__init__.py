"""The embedded vWorkspace control plane (PULL-11): in memory, called in process or over HTTP (`http`).

It replaces Odoo, which sends jobs (units of work) to the operator in each cluster.
"""

from vworkspace_fake.controlplane.faults import AgentCall, Faults, ScriptedFault, When
from vworkspace_fake.controlplane.inprocess_control_plane import InProcessControlPlane
from vworkspace_fake.controlplane.jobs import JobEntry
from vworkspace_fake.controlplane.refusals import ApiRefusal, Dropped
from vworkspace_fake.controlplane.server import ControlPlaneServer, RateLimit

__all__ = [
    "AgentCall",
    "ApiRefusal",
    "ControlPlaneServer",
    "Dropped",
    "Faults",
    "InProcessControlPlane",
    "JobEntry",
    "RateLimit",
    "ScriptedFault",
    "When",
]
