"""What the operator says of itself: the status of the Cluster object of its own id (RES-3, RES-4)."""

from vworkspace_core.cluster.controllers import Watched, controllers_condition, installed_engines
from vworkspace_core.cluster.decision import HEARTBEAT_SECONDS, cluster_manifest, decide
from vworkspace_core.cluster.posture import AgentReport, Mail, Posture

__all__ = [
    "HEARTBEAT_SECONDS",
    "AgentReport",
    "Mail",
    "Posture",
    "Watched",
    "cluster_manifest",
    "controllers_condition",
    "decide",
    "installed_engines",
]
