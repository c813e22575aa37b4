"""The agent's driver: performs what the job machine asks for, through the ports (PULL-2, PULL-5, PULL-7)."""

from vworkspace_app.agent.agent import Agent
from vworkspace_app.agent.keeper import CredentialKeeper
from vworkspace_app.agent.settings import AgentSettings

__all__ = ["Agent", "AgentSettings", "CredentialKeeper"]
