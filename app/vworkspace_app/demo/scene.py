"""What the demo's first story is about: one instance, its versions, and a Flux that is quick."""

from typing import Any

from vworkspace_app.demo.world import CLUSTER, NAMESPACE_NAME
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, HELM_RELEASE
from vworkspace_fake.flux import Action, FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule

NAME = "nextcloud-myteam"
INSTANCE = ObjectRef(APPLICATION_INSTANCE, NAMESPACE_NAME, NAME)
RELEASE = ObjectRef(HELM_RELEASE, NAMESPACE_NAME, NAME)
FIRST, BROKEN, EDITED, WANTED = "6.6.0", "6.7.0", "6.7.1", "6.8.0"
FAILURE = "post-upgrade hooks failed: job nextcloud-upgrade: BackoffLimitExceeded"
QUICK = FluxBehaviour(
    source_fetch_seconds=0.15,
    install_seconds=0.5,
    upgrade_seconds=0.4,
    rollback_seconds=0.2,
    uninstall_seconds=0.2,
    min_retry_seconds=0.1,
    release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, FAILURE), action=Action.UPGRADE, version=BROKEN),),
)
"""A Flux that takes fractions of a second, and for which one version does not upgrade."""


def manifest(version: str) -> dict[str, Any]:
    """The ApplicationInstance of PULL-2, as Odoo sends it."""
    return {
        "apiVersion": APPLICATION_INSTANCE.api_version,
        "kind": APPLICATION_INSTANCE.kind,
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE_NAME,
            "labels": {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER},
        },
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "chart": {
                "sourceType": "oci",
                "url": "oci://registry.example.com/charts",
                "name": "nextcloud",
                "version": version,
            },
            "release": {"name": NAME, "namespace": NAMESPACE_NAME},
            "values": {"source": "inline", "inline": {"replicaCount": 1, "nextcloud": {"host": "cloud.example.com"}}},
            "integrations": {"ingress": {"enabled": True, "host": "cloud.example.com"}},
        },
    }
