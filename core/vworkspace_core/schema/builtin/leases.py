"""Schemas of Lease."""

from typing import Final

from vworkspace_core.apimachinery import resources as known
from vworkspace_core.schema.builtin.document import BuiltIn
from vworkspace_core.schema.builtin.openapi import INT32, MICRO_TIME, STRING, obj

LEASE: Final = BuiltIn(
    known.LEASE,
    obj(
        spec=obj(
            acquireTime=MICRO_TIME,
            holderIdentity=STRING,
            leaseDurationSeconds=INT32,
            leaseTransitions=INT32,
            preferredHolder=STRING,
            renewTime=MICRO_TIME,
            strategy=STRING,
        )
    ),
)
