"""Short stories in the cluster of the attack: what the explicit examples of its findings are told with."""

from typing import Any

from kubelab.flux import Action, OutcomeKind, SourceFault
from purekube.apimachinery.manifest import Manifest
from tests.support.instance_oracle import conditions_of
from tests.support.instance_turmoil import LiveRule, LiveSourceRule, Turmoil, intent
from tests.support.simulation import INSTANCE


def world_with(seconds: float = 20, *, collects: bool = True, **spec: Any) -> Turmoil:
    """A cluster in which that instance has been for a while."""
    world = Turmoil(collects=collects)
    world.submit(intent(**spec))
    world.run(seconds)
    return world


def status_of(world: Turmoil, kind: str) -> tuple[str, str, int]:
    """Status, reason and observedGeneration of a condition of the instance."""
    found = conditions_of(world.look(INSTANCE))[kind]
    return found["status"], found["reason"], found["observedGeneration"]


def broken(world: Turmoil, fault: SourceFault, version: str | None = None) -> None:
    """From now on registries and repositories fail, for one version or for all."""
    world.source_rules.append(LiveSourceRule(world, fault, None, version))
    world.script()


def failing(world: Turmoil, version: str, *kinds: OutcomeKind, times: int | None = None) -> None:
    """From now on installs and upgrades to a version end like that: the first kind `times` times, then the next."""
    for kind in kinds or (OutcomeKind.FAIL,):
        world.rules += [LiveRule(world, action, kind, times, version) for action in (Action.INSTALL, Action.UPGRADE)]
    world.script()


def copy_of(world: Turmoil) -> Manifest:
    """The instance as it stands."""
    found = world.look(INSTANCE)
    assert found is not None
    return found
