"""Schemas that several built-in kinds share: selectors, conditions, references."""

from typing import Final

from purekube.schema.builtin.openapi import (
    INT64,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    atomic_object,
    each,
    items,
    keyed,
    obj,
)
from purekube.schema.objectmeta import OBJECT_META_OPENAPI

_REQUIREMENT: Final = obj("key", "operator", key=STRING, operator=STRING, values=STRINGS)

LABEL_SELECTOR: Final = atomic_object(obj(matchLabels=STRING_MAP, matchExpressions=items(_REQUIREMENT)))
NODE_SELECTOR_TERM: Final = atomic_object(obj(matchExpressions=items(_REQUIREMENT), matchFields=items(_REQUIREMENT)))
LOCAL_REFERENCE: Final = atomic_object(obj(name=STRING))
OBJECT_REFERENCE: Final = atomic_object(
    obj(
        **each(STRING, "apiVersion fieldPath kind name namespace resourceVersion uid"),
    )
)
TYPED_REFERENCE: Final = atomic_object(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))

CONDITIONS: Final = keyed(
    obj(
        "type",
        "status",
        **each(STRING, "type status reason message"),
        **each(TIME, "lastTransitionTime lastUpdateTime lastProbeTime lastHeartbeatTime"),
        observedGeneration=INT64,
    ),
    "type",
)

EMBEDDED_META: Final = OBJECT_META_OPENAPI
"""The metadata of a template inside another object."""
