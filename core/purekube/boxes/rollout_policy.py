"""The settings of a box that say how a changed definition reaches the objects of its kind (PH-10)."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.fields import CelRule, schema_field
from purekube.apimachinery.formats import DNS_LABEL, GO_DURATION

ALL: Final = "all"
_PACE: Final = r"all|(linear|exponential)\([1-9][0-9]{0,5}\)"
_UNAVAILABLE: Final = r"[1-9][0-9]{0,5}|[1-9][0-9]?%|100%"
_IS_AMOUNT: Final = CelRule(
    f"string(self).matches('^({_UNAVAILABLE})$')",
    "must be a number above 0, or a percentage such as 10%",
    lambda value, _: re.fullmatch(_UNAVAILABLE, str(value)) is not None,
)
_NUMBER: Final = re.compile(r"[0-9]+")


class DeletionPolicy(StrEnum):
    """The treatment of the objects of a box's kind when the box is deleted: the deletion waits until they are gone,
    leaves them without a controller, or deletes them first.
    """

    REFUSE = "Refuse"
    """The box stays and keeps working until the last object is gone."""
    ORPHAN = "Orphan"
    """The objects and their children stay, without a controller."""
    DELETE = "Delete"
    """The objects are deleted first, with their children."""


class RolloutFailure(StrEnum):
    """The reaction to an object that fails at the new revision: the roll-out stops, or it is undone."""

    STOP = "Stop"
    UNDO = "Undo"


class RolloutOrder(StrEnum):
    """The order by age in which the objects of a wave move to the new revision."""

    OLDEST_FIRST = "OldestFirst"
    NEWEST_FIRST = "NewestFirst"


@attrs.frozen
class RolloutWave:
    """A group of objects that moves before later waves; an object belongs to the first wave that selects it."""

    name: str = schema_field("Name of the wave.", schema={"pattern": DNS_LABEL})
    namespaces: Mapping[str, Any] | None = schema_field(
        "Label selector of their namespaces; all without it.", default=None
    )
    objects: Mapping[str, Any] | None = schema_field("Label selector of the objects; all without it.", default=None)


@attrs.frozen
class BoxRollout:
    """The settings for the roll-out of a changed box over the objects of its kind."""

    pace: str = schema_field(
        "How many objects move at a time, the next ones once these are Ready: `all`, `linear(N)` or `exponential(N)`, "
        "which begins with N and doubles.",
        default=ALL,
        schema={"pattern": f"^({_PACE})$"},
    )
    max_unavailable: int | str = schema_field(
        "How many moved objects may be not Ready at a time: a number, or a percentage of all.",
        default="10%",
        rules=[_IS_AMOUNT],
    )
    order: RolloutOrder = schema_field("Which objects move first.", default=RolloutOrder.OLDEST_FIRST)
    when: tuple[str, ...] = schema_field(
        "CEL expressions that hold for more objects to move; `rollout` has the counts `total`, `moved`, `ready`, "
        "`failed`, `waiting` and `pinned`.",
        default=(),
        schema={"items": {"type": "string"}},
    )
    waves: tuple[RolloutWave, ...] = schema_field("Which objects move before all others, in this order.", default=())
    pause: bool = schema_field("Whether no further object moves.", default=False)
    on_failure: RolloutFailure = schema_field(
        "What follows if an object fails at the new revision.", default=RolloutFailure.STOP
    )
    progress_deadline: str = schema_field(
        "How long a moved object may take to become Ready before it counts as failed.",
        default="10m",
        schema={"pattern": GO_DURATION},
    )

    def unavailable_of(self, total: int) -> int:
        """Return how many of `total` objects may be not Ready. A percentage is rounded down, but is at least
        1 object.
        """
        text = str(self.max_unavailable)
        return max(1, total * int(text[:-1]) // 100) if text.endswith("%") else int(text)

    def room_in_batch(self, moved: int, *, all_ready: bool) -> int | None:
        """Return how many objects may still join the present batch after `moved` objects moved; None for no limit.

        A batch is a number of objects that move together: the field `pace` gives its size. The next batch begins once
        all moved objects are Ready, as `all_ready` reports; until then the result after a full batch is 0.
        """
        if self.pace == ALL:
            return None
        match = _NUMBER.search(self.pace)
        assert match is not None
        size, begin = int(match[0]), 0
        grows = self.pace.startswith("exponential")
        while begin + size <= moved:
            begin, size = begin + size, size * 2 if grows else size
        return 0 if begin == moved and not all_ready else begin + size - moved
