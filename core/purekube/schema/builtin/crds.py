"""Schemas of CustomResourceDefinition."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.schema.builtin.common_types import CONDITIONS
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import ANY, BOOL, INT32, INT64, STRING, STRINGS, choice, each, items, obj

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
