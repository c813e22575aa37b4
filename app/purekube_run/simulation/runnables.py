"""The extensions that a process can run (boxes, pure reconcilers, controllers in Python), and what each declares."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from kubelab.entropy import SeededEntropy
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of as composite_of_box
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
from purekube_run.simulation.extension_replica import Extending

Runnable: TypeAlias = Box | PureReconciler[Any, Any] | GivenController
"""An extension to run: a box, a reconciler, a Watcher, or a function of the API that returns one of these."""

_NO_API: KubeApi = KubeApi(cast("KubeTransport", None))
"""The API of controllers that are constructed only to be inspected, and never run."""


class SameText:
    """An `Entropy` whose text depends only on the length, so that all clusters get the same."""

    def text(self, length: int, alphabet: str) -> str:
        """Return text that looks random."""
        return SeededEntropy(0).text(length, alphabet)


def extending_of(runnables: Sequence[Runnable], field_manager: str) -> Extending:
    """Return the settings of a process that runs these extensions. Raises CommandError if they cannot run together."""
    composites = [composite_of(runnable) for runnable in runnables if isinstance(runnable, Box | PureReconciler)]
    controllers = [runnable for runnable in runnables if not isinstance(runnable, Box | PureReconciler)]
    made = (bind(controller, _NO_API) for controller in controllers)
    refuse_shared_kinds(composites, (writer for each in made if (writer := status_writer_of(each)) is not None))
    return Extending(composites, controllers, field_manager=field_manager, entropy=SameText())


def composite_of(runnable: Box | PureReconciler[Any, Any]) -> Composite:
    """Return the composite of a box or a pure reconciler."""
    return composite_of_box(runnable) if isinstance(runnable, Box) else composite_of_pure(runnable)


def _declared(runnable: Runnable) -> Box | PureReconciler[Any, Any] | AnyController:
    """Return the value that has the declarations of an extension."""
    return runnable if isinstance(runnable, Box | PureReconciler) else bind(runnable, _NO_API)


def kind_of(runnable: Runnable) -> Kind:
    """Return the kind that a controller reconciles."""
    kind = _declared(runnable).kind
    return kind.kind if isinstance(kind, Resource) else kind


def resource_of(runnable: Runnable) -> Resource[Any, Any] | None:
    """Return that kind's classes, if it has any."""
    kind = _declared(runnable).kind
    return kind if isinstance(kind, Resource) else None


def definition_of(runnable: Runnable) -> Manifest | None:
    """Return the CRD of that kind; None for a kind that others define."""
    if (resource := resource_of(runnable)) is not None:
        return resource.crd()
    if isinstance(runnable, Box):
        return crd_of(runnable) if runnable.crd else plain_definition(runnable.kind)
    return None


def schema_of(runnable: Runnable, definitions: Mapping[str, Manifest]) -> Schema:
    """Return the schema of that kind: its own, else that of a further definition, else that of an empty object."""
    if (resource := resource_of(runnable)) is not None:
        return resource.schema
    crd = runnable.crd if isinstance(runnable, Box) else definitions.get(kind_of(runnable).crd_name)
    known = CrdVersions.of(crd).stored.schema if crd else None
    return Schema(type=JsonType.OBJECT) if known is None else known


def child_kinds_of(runnable: Runnable) -> tuple[Kind, ...]:
    """Return the kinds of objects that it makes."""
    if isinstance(runnable, Box | PureReconciler):
        return composite_of(runnable).child_kinds
    return tuple(watched.kind for watched in watched_of(bind(runnable, _NO_API).owns))


def read_kinds_of(runnable: Runnable) -> tuple[Kind, ...]:
    """Return the kinds of other owners' objects that it reads."""
    if isinstance(runnable, Box | PureReconciler):
        return tuple(external.kind for external in composite_of(runnable).externals)
    return tuple(watched.kind for watched in watched_of(bind(runnable, _NO_API).reads))


def reports_ready(runnable: Runnable) -> bool:
    """Return whether the controller writes conditions on its objects."""
    if isinstance(runnable, Box | PureReconciler):
        return True
    return Feature.CONDITIONS in features_of(bind(runnable, _NO_API))
