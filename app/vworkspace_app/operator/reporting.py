"""The Cluster controller beside an operator, with or without an agent."""

from functools import partial

from vworkspace_app.agent import Agent
from vworkspace_app.operator.assembly import Operator
from vworkspace_app.operator.clusters import ClusterController, ClusterSettings
from vworkspace_app.operator.settings import OperatorSettings
from vworkspace_app.runtime.live import Live
from vworkspace_core.agent.credentials import Credentials
from vworkspace_core.ports import Clock, KubeApi

__all__ = ["cluster_controller"]


def cluster_controller(
    operator: Operator,
    api: KubeApi,
    settings: OperatorSettings,
    clock: Clock,
    agent: Agent | None,
    credentials: Live[Credentials],
) -> ClusterController:
    """The controller, with a driver of its own; `agent` is None where there is none (SEE-4)."""
    told = ClusterSettings(
        settings.decisions.cluster_id,
        settings.version,
        settings.credentials_secret,
        settings.disconnected_seconds,
        settings.unreachable_seconds,
        settings.decisions.policy,
        settings.every_opening,
        settings.require_signed,
    )
    driver = partial(operator.driver, "cluster", workers=1)
    return ClusterController(api, operator.informers, told, clock, operator.events, agent, credentials, driver)
