"""Schemas of Event, of both groups."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.common_types import OBJECT_REFERENCE
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import INT32, MICRO_TIME, STRING, TIME, each, obj

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
