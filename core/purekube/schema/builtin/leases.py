"""Schemas of Lease."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import INT32, MICRO_TIME, STRING, each, obj

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
