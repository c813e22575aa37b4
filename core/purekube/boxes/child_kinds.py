"""The kinds of objects that a box makes (PH-3)."""

from functools import lru_cache

from purekube.apimachinery.manifest import Kind
from purekube.boxes.box import Box
from purekube.boxes.model import DeclaredKind


@lru_cache(maxsize=256)
def child_kinds(box: Box) -> tuple[Kind, ...]:
    """Return the kinds that a box makes objects of, and those that it declares: an earlier file may have made some."""
    nodes = (*box.nodes, *(node for phase in box.drains for node in phase))
    read = {external.kind for external in box.externals}
    declared = (kind for kind in map(_declared, box.model.spec.kinds) if kind not in read)
    return tuple(dict.fromkeys((*(node.kind for node in nodes), *declared)))


def _declared(declared_kind: DeclaredKind) -> Kind:
    group, _, version = declared_kind.api_version.rpartition("/")
    return Kind(group, version, declared_kind.kind, declared_kind.plural, declared_kind.namespaced)
