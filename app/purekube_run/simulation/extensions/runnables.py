"""The extensions that a process can run: boxes, pure reconcilers and controllers in Python.

Functions of this module read what an extension declares, such as its kind, its CRD and the kinds of its children. A box
is an operator that is defined in YAML; a pure reconciler computes the children of an object by a pure function.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from kubelab.entropy import SeededEntropy
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of as composite_of_box
from purekube.boxes.definition import crd_of
from purekube.boxes.schemas import CrdVersions
from purekube.composites.composite import Composite
from purekube.ports import KubeApi, KubeTransport
from purekube.reconcilers import PureReconciler, Resource
from purekube.reconcilers.controllers import AnyController, Feature, features_of, status_writer_of, watched_of
from purekube.reconcilers.decide_pure import composite_of as composite_of_pure
from purekube.schema import Schema
from purekube.schema.node import JsonType
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.reconcilers.controllers import GivenController, bind
from purekube_run.simulation.cluster import plain_definition
from purekube_run.simulation.extensions.extension_replica import Extending

Runnable: TypeAlias = Box | PureReconciler[Any, Any] | GivenController
"""An extension to run: a box, a pure reconciler, a Reconciler or Watcher, its class, or a function that returns it.

A box is an operator that is defined in YAML; a Watcher is a controller that is notified of changes to objects.
"""

_NO_API: KubeApi = KubeApi(cast("KubeTransport", None))
"""The API of controllers that are constructed only to be inspected, and never run."""


class SameText:
    """A replacement for the generator of secrets whose texts depend only on length and alphabet.

    So all simulated clusters that are compared get the same texts.
    """

    def text(self, length: int, alphabet: str) -> str:
        """Return a string that looks random, but is always the same for the same length and alphabet."""
        return SeededEntropy(0).text(length, alphabet)


def extending_of(runnables: Sequence[Runnable], field_manager: str) -> Extending:
    """Return the settings of a simulated process that runs these extensions (controllers that users add).

    `field_manager` is the field manager with which the process writes Events. Raises CommandError if two extensions
    would write the status of the same kind.
    """
    composites = [composite_of(runnable) for runnable in runnables if isinstance(runnable, Box | PureReconciler)]
    controllers = [runnable for runnable in runnables if not isinstance(runnable, Box | PureReconciler)]
    made = (bind(controller, _NO_API) for controller in controllers)
    refuse_shared_kinds(composites, (writer for each in made if (writer := status_writer_of(each)) is not None))
    return Extending(composites, controllers, field_manager=field_manager, entropy=SameText())


def composite_of(runnable: Box | PureReconciler[Any, Any]) -> Composite:
    """Return the composite (a kind whose objects have children) that a box or a pure reconciler defines."""
    return composite_of_box(runnable) if isinstance(runnable, Box) else composite_of_pure(runnable)


def _declared(runnable: Runnable) -> Box | PureReconciler[Any, Any] | AnyController:
    """Return an extension in a form whose declarations can be read.

    A controller that is given as a class or factory is constructed, with an API that cannot be used.
    """
    return runnable if isinstance(runnable, Box | PureReconciler) else bind(runnable, _NO_API)


def kind_of(runnable: Runnable) -> Kind:
    """Return the kind that an extension (a box or a controller in Python) reconciles."""
    kind = _declared(runnable).kind
    return kind.kind if isinstance(kind, Resource) else kind


def resource_of(runnable: Runnable) -> Resource[Any, Any] | None:
    """Return the Python definition of the kind that an extension reconciles, or None if the kind has none.

    An extension is a box or a controller in Python. Such a definition, a Resource, has the Python classes of the kind's
    spec and status.
    """
    kind = _declared(runnable).kind
    return kind if isinstance(kind, Resource) else None


def definition_of(runnable: Runnable) -> Manifest | None:
    """Return the CRD of the kind that an extension reconciles, or None if the extension does not define the kind.

    An extension is a box or a controller in Python. For a box without a CRD, the result is a CRD that admits every
    object.
    """
    if (resource := resource_of(runnable)) is not None:
        return resource.crd()
    if isinstance(runnable, Box):
        return crd_of(runnable) if runnable.crd else plain_definition(runnable.kind)
    return None


def schema_of(runnable: Runnable, definitions: Mapping[str, Manifest]) -> Schema:
    """Return the schema of the kind that an extension (a box or a controller in Python) reconciles.

    It is the extension's own schema, or else that of the kind's CRD in `definitions` (by name), or else the schema of
    an object without fields.
    """
    if (resource := resource_of(runnable)) is not None:
        return resource.schema
    crd = runnable.crd if isinstance(runnable, Box) else definitions.get(kind_of(runnable).crd_name)
    known = CrdVersions.of(crd).stored.schema if crd else None
    return Schema(type=JsonType.OBJECT) if known is None else known


def child_kinds_of(runnable: Runnable) -> tuple[Kind, ...]:
    """Return the kinds of the children that an extension (a box or a controller in Python) creates."""
    if isinstance(runnable, Box | PureReconciler):
        return composite_of(runnable).child_kinds
    return tuple(watched.kind for watched in watched_of(bind(runnable, _NO_API).owns))


def read_kinds_of(runnable: Runnable) -> tuple[Kind, ...]:
    """Return the kinds of the objects that an extension (a box or a controller in Python) only reads."""
    if isinstance(runnable, Box | PureReconciler):
        return tuple(external.kind for external in composite_of(runnable).externals)
    return tuple(watched.kind for watched in watched_of(bind(runnable, _NO_API).reads))


def reports_ready(runnable: Runnable) -> bool:
    """Report whether an extension (a box or a controller in Python) writes conditions, such as Ready, into the status
    of its objects.

    Boxes, and reconcilers that are pure functions, always do; other controllers declare it.
    """
    if isinstance(runnable, Box | PureReconciler):
        return True
    return Feature.CONDITIONS in features_of(bind(runnable, _NO_API))
