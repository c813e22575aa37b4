"""The input and output of functions that review writes of a user's kind before they are stored (PH-8)."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeAlias

import attrs

from purekube.apimachinery.problems import Problem
from purekube.reconcilers.desired import Object, Spec, Status


@attrs.frozen
class AdmissionWarning:
    """A text that the API server shows to the author of a write. The write is admitted."""

    message: str
    path: str = ""
    """The path of the field, such as `spec.quota`; empty for the whole object."""


@attrs.frozen
class Admission(Generic[Spec, Status]):
    """One write that is about to be stored: the new object, the object that it replaces (None on create), and
    the user.
    """

    object: Object[Spec, Status]
    old: Object[Spec, Status] | None = None
    user: str = ""


Validator: TypeAlias = Callable[[Admission[Spec, Status]], Iterable[Problem | AdmissionWarning]]
"""A function that returns the problems for which a write is refused, and warnings."""
Defaulter: TypeAlias = Callable[[Object[Spec, Status]], Spec]
"""A function that returns an object's spec with defaults filled in. From its own result it must return the same spec.
"""


@attrs.frozen(eq=False)
class Reviews(Generic[Spec, Status]):
    """The functions that review each write of a kind's objects: `validate` may refuse it, `default` fills in fields."""

    validate: Validator[Spec, Status] | None = None
    default: Defaulter[Spec, Status] | None = None
