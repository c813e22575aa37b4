"""Schemas of PersistentVolumeClaim, PersistentVolume, StorageClass and PodDisruptionBudget."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import (
    ANY,
    BOOL,
    CONDITIONS,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    OBJECT_REFERENCE,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    BuiltIn,
    each,
    items,
    obj,
    table,
)
from purekube.schema.builtin.volume_schema import CLAIM_SPEC

PERSISTENT_VOLUME_CLAIM: Final = BuiltIn(
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    obj(
        spec=CLAIM_SPEC,
        status=obj(
            accessModes=STRINGS,
            allocatedResourceStatuses=STRING_MAP,
            allocatedResources=table(QUANTITY),
            capacity=table(QUANTITY),
            conditions=CONDITIONS,
            currentVolumeAttributesClassName=STRING,
            modifyVolumeStatus=ANY,
            phase=STRING,
        ),
    ),
)
PERSISTENT_VOLUME: Final = BuiltIn(
    Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False),
    obj(
        spec={
            **obj(
                accessModes=STRINGS,
                capacity=table(QUANTITY),
                claimRef=OBJECT_REFERENCE,
                **each(STRING, "persistentVolumeReclaimPolicy storageClassName volumeMode"),
            ),
            "x-kubernetes-preserve-unknown-fields": True,
        },
        status=obj(lastPhaseTransitionTime=TIME, message=STRING, phase=STRING, reason=STRING),
    ),
)
STORAGE_CLASS: Final = BuiltIn(
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False),
    obj(
        "provisioner",
        allowVolumeExpansion=BOOL,
        allowedTopologies=items(ANY),
        mountOptions=STRINGS,
        parameters=STRING_MAP,
        **each(STRING, "provisioner reclaimPolicy volumeBindingMode"),
    ),
)
POD_DISRUPTION_BUDGET: Final = BuiltIn(
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    obj(
        spec=obj(
            maxUnavailable=INT_OR_STRING,
            minAvailable=INT_OR_STRING,
            selector=LABEL_SELECTOR,
            unhealthyPodEvictionPolicy=STRING,
        ),
        status=obj(
            conditions=CONDITIONS,
            **each(INT32, "currentHealthy desiredHealthy disruptionsAllowed expectedPods"),
            disruptedPods=table(TIME),
            observedGeneration=INT64,
        ),
    ),
)
