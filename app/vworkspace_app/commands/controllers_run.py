"""Reconcilers and watchers in Python, run in a process of their own (PH-7)."""

import random
from collections.abc import Sequence

from purekube_run.reconcilers.running import ControllerOptions, Controllers, GivenController
from vworkspace_app.commands.run_alone import MakeRunnable, Surroundings


def controllers_in(controllers: Sequence[GivenController]) -> MakeRunnable:
    """Return a function that makes the runtime of these controllers from what the process has."""

    def make(has: Surroundings) -> Controllers:
        options = ControllerOptions(random.random, has.run_id, has.telemetry.observer)
        return Controllers(has.api, has.clock, controllers, has.events, options)

    return make
