"""Labels, annotations and finalizers of boxes. Labels are the only way in which children are found again (PH-3)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from purekube.apimachinery.definitions import BOX_DOMAIN as DOMAIN
from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import Kind
from purekube.graph.owner import Marks

if TYPE_CHECKING:
    from purekube.boxes.box import Box
    from purekube.boxes.model import DeclaredKind

MARKS: Final = Marks(DOMAIN)
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE: Final = "vworkspace-box"
READERS: Final = f"{DOMAIN}/readers"
"""The annotation of a Secret with the kinds, such as `webapps.example.com`, whose objects may refer to it (RUN-12)."""


def finalizer(box: "Box") -> str:
    """Return the finalizer that keeps a parent (object of the box's kind) until its children have been removed."""
    return finalizer_named(box.name)


def finalizer_named(name: str) -> str:
    """Return the finalizer that a box called `name` puts on its parents (objects of the box's kind)."""
    return f"{DOMAIN}/{name}"


def child_labels(box: "Box") -> Mapping[str, str]:
    """Return the labels of every child that the box creates, except the labels that identify the child's parent."""
    return {MANAGED_BY: MANAGED_BY_VALUE, BOX_NAME: box.name}


def child_selector(box: "Box") -> str:
    """Return the label selector that finds the children of all parents (objects of the box's kind)."""
    return f"{BOX_NAME}={box.name}"


@lru_cache(maxsize=256)
def child_kinds(box: "Box") -> tuple[Kind, ...]:
    """Return the kinds of all children that the box may have created.

    They include kinds that the box only declares, since an earlier version of the file may have created such objects.
    """
    nodes = (*box.nodes, *(node for phase in box.drains for node in phase))
    read = {external.kind for external in box.externals}
    declared = (kind for kind in map(_declared, box.model.spec.kinds) if kind not in read)
    return tuple(dict.fromkeys((*(node.kind for node in nodes), *declared)))


def _declared(declared_kind: "DeclaredKind") -> Kind:
    group, _, version = declared_kind.api_version.rpartition("/")
    return Kind(group, version, declared_kind.kind, declared_kind.plural, declared_kind.namespaced)
