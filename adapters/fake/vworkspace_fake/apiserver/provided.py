"""The built-in resources as they are served: the built-in definitions with what only serving needs."""

from typing import Final

from vworkspace_fake.apiserver.builtin import BUILTIN_DEFINITIONS
from vworkspace_fake.apiserver.definition import Definition
from vworkspace_fake.apiserver.namespaces import NAMESPACES
from vworkspace_fake.apiserver.resources import Resource, resource_of
from vworkspace_fake.apiserver.reviews import review_resources
from vworkspace_fake.apiserver.store import GroupResource

__all__ = ["provided_resources"]

_RETURNS_DELETED: Final[frozenset[GroupResource]] = frozenset(
    ("", plural) for plural in ("persistentvolumeclaims", "persistentvolumes", "pods", "serviceaccounts", "services")
)
"""Kinds whose DELETE answers the object as it was."""


def provided_resources() -> tuple[Resource, ...]:
    """Every resource that is served without a CRD."""
    return (*(_resource(definition) for definition in BUILTIN_DEFINITIONS), *review_resources())


def _resource(definition: Definition) -> Resource:
    where = (definition.kind.group, definition.kind.plural)
    return resource_of(
        definition,
        subresources=("finalize",) if where == NAMESPACES else (),
        returns_deleted=where in _RETURNS_DELETED,
    )
