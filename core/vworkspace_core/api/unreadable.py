"""An object of ours that cannot be read: its status says so, and it can still be deleted (REC-13).

The CRD prevents such objects; one that was stored under an older schema may exist all the same.
"""

from typing import Generic, Protocol, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import structure


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


S = TypeVar("S", bound=_Object)
T = TypeVar("T")


@attrs.frozen
class Unreadable(Generic[S]):
    """The readable part of a malformed object, and its problems.

    `stub` has its metadata, and the readable parts of spec and status. `has_spec`: enough of the spec is known for a
    decision on what already runs. `has_status`: its status is known; otherwise it must not be overwritten.
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
    """Read the status alone; None if that is malformed too."""
    try:
        return structure(cls, manifest.get("status") or {})
    except ValidationProblems:
        return None


def problem_text(error: ValidationProblems) -> str:
    """Return all problems, for a message."""
    return "; ".join(str(problem) for problem in error.problems)


def readable(source: S | Unreadable[S]) -> S:
    """Return the object, or the stub of an unreadable one."""
    if not isinstance(source, Unreadable):
        return source
    stub: S = source.stub
    return stub
