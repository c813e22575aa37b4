"""Conversion of objects between the versions of a kind, by pure functions: hub and spokes (PH-8).

The hub is the storage version. A `Conversion` converts objects between one other version (a spoke) and the hub; a
`Converter` holds all conversions of a kind. `answer_review` answers a ConversionReview; `check_round_trips` checks on
examples that converting to another version and back changes nothing.
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
