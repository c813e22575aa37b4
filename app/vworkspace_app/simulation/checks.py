"""The checks of a world of the operator: counted by law, with the secrets that no output may show."""

from typing import Any, Final

import msgspec

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import LEASE
from purekube_run.simulation.laws import Laws
from vworkspace_app.simulation.surroundings import PASSWORD
from vworkspace_app.simulation.world import OWN_NAMESPACE, SimulatedWorld

_SECRETS: Final = (PASSWORD.encode(), b"tok-")


class OperatorChecks(Laws):
    """The laws of every world, on one of the operator. With several shards each has a Lease (`write_laws`)."""

    def __init__(self, world: SimulatedWorld) -> None:
        whole = world.settings.shards == 1
        super().__init__(world, ObjectRef(LEASE, OWN_NAMESPACE, "vworkspace-operator") if whole else None)
        self.operator_world = world

    @staticmethod
    def shows_secret(value: Any) -> bool:
        """Report whether a value shows a secret of the simulation."""
        return leaks(msgspec.json.encode(value))


def leaks(text: bytes) -> bool:
    """Report whether an output shows a secret of the simulation."""
    return any(secret in text for secret in _SECRETS)
