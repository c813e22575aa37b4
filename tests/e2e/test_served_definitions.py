"""RUN-9: definitions that the embedded API server is given can be applied again as the documentation says."""

import pytest

from kubelab.cluster.definitions import KubelabError
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.boxes import crd

KUBECTL = "kubectl"
"""The manager of `kubectl apply --server-side`."""


def test_kubectl_may_apply_a_changed_definition_over_the_one_that_the_cluster_began_with() -> None:
    definition = crd()
    cluster = EmbeddedCluster.start([{**definition, "metadata": {**definition["metadata"], "managedFields": []}}])
    api = InProcessKube(cluster.server)
    (version,) = definition["spec"]["versions"]
    changed = {**version, "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.age"}]}
    manifest = {**definition, "spec": {**definition["spec"], "versions": [changed]}}

    applied = run_sync(api.apply(manifest, kind=CUSTOM_RESOURCE_DEFINITION, field_manager=KUBECTL))

    assert applied["spec"]["versions"][0]["additionalPrinterColumns"] == changed["additionalPrinterColumns"]


def test_a_definition_that_is_given_twice_is_refused() -> None:
    with pytest.raises(KubelabError, match="already exists"):
        EmbeddedCluster.start([crd(), crd()])
