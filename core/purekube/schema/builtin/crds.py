"""Schemas of CustomResourceDefinition."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.schema.builtin.common_types import CONDITIONS
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import ANY, BOOL, INT32, INT64, STRING, STRINGS, choice, items, obj

_NAMES: Final = obj(
    "plural",
    "kind",
    categories=STRINGS,
    kind=STRING,
    listKind=STRING,
    plural=STRING,
    shortNames=STRINGS,
    singular=STRING,
)
_COLUMN: Final = obj(
    "name",
    "type",
    "jsonPath",
    description=STRING,
    format=STRING,
    jsonPath=STRING,
    name=STRING,
    priority=INT32,
    type=STRING,
)
_VERSION: Final = obj(
    "name",
    "served",
    "storage",
    additionalPrinterColumns=items(_COLUMN),
    deprecated=BOOL,
    deprecationWarning=STRING,
    name=STRING,
    schema=obj(openAPIV3Schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    selectableFields=items(obj("jsonPath", jsonPath=STRING)),
    served=BOOL,
    storage=BOOL,
    subresources=obj(
        scale=obj(
            "specReplicasPath",
            "statusReplicasPath",
            labelSelectorPath=STRING,
            specReplicasPath=STRING,
            statusReplicasPath=STRING,
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
