"""The pods of a Helm release or a Job, found by label, and the workload to which each pod belongs (SEE-1, SEE-3)."""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import DAEMON_SET, DEPLOYMENT, HELM_RELEASE, JOB, POD, STATEFUL_SET
from purekube.controller.ownership import controller_of
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of_child

HELM_INSTANCE: Final = "app.kubernetes.io/instance"
"""The label with the name of the Helm release, which by convention every object of a chart has, including pods."""
# The Job controller sets it since Kubernetes 1.27 (batch/v1: JobNameLabel).
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
# A ReplicaSet's name is that of its Deployment with this hash (apps/v1: DefaultDeploymentUniqueLabelKey).
_TEMPLATE_HASH: Final = "pod-template-hash"
_WORKLOADS: Final = {kind.kind: kind for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB)}


@attrs.frozen
class PodSelection:
    """A selection of the pods in `namespace` whose label `label` has the value `value`.

    They belong to `owner`, a HelmRelease or a Job.
    """

    owner: ObjectRef
    namespace: str
    label: str
    value: str

    @property
    def selector(self) -> str:
        """The label selector of these pods as text, as a list request takes it."""
        return f"{self.label}={self.value}"

    def holds(self, ref: ObjectRef, manifest: Manifest) -> bool:
        """Report whether the object `ref`, whose content is `manifest`, is a pod of this selection."""
        labels = metadata(manifest).get("labels") or {}
        return ref.kind == POD and ref.namespace == self.namespace and labels.get(self.label) == self.value


def pod_selections(objects: Mapping[ObjectRef, Manifest]) -> Iterator[PodSelection]:
    """Yield the selection of the pods of each HelmRelease and Job among the objects."""
    for ref, live in objects.items():
        selection = selection_of(ref, live)
        if selection is not None:
            yield selection


def selection_of(ref: ObjectRef, live: Manifest) -> PodSelection | None:
    """Return the selection of the pods of the HelmRelease or Job `ref`, or None for other kinds.

    `live` is the content of the object. A release's name and namespace are taken from Helm's history in its status, or
    else from its spec.
    """
    if ref.kind == JOB:
        return PodSelection(ref, ref.namespace or "", _JOB_NAME, ref.name)
    if ref.kind != HELM_RELEASE:
        return None
    record = get_path(live, "status", "history", 0)
    name = get_path(record, "name") or get_path(live, "spec", "releaseName") or ref.name
    namespace = get_path(record, "namespace") or get_path(live, "spec", "targetNamespace") or ref.namespace
    return PodSelection(ref, str(namespace), HELM_INSTANCE, str(name))


def summary_of_pod(pod: Manifest) -> Summary:
    """Return the summary of a pod.

    A pod counts as degraded if one of its containers or the scheduler keeps it from starting.
    """
    summary = summary_of_child(POD, pod)
    is_held = summary.state is OverviewState.PROGRESSING and summary.reason != "PodNotReady"
    return attrs.evolve(summary, state=OverviewState.DEGRADED) if is_held else summary


def workload_of(pod: Manifest) -> tuple[Kind, str] | None:
    """Return kind and name of the workload that created a pod, or None if unknown.

    For a pod of a ReplicaSet this is the Deployment.
    """
    owner = controller_of(pod)
    kind, name = str(get_path(owner, "kind") or ""), str(get_path(owner, "name") or "")
    if kind == "ReplicaSet":
        kind, name = DEPLOYMENT.kind, name.removesuffix(f"-{(metadata(pod).get('labels') or {}).get(_TEMPLATE_HASH)}")
    return (_WORKLOADS[kind], name) if kind in _WORKLOADS else None
