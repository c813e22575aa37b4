"""The control plane that comes with the project (PULL-11): in memory, in process, and over HTTP (`http`)."""

from vworkspace_fake.controlplane.faults import Call, Fault, Faults, When
from vworkspace_fake.controlplane.inprocess import InProcessControlPlane
from vworkspace_fake.controlplane.jobs import JobEntry
from vworkspace_fake.controlplane.rate import RateLimit
from vworkspace_fake.controlplane.refusals import Dropped, Refusal
from vworkspace_fake.controlplane.server import ControlPlaneServer

__all__ = [
    "Call",
    "ControlPlaneServer",
    "Dropped",
    "Fault",
    "Faults",
    "InProcessControlPlane",
    "JobEntry",
    "RateLimit",
    "Refusal",
    "When",
]
