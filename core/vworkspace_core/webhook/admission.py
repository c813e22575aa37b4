"""The webhooks for the operator's own kinds: defaults, and refusals of what the reconciler would only report (RUN-6).

The reconciler would report it as Blocked or Accepted=False.

Expected flow
    a subresource, a deletion, an object that is being deleted, is not managed (lacks the operator's label) or belongs
    to another operator → admitted; an update that changes neither spec nor the owning cluster → admitted; otherwise it
    is checked whether the namespace is managed, and the cluster id and the spec are checked.
Guarantees
    Pure. The removal of a finalizer and the write of a status always get through (RUN-6). A new object is refused
    exactly when the reconciler, seeing it in the same namespace, would report a violation of a rule about namespace,
    cluster id or spec. Rules that depend on other objects (policy, names, targets, installed kinds) are checked by the
    reconciler alone. No existing value is changed by a default.
Assumptions
    The API server has pruned and defaulted the object by its CRD: defaults that a schema can express are there. The
    reconciler never needs the other defaults, because the CRD refuses an object that lacks them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.admission_review import AdmissionRequest
from purekube.apimachinery.formats import DNS_LABEL
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.nesting import TOO_DEEP, too_deep
from purekube.apimachinery.problems import Problem, ValidationProblems, first_of
from purekube.apimachinery.structuring import read_meta, structure
from vworkspace_core.api.admission import AdmissionSettings, check_managed_namespace, same_spec, stored_problems
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.classes import class_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import MANAGED_BY, NAMESPACE_GATE, NAMESPACE_GATE_VALUE, cluster_id_of, is_managed
from vworkspace_core.api.managed_namespace import claimed_by_another_operator, meant_for_another_cluster
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.parameters import template_problems
from vworkspace_core.operations.templates import Templates

DEFAULT_PATH: Final = "/default"
"""The path of the defaulting webhook."""
GATED_PATH: Final = "/validate"
"""The path of the validating webhook for objects in managed namespaces."""
UNGATED_PATH: Final = "/validate-ungated"
"""The path of the validating webhook for objects in all other namespaces."""
# The longest `spec.releaseName` of a HelmRelease.
_LONGEST_RELEASE: Final = 53
Patch = list[dict[str, Any]]


@attrs.frozen
class WebhookSettings:
    """The settings of the validating webhook: the cluster's id, and the limits and templates to which objects must
    conform.

    `admission` limits what objects may contain, such as the size of values. `templates` define the valid Operations.
    """

    cluster_id: str
    admission: AdmissionSettings = attrs.field(factory=AdmissionSettings)
    templates: Templates = attrs.field(factory=builtin_templates)
    writers: frozenset[str] = frozenset()
    """The users that may write managed objects; empty permits all."""


def refusals(request: AdmissionRequest, settings: WebhookSettings, *, namespace_managed: bool) -> tuple[Problem, ...]:
    """Return every reason to refuse the write `request`; empty if it is admitted.

    `settings` has the cluster's id, and the limits and templates to which the object must conform. `namespace_managed`
    says whether the object's namespace is managed (RES-5).
    """
    if request.written is None:
        return ()
    new = _without_owners(request.written)
    meta = read_meta(new)
    if meta.deletion_timestamp is not None or not is_managed(meta):
        return ()
    old, before = _predecessor(request)
    if cut := too_deep(new):
        # An object that was as deep before cannot be compared: the removal of a finalizer must get through.
        return () if too_deep(old) else tuple(Problem(path, TOO_DEEP) for path in cut)
    if _belongs_to_another(new, meta, settings):
        return ()
    unchanged = old is not None and same_spec(new, old)
    if unchanged and cluster_id_of(before) == cluster_id_of(meta):
        return ()
    if settings.writers and request.user not in settings.writers:
        return (_not_a_writer(request, settings),)
    spec: tuple[Problem, ...] = ()
    if not unchanged:
        spec = (*stored_problems(new, old, settings.admission), *template_problems(new, settings.templates))
    namespace = _namespace(namespace_managed=namespace_managed)
    return first_of([*spec, *check_managed_namespace(meta, namespace, settings.cluster_id)])


def _not_a_writer(request: AdmissionRequest, settings: WebhookSettings) -> Problem:
    """Return the problem that the request's user is not in `settings.writers` and may not write managed objects."""
    named = ", ".join(sorted(settings.writers))
    return Problem(
        f'metadata.labels["{MANAGED_BY}"]',
        f"{request.user or 'an unknown user'} may not write objects that the control plane manages; "
        f"these may: {named} (setting --writers)",
    )


