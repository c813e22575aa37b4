"""Scenarios of Flux: what a user does, and what is waited for. Each plays on any stage (RUN-8, RUN-9).

Each topic is a module. A docstring says what a scenario is about; its name is the name of the recording in
`tests/conformance/flux`.
"""

from tests.support.flux_scenarios import charts, drift, ends, interruptions, owners, sources, upgrades, values
from tests.support.flux_scenarios.registry import BY_THEIR_END, SCENARIOS, SLOW, Scenario, played

__all__ = ["BY_THEIR_END", "SCENARIOS", "SLOW", "TOPICS", "Scenario", "played"]

TOPICS = (sources, charts, values, upgrades, interruptions, drift, owners, ends)
