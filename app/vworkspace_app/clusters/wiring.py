"""The Cluster controller beside an operator, with or without an agent."""

from functools import partial

from vworkspace_app.clusters.controller import ClusterController, ClusterSettings
from vworkspace_app.credentials.live import Live
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.manager.operator import Operator
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.ports import Clock, KubeApi


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
