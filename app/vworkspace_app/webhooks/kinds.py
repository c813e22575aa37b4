"""The webhooks that a process serves for users' kinds: they judge reviews, and convert objects (PH-8)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from purekube.apimachinery.admission_review import AdmissionRequest
from purekube.boxes.webhooks.conversion_webhook import APPLIED_BOX_PATH

if TYPE_CHECKING:
    from purekube.versions import Converter

Judge: TypeAlias = Callable[[AdmissionRequest], Awaitable[dict[str, Any]]]
"""A function that returns the answer to an admission review."""
FindConverters: TypeAlias = Callable[[str], Awaitable[Sequence["Converter"]]]
"""A function that returns the converters of the kinds in an API group. Raises OperatorErrors."""


@attrs.frozen(eq=False)
class ServedKinds:
    """The webhooks for users' kinds, which boxes (operators that files declare) and attrs classes define.

    `converters` convert objects between the versions of a kind. `judges` are functions that judge reviews, by the URL
    path of their webhook. `find_converters` finds converters that come and go while the process runs.
    """

    converters: "tuple[Converter, ...]" = ()
    judges: Mapping[str, Judge] = attrs.field(factory=dict)
    find_converters: FindConverters | None = None

    def with_applied_boxes(self, review: Judge, find_converters: FindConverters) -> "ServedKinds":
        """Return these webhooks with those of applied boxes: `review` judges OperatorBoxes, and `find_converters` finds
        the converters of their kinds.
        """
        judges = {**self.judges, APPLIED_BOX_PATH: review}
        return attrs.evolve(self, judges=judges, find_converters=find_converters)

    @property
    def converts(self) -> bool:
        """Report whether this process serves conversion webhooks.

        They are for the kinds in `converters`, or for kinds whose converters `find_converters` finds.
        """
        return bool(self.converters) or self.find_converters is not None

    def __bool__(self) -> bool:
        return self.converts or bool(self.judges)

    async def converters_to(self, api_version: str) -> "Sequence[Converter]":
        """Return all converters that may be able to convert objects to the API version `api_version`.

        They are the fixed ones, and those that `find_converters` returns for the API group. Raises the OperatorErrors
        of `find_converters`.
        """
        found = () if self.find_converters is None else await self.find_converters(api_version.partition("/")[0])
        return (*self.converters, *found)


NO_KINDS: Final = ServedKinds()
"""The value for a server that has only the operator's own webhooks."""
