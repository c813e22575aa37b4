"""Our `Kind` as a lightkube resource class.

lightkube's own constructors put classes into a registry that is global to the process and refuses a
second definition that differs. The classes here are made beside it, so what another part of the process
registered cannot break a request.
"""

from functools import cache
from typing import TypeAlias

from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource

from vworkspace_core.manifest import Kind

__all__ = ["Resource", "resource_class"]

Resource: TypeAlias = type[GenericNamespacedResource] | type[GenericGlobalResource]

_VERBS = ["delete", "get", "global_list", "global_watch", "list", "patch", "post", "put", "watch"]


@cache
def resource_class(kind: Kind, subresource: str = "") -> Resource:
    """The lightkube class whose requests go to `kind`, or to a subresource of it such as `status`."""
    base = GenericNamespacedResource if kind.namespaced else GenericGlobalResource
    definition = ResourceDef(kind.group, kind.version, kind.kind)
    info = ApiInfo(
        resource=definition,
        plural=kind.plural,
        verbs=_VERBS,
        parent=definition if subresource else None,
        action=subresource or None,
    )
    return type(f"{kind.kind}{subresource.capitalize()}", (base,), {"_api_info": info})
