"""The result of a readiness rule, and readers of an object's fields; a value of the wrong type counts as absent."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from purekube.apimachinery.manifest import Manifest


class State(Enum):
    """The states of an object's readiness: ready, progressing, failed or unknown."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    FAILED = "Failed"
    """The object will not become ready without a change from outside."""
    UNKNOWN = "Unknown"
    """The object exists, and its status cannot be read."""


@attrs.frozen
class Readiness:
    """The readiness of an object. `message` says why the object is not ready; for a ready object it may be empty."""

    state: State
    reason: str
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Report whether the object is ready, so that objects that depend on it may be written."""
        return self.state is State.READY


def ready(reason: str = "Ready", message: str = "") -> Readiness:
    """Return the Readiness of an object that is ready, with this reason and message."""
    return Readiness(State.READY, reason, message)


def progressing(reason: str, message: str) -> Readiness:
    """Return the Readiness of an object that is not ready and will become ready without intervention.

    `reason` and `message` say what it waits for.
    """
    return Readiness(State.PROGRESSING, reason, message)


def failed(reason: str, message: str) -> Readiness:
    """Return the Readiness of an object that will not become ready without intervention. `reason` and `message` say
    why.
    """
    return Readiness(State.FAILED, reason, message)


def unknown(reason: str, message: str) -> Readiness:
    """Return the Readiness of an object whose status cannot be read. `reason` and `message` say why."""
    return Readiness(State.UNKNOWN, reason, message)


_LONGEST = 1_024


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the JSON object at `path` in `value`; {} if it is absent."""
    # Checking for the plain type first avoids the slow check against the abstract class.
    for step in path:
        value = value.get(step) if type(value) is dict or isinstance(value, Mapping) else None
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def number(where: Mapping[str, Any], key: str) -> int | None:
    """Return the whole number under `key` of the JSON object `where`; None if the value is absent or not a whole
    number.
    """
    value = where.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(where: Mapping[str, Any], key: str, default: int = 0) -> int:
    """Return the whole number under `key` of the JSON object `where`.

    Return `default` if it is absent, because controllers omit a count of zero.
    """
    value = number(where, key)
    return default if value is None else value


def text(where: Mapping[str, Any], key: str) -> str:
    """Return the text under `key` of `where`, shortened if it is long; "" if the value is absent or not a string."""
    value = where.get(key)
    return value[:_LONGEST] if isinstance(value, str) else ""


@attrs.frozen
class Conditions:
    """The conditions of a status by their type."""

    by_type: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, manifest: Manifest) -> "Conditions":
        """Return the conditions of a manifest. Malformed conditions are left out."""
        listed = mapping(manifest, "status").get("conditions")
        entries = listed if isinstance(listed, list) else []
        return cls({text(condition, "type"): condition for condition in entries if isinstance(condition, Mapping)})

    def status(self, kind: str) -> str:
        """Return the status of the condition of type `kind`: `True`, `False` or `Unknown`; "" if it does not exist."""
        return text(self.by_type.get(kind, {}), "status")

    def holds(self, kind: str) -> bool:
        """Report whether the condition of type `kind` is True."""
        return self.status(kind) == "True"

    def message_or_reason(self, kind: str, otherwise: str) -> str:
        """Return the message of the condition of type `kind`.

        If it is empty, return the reason; if that is empty too, return `otherwise`.
        """
        condition = self.by_type.get(kind, {})
        return text(condition, "message") or text(condition, "reason") or otherwise

    def failed(self, kind: str, otherwise: str, reason: str = "") -> Readiness:
        """Return the Readiness of a failed object, with reason and message of the condition of type `kind`. A missing
        reason is replaced by `reason` or else `kind`, a missing message by `otherwise`.
        """
        return failed(self.reason(kind) or reason or kind, self.message_or_reason(kind, otherwise))

    def progressing(self, kind: str, otherwise: str, reason: str = "") -> Readiness:
        """Return the Readiness of an object that is progressing. The arguments are those of `failed`."""
        return progressing(self.reason(kind) or reason or kind, self.message_or_reason(kind, otherwise))

    def reason(self, kind: str) -> str:
        """Return the reason of the condition of type `kind`; "" if the condition does not exist."""
        return text(self.by_type.get(kind, {}), "reason")

    def observed(self, kind: str) -> int | None:
        """Return the `observedGeneration` of the condition of type `kind`; None if it has none."""
        return number(self.by_type.get(kind, {}), "observedGeneration")
