"""Schemas of Namespace, ConfigMap, Secret, ServiceAccount, Events, Lease, the RBAC kinds and CRDs."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import (
    ANY,
    BOOL,
    BYTES,
    CONDITIONS,
    INT32,
    INT64,
    LABEL_SELECTOR,
    MICRO_TIME,
    OBJECT_REFERENCE,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    BuiltIn,
    atomic_object,
    choice,
    each,
    items,
    keyed,
    obj,
    table,
)

NAMESPACE: Final = BuiltIn(
    known.NAMESPACE, obj(spec=obj(finalizers=STRINGS), status=obj(phase=STRING, conditions=CONDITIONS))
)
CONFIG_MAP: Final = BuiltIn(known.CONFIG_MAP, obj(binaryData=table(BYTES), data=STRING_MAP, immutable=BOOL))
SECRET: Final = BuiltIn(known.SECRET, obj(data=table(BYTES), immutable=BOOL, stringData=STRING_MAP, type=STRING))
SERVICE_ACCOUNT: Final = BuiltIn(
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    obj(
        automountServiceAccountToken=BOOL,
        imagePullSecrets={
            "type": "array",
            "items": atomic_object(obj(name=STRING)),
            "x-kubernetes-patch-merge-key": "name",
        },
        secrets=keyed({**OBJECT_REFERENCE, "required": ["name"]}, "name"),
    ),
)


_SERIES: Final = obj(count=INT32, lastObservedTime=MICRO_TIME)
_SOURCE: Final = obj(component=STRING, host=STRING)
CORE_EVENT: Final = BuiltIn(
    Kind("", "v1", "Event", "events"),
    obj(
        **each(STRING, "action message reason reportingComponent reportingInstance type"),
        count=INT32,
        eventTime={**MICRO_TIME, "nullable": True},
        firstTimestamp={**TIME, "nullable": True},
        involvedObject=OBJECT_REFERENCE,
        lastTimestamp={**TIME, "nullable": True},
        related=OBJECT_REFERENCE,
        series=_SERIES,
        source=_SOURCE,
    ),
)
EVENT: Final = BuiltIn(
    known.EVENT,
    obj(
        **each(STRING, "action note reason reportingController reportingInstance type"),
        deprecatedCount=INT32,
        deprecatedFirstTimestamp={**TIME, "nullable": True},
        deprecatedLastTimestamp={**TIME, "nullable": True},
        deprecatedSource=_SOURCE,
        eventTime={**MICRO_TIME, "nullable": True},
        regarding=OBJECT_REFERENCE,
        related=OBJECT_REFERENCE,
        series=_SERIES,
    ),
)


LEASE: Final = BuiltIn(
    known.LEASE,
    obj(
        spec=obj(
            acquireTime=MICRO_TIME,
            **each(STRING, "holderIdentity preferredHolder strategy"),
            leaseDurationSeconds=INT32,
            leaseTransitions=INT32,
            renewTime=MICRO_TIME,
        )
    ),
)


_RULES: Final = items(
    obj("verbs", apiGroups=STRINGS, nonResourceURLs=STRINGS, resourceNames=STRINGS, resources=STRINGS, verbs=STRINGS)
)
_ROLE_REF: Final = atomic_object(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))
_SUBJECTS: Final = items(
    atomic_object(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING))
)
ROLE: Final = BuiltIn(known.ROLE, obj(rules=_RULES))
CLUSTER_ROLE: Final = BuiltIn(
    known.CLUSTER_ROLE,
    obj(aggregationRule=obj(clusterRoleSelectors=items(LABEL_SELECTOR)), rules=_RULES),
)
ROLE_BINDING: Final = BuiltIn(known.ROLE_BINDING, obj(roleRef=_ROLE_REF, subjects=_SUBJECTS))
CLUSTER_ROLE_BINDING: Final = BuiltIn(
    known.CLUSTER_ROLE_BINDING,
    obj(roleRef=_ROLE_REF, subjects=_SUBJECTS),
)


_NAMES: Final = obj(
    "plural",
    "kind",
    categories=STRINGS,
    **each(STRING, "kind listKind plural singular"),
    shortNames=STRINGS,
)
_COLUMN: Final = obj(
    "name",
    "type",
    "jsonPath",
    **each(STRING, "description format jsonPath name type"),
    priority=INT32,
)
_VERSION: Final = obj(
    "name",
    "served",
    "storage",
    additionalPrinterColumns=items(_COLUMN),
    **each(BOOL, "deprecated served storage"),
    deprecationWarning=STRING,
    name=STRING,
    schema=obj(openAPIV3Schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    selectableFields=items(obj("jsonPath", jsonPath=STRING)),
    subresources=obj(
        scale=obj(
            "specReplicasPath",
            "statusReplicasPath",
            **each(STRING, "labelSelectorPath specReplicasPath statusReplicasPath"),
        ),
        status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
)
CUSTOM_RESOURCE_DEFINITION: Final = BuiltIn(
    known.CUSTOM_RESOURCE_DEFINITION,
    obj(
        "spec",
        spec=obj(
            "group",
            "names",
            "scope",
            "versions",
            conversion=obj("strategy", strategy=choice("None", "Webhook"), webhook=ANY),
            group=STRING,
            names=_NAMES,
            preserveUnknownFields=BOOL,
            scope=choice("Cluster", "Namespaced"),
            versions=items(_VERSION),
        ),
        status=obj(
            acceptedNames=_NAMES,
            conditions=CONDITIONS,
            observedGeneration=INT64,
            storedVersions=STRINGS,
        ),
    ),
)
