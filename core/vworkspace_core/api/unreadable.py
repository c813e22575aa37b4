"""An object of ours that cannot be read: it is said in its status, and it can still be deleted (REC-13).

The CRD keeps such objects out; one that was stored under an older schema may be there all the same.
"""

from typing import Generic, Protocol, TypeVar

import attrs

from vworkspace_core.api.codec import structure
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.apimachinery.meta import ObjectMeta
from vworkspace_core.apimachinery.problems import ValidationProblems


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


S = TypeVar("S", bound=_Object)
T = TypeVar("T")


@attrs.frozen
class Unreadable(Generic[S]):
    """What can be known of an object that makes no sense, and what is wrong with it.

    `stub` has its metadata, and of spec and status what could be read. `has_spec`: as much of the spec is known as a
    decision on what runs already needs. `has_status`: its status is known; without, nothing may be written over it.
    """

    stub: S
    problems: str
    has_spec: bool = False
    has_status: bool = True

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        return self.stub.metadata


def read_status(cls: type[T], manifest: Manifest) -> T | None:
    """The status alone; None where that cannot be read either."""
    try:
        return structure(cls, manifest.get("status") or {})
    except ValidationProblems:
        return None


def problem_text(error: ValidationProblems) -> str:
    """Everything that is wrong, for a message."""
    return "; ".join(str(problem) for problem in error.problems)


def readable(source: S | Unreadable[S]) -> S:
    """The object, or what could be read of it."""
    if not isinstance(source, Unreadable):
        return source
    stub: S = source.stub
    return stub
