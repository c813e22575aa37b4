"""Consent before a box acts for a parent: of other namespaces, and of Secrets that a parent names (RUN-12).

Consent is an annotation on the affected object, which only its own tenant may write, as for Velero's peers. Until it is
there the resource stays unchanged, and its message says what to write.
"""

import shlex

from purekube.apimachinery.annotations import names_in
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.places import Place
from purekube.apimachinery.resources import NAMESPACE
from purekube.boxes.box import ExternalNode
from purekube.boxes.evaluation import Evaluation
from purekube.boxes.labels import MARKS, READERS
from purekube.composites.composite import peers_annotation
from purekube.controller.managed_fields import kubectl_name
from purekube.graph import Hold, HoldCause, Scope


def closed_namespace(evaluation: Evaluation, scope: Scope, namespace: str | None, place: Place) -> Hold | None:
    """Return why nothing may be done in a computed namespace; None if it is the parent's, or has consented."""
    own = get_path(evaluation.parent, "metadata", "namespace")
    if (
        own is None
        or namespace is None
        or namespace in (own, *evaluation.observed.peers, *_created_namespaces(evaluation, scope))
    ):
        return None
    annotation = peers_annotation(MARKS)
    live = evaluation.observed.objects.get(ObjectRef(NAMESPACE, None, namespace))
    command = _annotate(ObjectRef(NAMESPACE, None, namespace), live, annotation, str(own))
    return Hold(HoldCause.DENIED, f"namespace {namespace} has not let namespace {own} in: {command}", place)


def closed_secret(evaluation: Evaluation, external: ExternalNode, ref: ObjectRef) -> Hold | None:
    """Return why a Secret that a parent names may not be used; None if it does not exist, or names the kind."""
    live, kind = evaluation.observed.objects.get(ref), evaluation.box.kind
    if not external.must_agree or live is None or kind.crd_name in names_in(live, READERS):
        return None
    command = _annotate(ref, live, READERS, kind.crd_name)
    return Hold(HoldCause.DENIED, f"{ref} does not let {kind.kind} objects use it: {command}", external.place)


def _created_namespaces(evaluation: Evaluation, scope: Scope) -> set[str]:
    """Return the names of the namespaces that the box itself makes for this parent."""
    nodes = (node.id for node in evaluation.box.nodes if node.kind == NAMESPACE)
    children = (child for name in nodes if name in scope.nodes for child in scope.nodes[name].items)
    return {child.ref.name for child in children if child.ref is not None}


def _annotate(ref: ObjectRef, live: Manifest | None, annotation: str, name: str) -> str:
    """Return the command that gives consent, keeping the consent that it has given already."""
    names = ",".join(sorted({*names_in(live, annotation), name}))
    return f"kubectl annotate --overwrite {_quoted(ref)} {shlex.quote(f'{annotation}={names}')}"


def _quoted(ref: ObjectRef) -> str:
    return shlex.join(kubectl_name(ref).split(" "))
