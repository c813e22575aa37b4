"""Reconcilers and watchers in Python in a process of their own (PH-7)."""

import random
from collections.abc import Sequence

from vworkspace_app.commands.run_alone import MakeRunnable, Surroundings, run_alone
from vworkspace_app.reconcilers.running import ControllerOptions, Controllers, GivenController
from vworkspace_app.settings import RunSettings


def run_controllers(settings: RunSettings, controllers: Sequence[GivenController]) -> None:
    """Run until a signal. Raises CommandError for a cluster that cannot be named, or controllers that cannot run."""
    run_alone(settings, [controllers_in(controllers)], controllers=[_name(one) for one in controllers])


def controllers_in(controllers: Sequence[GivenController]) -> MakeRunnable:
    """Reconcilers and watchers, as they are run in a process."""

    def make(has: Surroundings) -> Controllers:
        options = ControllerOptions(random.random, has.run_id, has.telemetry.observer)
        return Controllers(has.api, has.clock, controllers, has.events, options)

    return make


def _name(given: GivenController) -> str:
    return getattr(given, "__qualname__", type(given).__qualname__)
