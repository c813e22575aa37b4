"""The check of a conversion on examples: a round trip to another version and back may lose nothing (PH-8)."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, same_json
from purekube.schema import validate
from purekube.versions.converter import ConversionFailed, Converter
from purekube.versions.preservation import losses

_LONGEST_VALUE: Final = 80


class BrokenRoundTrip(ValueError):
    """The error raised when a conversion to another version and back changed an object. `part` is the faulty function,
    `up` or `down` of `version`.
    """

    def __init__(self, version: str, part: str, message: str) -> None:
        self.version, self.part, self.message = version, part, message
        super().__init__(f"conversion of {version}: {message}")


def check_round_trips(converter: Converter, version: str, examples: Iterable[Manifest]) -> int:
    """Convert each example between the storage version (the hub) and `version` (a spoke), there and back. Return the
    number of examples.

    An example may be of either version. Raises BrokenRoundTrip, with the field, for the first example that the round
    trip changes or that is invalid in the other version.
    """
    held = 0
    for example in examples:
        given = str(example["apiVersion"]).rpartition("/")[2]
        other = converter.hub if given == version else version
        there = _tried(converter, version, example, other)
        again = _tried(converter, version, there, given)
        _same(converter, version, example, again)
        held += 1
    return held


def _tried(converter: Converter, spoke: str, manifest: Manifest, version: str) -> dict[str, Any]:
    part = "up" if version == converter.hub else "down"
    try:
        found = converter.convert(manifest, version)
    except ConversionFailed as error:
        with suppress(ConversionFailed):  # the result may be invalid: then report what is
            _check(converter, spoke, part, converter.without_annotations().convert(manifest, version))
        raise BrokenRoundTrip(spoke, part, f"gives no object of {version}: {error.why}") from error
    _check(converter, spoke, part, found)
    return found


def _check(converter: Converter, spoke: str, part: str, manifest: Manifest) -> None:
    version = str(manifest["apiVersion"]).rpartition("/")[2]
    schema = converter.schemas.get(version)
    if schema is not None and (causes := validate(schema, manifest)):
        told = f"{causes[0].field}: {causes[0].message}"
        raise BrokenRoundTrip(spoke, part, f"gives no valid object of {version}: {told}")


def _same(converter: Converter, spoke: str, before: Manifest, after: Manifest) -> None:
    if same_json(before, after):
        return
    given = str(before["apiVersion"]).rpartition("/")[2]
    from_hub = given == converter.hub
    way = f"{given} to {spoke if from_hub else converter.hub} and back"
    lost = losses(before, after, converter.schemas.get(given))
    path, values = (lost[0].spelled(), lost[0].values()) if lost else _of_metadata(before, after)
    was, became = (text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…" for text in values)
    kept = converter.spokes[spoke].keeps
    hint = "" if kept else " (`keeps: annotation` keeps what the other version cannot hold)"
    raise BrokenRoundTrip(spoke, "up" if from_hub else "down", f"{way} changes {path}: {was} becomes {became}{hint}")


def _of_metadata(before: Manifest, after: Manifest) -> tuple[str, tuple[str, str]]:
    one, other = before["metadata"], after["metadata"]
    equal = {key for key in one.keys() & other.keys() if same_json(one[key], other[key])}
    key = next(key for key in {**one, **other} if key not in equal)
    return f"metadata.{key}", (repr(one.get(key)), repr(other.get(key)))
