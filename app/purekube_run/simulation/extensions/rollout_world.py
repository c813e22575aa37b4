"""The simulation of a box as an OperatorBox, whose definition users change while its objects live (SIM-5, PH-10).

Some definitions never become Ready, and for some the API server refuses a write: their roll-outs stop, or are undone.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from enum import StrEnum
from random import Random
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.boxes.box import Box
from purekube.boxes.rollout_policy import RolloutFailure
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.rollouts.reasons import ROLLED_OUT, RolloutPhase
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.boxes.webhooks.admission_policy import policy_of
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube_run.boxes.document import read_marked
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.simulation.extensions.extension_replica import Extending
from purekube_run.simulation.extensions.extension_world import (
    MANAGER,
    OWN,
    Deed,
    ExtensionLaws,
    ExtensionWorkload,
    ExtensionWorld,
    lives,
)
from purekube_run.simulation.extensions.rollout_laws import DEFINITION, RolloutLaws, resources_of
from purekube_run.simulation.extensions.runnables import SameText
from purekube_run.simulation.run import Simulation
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.world_faults import WORLD_FAULTS

_PROGRESS_DEADLINE: Final = 30.0
"""The seconds after which a moved object that is not Ready stops the roll-out of the definitions that users apply."""
_SOUND: Final = 1_000_000
"""The number of the definition with which users help a roll-out that has stopped. It has no defect."""
_PACE: Final = 150.0
"""The mean time in seconds between two changes of the definition."""


class RolloutDeed(StrEnum):
    """The actions of users on a box itself, in addition to those of `Deed` on its objects."""

    CHANGE_BOX = "change the definition"


class _Flaw(StrEnum):
    """The flaws of the definitions that users apply."""

    NONE = "none"
    NEVER_READY = "a child that is never Ready"
    REFUSED = "a child that the API server refuses"


_FLAWS: Final = {_Flaw.NONE: 5, _Flaw.NEVER_READY: 3, _Flaw.REFUSED: 1}


def applied_spec(file: str, box: Box) -> Mapping[str, Any]:
    """Return the spec of the OperatorBox by which the box in `file` is applied to a cluster.

    The CRD of its kind becomes a part of it. Raises CommandError if the file cannot be read.
    """
    values = [document.value for document in read_marked(file)]
    spec: Mapping[str, Any] = next(value["spec"] for value in values if value.get("kind") == OPERATOR_BOX.kind)
    return {**spec, "crd": {"spec": box.crd["spec"]}} if box.crd else spec


@attrs.frozen
class Definitions:
    """The definitions of a box that users apply in turn: variants of `spec`, which `seed` determines.

    Each marks the children that it makes with its number. `budget` is the `maxUnavailable` of all of them.
    """

    spec: Mapping[str, Any]
    seed: int

    @property
    def budget(self) -> int:
        """The number of moved objects that may be not Ready at a time."""
        return 1 + self.seed % 2

    def spec_of(self, number: int) -> Mapping[str, Any]:
        """Return the spec of the definition with this number. Every fourth definition repeats an earlier one."""
        random = Random(f"{self.seed}/definition/{number}")
        if 0 < number < _SOUND and random.random() < 0.25:
            return self.spec_of(random.randrange(number))
        flaws, weights = zip(*_FLAWS.items(), strict=True)
        drawn = random.choices(flaws, weights)[0]
        policy = random.choice((RolloutFailure.STOP, RolloutFailure.UNDO))
        flaw = drawn if 0 < number < _SOUND else _Flaw.NONE
        return {**self._varied(number, flaw, random), "rollout": self._rollout(policy)}

    def _rollout(self, on_failure: RolloutFailure) -> Mapping[str, Any]:
        return {
            "maxUnavailable": self.budget,
            "onFailure": str(on_failure),
            "progressDeadline": f"{_PROGRESS_DEADLINE:g}s",
        }

    def _varied(self, number: int, flaw: _Flaw, random: Random) -> dict[str, Any]:
        spec = deepcopy(dict(self.spec))
        resources = [*resources_of(spec)]
        for resource in resources:
            _mark(resource, "annotations", DEFINITION, str(number))
        plain = [resource for resource in resources if "forEach" not in resource and "readiness" not in resource]
        if flaw is _Flaw.NEVER_READY and plain:
            chosen = random.choice(plain)
            never = f"${{{chosen['id']}.metadata.name == ''}}"
            chosen["readyWhen"] = [*(chosen.get("readyWhen") or ()), never]
        if flaw is _Flaw.REFUSED and plain:
            _mark(random.choice(plain), "labels", "example.com/refused", "${self.metadata.name + '!'}")
        return spec


def _mark(resource: dict[str, Any], field: str, name: str, value: str) -> None:
    meta = resource["template"].setdefault("metadata", {})
    meta[field] = {**(meta.get(field) or {}), name: value}


class RolloutWorld(ExtensionWorld):
    """A simulated cluster whose replicas run one box that is applied as an OperatorBox.

    `definitions_of_box` are the definitions that users apply; the first one is there from the start.
    """

    def __init__(
        self, box: Box, spec: Mapping[str, Any], definitions: Sequence[Manifest], seed: int, replicas: int
    ) -> None:
        self.box = ObjectRef(OPERATOR_BOX, None, box.name)
        self._runnable = box
        self.definitions_of_box = Definitions(spec, seed)
        super().__init__((box,), definitions, seed, replicas)
        self.rights = (*self.rights, OPERATOR_BOX.plural, CONTROLLER_REVISION.plural)

    def _prepare(self) -> None:
        super()._prepare()
        for kind, policy in policy_of(self._runnable).items():
            self.create(policy, kind)
        self.create(OPERATOR_BOX.manifest(self.box.name, spec=self.definitions_of_box.spec_of(0)), OPERATOR_BOX)

    def _definitions(self) -> Iterator[Manifest]:
        """Yield the CRDs that exist before a process starts. The CRD of the box's kind is not one of them, because the
        box contains it.
        """
        yield applied_box_definition()
        yield from self.definitions.values()

    def _extending(self) -> Extending:
        return Extending(field_manager=MANAGER, entropy=SameText(), applied=OWN)

    def apply_definition(self, number: int) -> bool:
        """Give the box another definition, as a user does. Return False if it has this definition already."""
        live, spec = self.get(self.box), self.definitions_of_box.spec_of(number)
        if live is None or live["spec"] == spec:
            return False
        self.apply(OPERATOR_BOX.manifest(self.box.name, spec=spec), OPERATOR_BOX, "users")
        return True


class RolloutWorkload(ExtensionWorkload):
    """The simulated users of a box, who also change its definition."""

    def __init__(self, world: RolloutWorld) -> None:
        super().__init__(world)
        self._rollouts = world
        self._helped = False

    def help_out(self) -> None:
        """Apply a definition without a defect, once, if the roll-out cannot begin, or has stopped for good."""
        live = self._rollouts.get(self._rollouts.box)
        is_undone = get_path(live, "spec", "rollout", "onFailure") == RolloutFailure.UNDO
        ends = (RolloutPhase.REFUSED, *(() if is_undone else (RolloutPhase.STOPPED,)))
        if not self._helped and condition_of(live, ROLLED_OUT).get("reason") in ends:
            self._helped = self._rollouts.apply_definition(_SOUND)

    def _perform(self, act: Act) -> str:
        if act.do != RolloutDeed.CHANGE_BOX:
            return super()._perform(act)
        return str(self._rollouts.box) if self._rollouts.apply_definition(act.number) else ""


def _lives(random: Random, objects: int, seconds: float) -> Iterator[Act]:
    """Yield random actions of users on a number of `objects` and on the definition of their box within `seconds`."""
    yield from lives(random, objects, seconds)
    at, number = 0.15 * seconds, 0
    while (at := at + random.expovariate(1 / _PACE)) < seconds:
        number += 1
        yield Act(round(at, 3), RolloutDeed.CHANGE_BOX, "definition-0", number)


def rollout_simulation_of(
    box: Box, spec: Mapping[str, Any], definitions: Sequence[Manifest] = ()
) -> Simulation[RolloutWorld, ExtensionLaws]:
    """Return the simulation of a box that is applied as an OperatorBox with this `spec`.

    `definitions` are CRDs of further kinds that it uses. Raises CommandError if the box has several versions.
    """
    if WebhookDuties.of(box).versions:
        raise CommandError(f"{box.name} has several versions: the webhook that converts is not simulated", status=USAGE)

    def world(script: SimulationScript) -> RolloutWorld:
        return RolloutWorld(box, spec, definitions, script.seed, script.replicas)

    def laws(world: RolloutWorld) -> ExtensionLaws:
        return RolloutLaws(world, world.box, world.definitions_of_box.budget)

    return Simulation(world, laws, RolloutWorkload, _lives, (*Deed, *RolloutDeed), WORLD_FAULTS)