def _predecessor(request: AdmissionRequest) -> tuple[Manifest | None, ObjectMeta]:
    """Return a pair: the object before the write, and its metadata.

    The object is None if it did not exist or was not managed before, since an object that was not managed was never
    checked.
    """
    old = _without_owners(request.old_object or {})
    meta = read_meta(old)
    return (old if is_managed(meta) else None), meta


def _without_owners(manifest: Manifest) -> Manifest:
    """Return the manifest without owner references.

    No rule needs them, and reading many of them takes long (RUN-11).
    """
    meta = manifest.get("metadata")
    if not isinstance(meta, Mapping) or "ownerReferences" not in meta:
        return manifest
    return {**manifest, "metadata": {key: value for key, value in meta.items() if key != "ownerReferences"}}


def _belongs_to_another(manifest: Manifest, meta: ObjectMeta, settings: WebhookSettings) -> bool:
    cls = class_of(manifest)
    if cls not in (ApplicationInstance, Operation):
        return True
    if not meant_for_another_cluster(meta, settings.cluster_id):
        return False
    try:
        return claimed_by_another_operator(structure(cls, manifest), settings.cluster_id)
    except ValidationProblems:
        return False


def _namespace(*, namespace_managed: bool) -> Manifest:
    """Return a Namespace that has only the label, since nothing else of it is read."""
    return {"metadata": {"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE} if namespace_managed else {}}}


def validate_path(box: str) -> str:
    """Return the URL path of the webhook that validates objects by the rules of the box named `box`.

    A box is a file that declares an operator for one kind.
    """
    return f"/boxes/{box}/validate"


def default_path(box: str) -> str:
    """Return the URL path of the mutating webhook that sets the fields computed by the box with this name.

    A box is a file that declares an operator for one kind.
    """
    return f"/boxes/{box}/default"


def kind_review_path(crd_name: str, *, mutates: bool) -> str:
    """Return the URL path of a webhook for a kind that is written in Python; `crd_name` is the name of the kind's CRD.

    If `mutates` is True the webhook sets defaults, otherwise it validates.
    """
    return f"/kinds/{crd_name}/{'default' if mutates else 'validate'}"


# --- defaults ---------------------------------------------------------------------------------------------------------


def default_patch(request: AdmissionRequest) -> Patch:
    """Return JSON patch operations that add missing fields to the object of the request; empty if none is missing.

    All operations are `add`. An ApplicationInstance gets `spec.release`: the values of the stored object on an update,
    or else the instance's own name and namespace. An Operation gets apiVersion and kind in `spec.targetRef`.
    """
    new = request.written
    if new is None:
        return []
    spec, meta = new.get("spec"), read_meta(new)
    if meta.deletion_timestamp is not None or not isinstance(spec, Mapping):
        return []
    cls = class_of(new)
    if cls is ApplicationInstance and spec.get("mode") in (None, Mode.MANAGED.value):
        return _filled(spec, "release", _release(request, meta))
    if cls is Operation and isinstance(spec.get("targetRef"), Mapping):
        target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        return _filled(spec, "targetRef", {**target, **_before(request, "targetRef", target)})
    return []


def _release(request: AdmissionRequest, meta: ObjectMeta) -> dict[str, Any]:
    desired = {"name": request.name or meta.name, "namespace": request.namespace or meta.namespace}
    desired |= _before(request, "release", desired)
    fits = len(desired["name"]) <= _LONGEST_RELEASE and re.fullmatch(DNS_LABEL, desired["name"])
    # An invalid name is left for the schema to refuse: a shortened one would surprise.
    return {key: value for key, value in desired.items() if value and (key != "name" or fits)}


def _before(request: AdmissionRequest, part: str, desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the old object has in `spec.<part>`, for the keys of `desired`.

    An update must keep these values, since the fields are immutable.
    """
    value = get_path(request.old_object, "spec", part)
    return {key: value[key] for key in desired if isinstance(get_path(value, key), str)}


def _filled(spec: Mapping[str, Any], part: str, desired: Mapping[str, Any]) -> Patch:
    present = spec.get(part)
    if present is None:
        return [{"op": "add", "path": f"/spec/{part}", "value": dict(desired)}] if desired else []
    if not isinstance(present, Mapping):
        return []
    missing = {key: value for key, value in desired.items() if present.get(key) is None}
    return [{"op": "add", "path": f"/spec/{part}/{key}", "value": value} for key, value in missing.items()]
