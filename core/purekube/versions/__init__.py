"""Conversion of objects between the versions of a kind: hub and spokes, pure (PH-8).

A `Conversion` converts the objects of a spoke to those of the hub and back, a `Converter` holds all of a kind.
`answer_review` answers a ConversionReview, `check_round_trips` tries a conversion there and back.
"""

from purekube.versions.converter import Conversion, ConversionFailed, Convert, Converter
from purekube.versions.in_use import VersionsInUse
from purekube.versions.losses import BrokenRoundTrip, check_round_trips
from purekube.versions.preservation import preservation_annotation
from purekube.versions.review import (
    ConversionRequest,
    MalformedConversionReview,
    answer_review,
    conversion_failed,
    converted_all,
    converted_object,
    read_conversion_review,
)

__all__ = [
    "BrokenRoundTrip",
    "Conversion",
    "ConversionFailed",
    "ConversionRequest",
    "Convert",
    "Converter",
    "MalformedConversionReview",
    "VersionsInUse",
    "answer_review",
    "check_round_trips",
    "conversion_failed",
    "converted_all",
    "converted_object",
    "preservation_annotation",
    "read_conversion_review",
]
