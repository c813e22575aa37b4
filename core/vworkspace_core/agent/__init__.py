"""The agent's half of pull mode: wire types, scope, applier, and the job machine, all without I/O."""

from vworkspace_core.agent.jobstate import JobState, Stage
from vworkspace_core.agent.link import Connectivity, Link
from vworkspace_core.agent.machine import AgentState, has_open_job, next_deadline, step
from vworkspace_core.agent.outbox import Outbox
from vworkspace_core.agent.outcome import Outcome, Reason, Verdict, judge
from vworkspace_core.agent.pace import Pace
from vworkspace_core.agent.scope import Scope
from vworkspace_core.agent.security import PayloadOpener, Security
from vworkspace_core.agent.wire import BadJob, Job, JobKind, parse_job

__all__ = [
    "AgentState",
    "BadJob",
    "Connectivity",
    "Job",
    "JobKind",
    "JobState",
    "Link",
    "Outbox",
    "Outcome",
    "Pace",
    "PayloadOpener",
    "Reason",
    "Scope",
    "Security",
    "Stage",
    "Verdict",
    "has_open_job",
    "judge",
    "next_deadline",
    "parse_job",
    "step",
]
