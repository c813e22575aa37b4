"""The setting of the demo's main story: one application, its chart versions, and a quick simulated Flux."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kubelab.flux import Action, FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from purekube.apimachinery.manifest import Kind, ObjectRef
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE

CLUSTER: Final = "cluster-prod-1"
NAMESPACE_NAME: Final = "org-myteam"
NAME: Final = "nextcloud-myteam"
FIRST, BROKEN, EDITED, WANTED = "6.6.0", "6.7.0", "6.7.1", "6.8.0"
FAILURE: Final = "post-upgrade hooks failed: job nextcloud-upgrade: BackoffLimitExceeded"
QUICK: Final = FluxBehaviour(
    source_fetch_seconds=0.15,
    install_seconds=0.5,
    upgrade_seconds=0.4,
    rollback_seconds=0.2,
    uninstall_seconds=0.2,
    min_retry_seconds=0.1,
    release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, FAILURE), action=Action.UPGRADE, version=BROKEN),),
)
"""The behaviour of a simulated Flux that takes fractions of a second, and fails to upgrade to the version `BROKEN`."""


@attrs.frozen
class Application:
    """The application of the demo as Odoo requests it (PULL-2), with its cluster and namespace.

    The upgrade to one chart version fails: `broken` describes why, and `failure` is a string in its error. If `broken`
    is empty, only the chart version `first` is available.
    """

    cluster: str = CLUSTER
    namespace: str = NAMESPACE_NAME
    url: str = "oci://registry.example.com/charts"
    chart: str = "nextcloud"
    first: str = FIRST
    values: Mapping[str, Any] = {"replicaCount": 1, "nextcloud": {"host": "cloud.example.com"}}
    annotations: Mapping[str, str] = {}
    broken: str = "its upgrade job does not get through"
    failure: str = FAILURE
    """A string that the error of the failing upgrade contains."""

    def ref(self, kind: Kind = APPLICATION_INSTANCE) -> ObjectRef:
        """Return the reference to the instance, or to the object of another kind with the same name."""
        return ObjectRef(kind, self.namespace, NAME)

    def key(self, generation: int) -> str:
        """Return the idempotency key of the job by which Odoo requests this generation of the application."""
        return f"{APPLICATION_INSTANCE.kind}/{self.namespace}/{NAME}@{generation}"

    def manifest(self, version: str) -> dict[str, Any]:
        """Return the ApplicationInstance with this chart version, as Odoo sends it."""
        labels = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: self.cluster}
        marks = {"annotations": dict(self.annotations)} if self.annotations else {}
        spec = {
            "appRef": {"catalogId": self.chart},
            "chart": {"sourceType": "oci", "url": self.url, "name": self.chart, "version": version},
            "release": {"name": NAME, "namespace": self.namespace},
            "values": {"source": "inline", "inline": dict(self.values)},
            "integrations": {"ingress": {"enabled": True, "host": "cloud.example.com"}},
        }
        return APPLICATION_INSTANCE.manifest(NAME, self.namespace, {"labels": labels, **marks}, spec=spec)

    @property
    def identity(self) -> dict[str, str]:
        """The application's kind, namespace and name, as jobs and their results name it."""
        kind = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        return {**kind, "namespace": self.namespace, "name": NAME}


APPLICATION: Final = Application()
"""The application of the story on the embedded cluster."""
