"""The rights of controllers by kind: the verbs that their roles grant, and no other (RUN-7).

Some verbs are needed by the passes of controllers; those of `owns` and `reads` are what the API that a controller is
given allows: it refuses all else.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.access import Access
from purekube.apimachinery.manifest import Kind
from purekube.reconcilers.controllers import (
    AnyController,
    Feature,
    Reconciler,
    features_of,
    kind_of,
    resource_of,
    watched_of,
)

_FOLLOWED: Final = ("list", "watch")
_READ: Final = frozenset(("get", "list", "watch"))
_MADE: Final = _READ | {"create", "update", "patch", "delete"}


def declared_verbs(controller: AnyController) -> Mapping[Kind, frozenset[str]]:
    """Return what a controller may do with the API that it requests."""
    verbs = {kind_of(controller): _READ}
    verbs |= {one.kind: _READ for one in watched_of(controller.reads)}
    return verbs | {one.kind: _MADE for one in watched_of(controller.owns)}


def requests_api(controller: AnyController | type[AnyController]) -> bool:
    """Report whether the controller requests an API by a field `api`."""
    cls = controller if isinstance(controller, type) else type(controller)
    return any(field.name == "api" for field in getattr(cls, "__attrs_attrs__", ()))


def controller_access(controllers: Iterable[AnyController]) -> tuple[Access, ...]:
    """Return the rights that controllers need together, except on the Lease of the process."""
    everywhere = [Access(known.CUSTOM_RESOURCE_DEFINITION, _FOLLOWED), Access(known.EVENT, ("create", "patch"))]
    for controller in controllers:
        everywhere += _of_passes(controller)
        for kind, verbs in declared_verbs(controller).items() if requests_api(controller) else ():
            everywhere.append(Access(kind, tuple(sorted(verbs))))
        everywhere += (Access(one.kind, _FOLLOWED) for one in watched_of((*controller.owns, *controller.reads)))
    return tuple(everywhere)


def _of_passes(controller: AnyController) -> Iterator[Access]:
    """Yield the rights on its own kind: to watch it, to write finalizers and status, to read an outdated copy again."""
    kind, features = kind_of(controller), features_of(controller)
    yield Access(kind, _FOLLOWED)
    if not controller.watch.is_whole:
        yield Access(kind, ("get",))
    if Feature.FINALIZER in features:
        yield Access(kind, ("patch",))
    if isinstance(controller, Reconciler) and resource_of(controller) is not None:
        yield Access(kind, ("get",))
        yield Access(kind, ("patch",), "status")
    if controller.owns:
        yield Access(kind, ("update",), "finalizers")
