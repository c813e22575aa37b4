"""The behaviour that distinguishes one kind from another, as data and pure functions.

Custom resources all share `CUSTOM`; every built-in kind has its own.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import StatusCause

Manifest = Mapping[str, Any]


class Generation(Enum):
    """The changes that increment `metadata.generation` (S-72)."""

    NEVER = auto()
    """The kind has no generation."""
    SPEC = auto()
    """Every change of the spec."""
    CONTENT = auto()
    """Every change outside metadata, as for custom resources."""


class NameRule(Enum):
    """The rule for names of objects."""

    SUBDOMAIN = auto()
    """A DNS subdomain: lower case, dots, at most 253 characters."""
    LABEL = auto()
    """A DNS label: lower case, no dots, at most 63 characters."""
    SERVICE = auto()
    """A DNS label that begins with a letter."""
    SEGMENT = auto()
    """Any text that can be a segment of a URL path (RBAC)."""


def _same(manifest: Manifest) -> Manifest:
    return manifest


def _as_new(new: Manifest, old: Manifest) -> Manifest:
    return new


def _sound(manifest: Manifest) -> list[StatusCause]:
    return []


def _sound_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    return []


@attrs.frozen(eq=False)
class Behaviour:
    """The hooks of one kind; each has a default that does nothing.

    `read` completes a decoded body (defaults that depend on other fields, `stringData`), before ownership is tracked.
    `on_create` and `on_update` set what the server decides (labels of a Job, what `status` keeps), after it. `check`,
    `check_update` and, for that subresource, `check_status` are the rules that no schema expresses. `skeleton` holds
    the structs that exist before creation, so that no manager owns their `.` (S-22). `orphans`: a DELETE without a
    propagation policy orphans the dependents.
    """

    skeleton: Manifest = attrs.field(factory=dict)
    generation: Generation = Generation.CONTENT
    unconditional_update: bool = False
    orphans: bool = False
    name_rule: NameRule = NameRule.SUBDOMAIN
    read: Callable[[Manifest], Manifest] = _same
    on_create: Callable[[Manifest], Manifest] = _same
    on_update: Callable[[Manifest, Manifest], Manifest] = _as_new
    check: Callable[[Manifest], list[StatusCause]] = _sound
    check_update: Callable[[Manifest, Manifest], list[StatusCause]] = _sound_update
    check_status: Callable[[Manifest, Manifest], list[StatusCause]] = _sound_update


CUSTOM: Final = Behaviour()
"""The behaviour of custom resources.

A PUT needs a resourceVersion, and each change outside metadata increments the generation (S-72, S-74).
"""
