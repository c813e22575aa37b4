"""Taking everything down, from labels and annotations alone (PH-3, L11)."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef
from vworkspace_core.controller.decision import Decision, MergePatch, Snapshot
from vworkspace_core.graph.build import Graph
from vworkspace_core.graph.once import CreateRecord
from vworkspace_core.graph.owner import Owner
from vworkspace_core.graph.scope import Scope

BeforeDelete: TypeAlias = Callable[[ObjectRef, Manifest], MergePatch | None]
"""What has to be written on a live object before it is deleted, as a suspended HelmRelease is resumed; as a rule None.
It goes by the kind and the object alone: the graph may not be known any more.
"""


def nothing_before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
    """Nothing has to be written before."""
    return None


@attrs.frozen
class Hooks:
    """What runs to its end before anything is deleted. Its nodes are of `ApplyPolicy.ONCE`; they go last."""

    graph: Graph
    scope: Scope


class TeardownStep(StrEnum):
    """What a teardown is busy with: the reason of the condition Deleting."""

    DRAINING = "Draining"
    DELETING = "DeletingResources"
    WAITING = "WaitingForRemoval"
    DONE = "Done"
    """Nothing of ours is left: the finalizer may go."""


@attrs.frozen
class Teardown:
    """One step. `message` names what is left, and since when it was asked to go; `effects` and `records` as in Plan."""

    step: TeardownStep
    message: str
    effects: Decision
    records: tuple[CreateRecord, ...] = ()
    left: tuple[ObjectRef, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the finalizer may go."""
        return self.step is TeardownStep.DONE


def teardown(
    owner: Owner, observed: Snapshot, hooks: Hooks | None = None, before_delete: BeforeDelete = nothing_before
) -> Teardown:
    """The next step of taking down what the owner has. Without `hooks`, as where the file cannot be read any more,
    nothing is run before.
    """
    raise NotImplementedError
