"""Schemas of Namespace, ConfigMap, Secret, ServiceAccount, Events, Lease, the RBAC kinds and CRDs."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin import schema_parts as parts
from purekube.schema.builtin.schema_parts import BuiltIn, atomic_object, choice, items, keyed, obj, table

NAMESPACE: Final = BuiltIn(
    known.NAMESPACE, obj(spec=obj("finalizers:strings"), status=obj("phase conditions:conditions"))
)
CONFIG_MAP: Final = BuiltIn(known.CONFIG_MAP, obj("immutable:bool data:string-map", binaryData=table(parts.BYTES)))
SECRET: Final = BuiltIn(known.SECRET, obj("type immutable:bool stringData:string-map", data=table(parts.BYTES)))
SERVICE_ACCOUNT: Final = BuiltIn(
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    obj(
        "automountServiceAccountToken:bool",
        imagePullSecrets=items(atomic_object(obj("name"))),
        secrets=keyed({**parts.OBJECT_REFERENCE, "required": ["name"]}, "name"),
    ),
)

_SERIES: Final = obj("count:int32 lastObservedTime:micro-time")
_SOURCE: Final = obj("component host")
CORE_EVENT: Final = BuiltIn(
    Kind("", "v1", "Event", "events"),
    obj(
        "action message reason reportingComponent reportingInstance type count:int32",
        eventTime={**parts.MICRO_TIME, "nullable": True},
        firstTimestamp={**parts.TIME, "nullable": True},
        involvedObject=parts.OBJECT_REFERENCE,
        lastTimestamp={**parts.TIME, "nullable": True},
        related=parts.OBJECT_REFERENCE,
        series=_SERIES,
        source=_SOURCE,
    ),
)
EVENT: Final = BuiltIn(
    known.EVENT,
    obj(
        "action note reason reportingController reportingInstance type deprecatedCount:int32",
        deprecatedFirstTimestamp={**parts.TIME, "nullable": True},
        deprecatedLastTimestamp={**parts.TIME, "nullable": True},
        deprecatedSource=_SOURCE,
        eventTime={**parts.MICRO_TIME, "nullable": True},
        regarding=parts.OBJECT_REFERENCE,
        related=parts.OBJECT_REFERENCE,
        series=_SERIES,
    ),
)

LEASE: Final = BuiltIn(
    known.LEASE,
    obj(
        spec=obj(
            "holderIdentity preferredHolder strategy leaseDurationSeconds:int32 leaseTransitions:int32 "
            "acquireTime:micro-time renewTime:micro-time"
        )
    ),
)

_RULES: Final = items(
    obj("verbs!:strings apiGroups:strings nonResourceURLs:strings resourceNames:strings resources:strings")
)
_ROLE_REF: Final = atomic_object(obj("kind! name! apiGroup"))
_SUBJECTS: Final = items(atomic_object(obj("kind! name! apiGroup namespace")))
ROLE: Final = BuiltIn(known.ROLE, obj(rules=_RULES))
CLUSTER_ROLE: Final = BuiltIn(
    known.CLUSTER_ROLE, obj(aggregationRule=obj(clusterRoleSelectors=items(parts.LABEL_SELECTOR)), rules=_RULES)
)
ROLE_BINDING: Final = BuiltIn(known.ROLE_BINDING, obj(roleRef=_ROLE_REF, subjects=_SUBJECTS))
CLUSTER_ROLE_BINDING: Final = BuiltIn(known.CLUSTER_ROLE_BINDING, obj(roleRef=_ROLE_REF, subjects=_SUBJECTS))

_NAMES: Final = obj("plural! kind! listKind singular categories:strings shortNames:strings")
_COLUMN: Final = obj("name! type! jsonPath! description format priority:int32")
_VERSION: Final = obj(
    "name! served!:bool storage!:bool deprecationWarning deprecated:bool",
    additionalPrinterColumns=items(_COLUMN),
    schema=obj(openAPIV3Schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    selectableFields=items(obj("jsonPath!")),
    subresources=obj(
        scale=obj("specReplicasPath! statusReplicasPath! labelSelectorPath"),
        status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
)
CUSTOM_RESOURCE_DEFINITION: Final = BuiltIn(
    known.CUSTOM_RESOURCE_DEFINITION,
    obj(
        "spec!",
        spec=obj(
            "group! names! scope! versions! preserveUnknownFields:bool",
            conversion=obj("strategy! webhook:any", strategy=choice("None", "Webhook")),
            names=_NAMES,
            scope=choice("Cluster", "Namespaced"),
            versions=items(_VERSION),
        ),
        status=obj("observedGeneration:int64 storedVersions:strings conditions:conditions", acceptedNames=_NAMES),
    ),
)
