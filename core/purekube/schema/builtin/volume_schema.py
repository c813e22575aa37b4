"""The schemas of a pod's volumes, and of the spec of a PersistentVolumeClaim."""

from typing import Final

from purekube.schema.builtin.container_schema import FIELD_SELECTOR, QUANTITIES, RESOURCE_SELECTOR
from purekube.schema.builtin.schema_parts import (
    ANY,
    BOOL,
    EMBEDDED_META,
    INT32,
    INT64,
    LABEL_SELECTOR,
    LOCAL_REFERENCE,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    TYPED_REFERENCE,
    each,
    items,
    obj,
)

_KEY_TO_PATH: Final = items(obj("key", "path", key=STRING, mode=INT32, path=STRING))
_DOWNWARD_ITEMS: Final = items(
    obj("path", fieldRef=FIELD_SELECTOR, mode=INT32, path=STRING, resourceFieldRef=RESOURCE_SELECTOR)
)
CLAIM_SPEC: Final = obj(
    accessModes=STRINGS,
    dataSource=TYPED_REFERENCE,
    dataSourceRef=obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING),
    resources=obj(limits=QUANTITIES, requests=QUANTITIES),
    selector=LABEL_SELECTOR,
    **each(STRING, "storageClassName volumeAttributesClassName volumeMode volumeName"),
)
_PROJECTION: Final = obj(
    clusterTrustBundle=obj(
        "path",
        labelSelector=LABEL_SELECTOR,
        **each(STRING, "name path signerName"),
        optional=BOOL,
    ),
    configMap=obj(items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    downwardAPI=obj(items=_DOWNWARD_ITEMS),
    podCertificate=ANY,
    secret=obj(items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    serviceAccountToken=obj("path", audience=STRING, expirationSeconds=INT64, path=STRING),
)
VOLUME: Final = obj(
    "name",
    name=STRING,
    configMap=obj(defaultMode=INT32, items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    csi=obj(
        "driver",
        driver=STRING,
        fsType=STRING,
        nodePublishSecretRef=LOCAL_REFERENCE,
        readOnly=BOOL,
        volumeAttributes=STRING_MAP,
    ),
    downwardAPI=obj(defaultMode=INT32, items=_DOWNWARD_ITEMS),
    emptyDir=obj(medium=STRING, sizeLimit=QUANTITY),
    ephemeral=obj(volumeClaimTemplate=obj("spec", metadata=EMBEDDED_META, spec=CLAIM_SPEC)),
    hostPath=obj("path", path=STRING, type=STRING),
    image=obj(pullPolicy=STRING, reference=STRING),
    **each(
        ANY, "iscsi rbd cephfs fc glusterfs awsElasticBlockStore azureDisk azureFile gcePersistentDisk vsphereVolume"
    ),
    nfs=obj("server", "path", path=STRING, readOnly=BOOL, server=STRING),
    persistentVolumeClaim=obj("claimName", claimName=STRING, readOnly=BOOL),
    projected=obj(defaultMode=INT32, sources=items(_PROJECTION)),
    secret=obj(defaultMode=INT32, items=_KEY_TO_PATH, optional=BOOL, secretName=STRING),
)
