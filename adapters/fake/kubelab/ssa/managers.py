"""The field managers of one object, read from and written to `metadata.managedFields`.

An entry of managedFields is identified by manager, operation and subresource, and for updates also by apiVersion
(S-63).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from kubelab.ssa.field_paths import PathError, parse_element
from kubelab.ssa.fieldset import EMPTY, FieldSet, normalized, union

# kube-apiserver's constant `DefaultMaxUpdateManagers`; appliers are not limited (S-52).
MAX_UPDATERS: Final = 10
# managedfields: capmanagers.go, NewCapManagersManager.
ANCIENT: Final = "ancient-changes"


class ManagedFieldsOperation(StrEnum):
    """The values of the field `operation` of a managedFields entry.

    It is Apply for server-side apply, and Update for any other write.
    """

    APPLY = "Apply"
    UPDATE = "Update"


class ManagedFieldsError(ValueError):
    """The error of malformed managedFields that a client sent."""


@attrs.frozen(order=True)
class ManagerKey:
    """The identity of an entry of `metadata.managedFields`.

    `api_version` is empty for server-side apply: a manager has a single entry for applies in all versions (S-63).
    """

    manager: str
    operation: ManagedFieldsOperation
    subresource: str = ""
    api_version: str = ""

    def identifier(self) -> str:
        """Return the identity as a JSON text. kube-apiserver sorts entries and conflicts by this text (S-78)."""
        parts = {"manager": self.manager, "operation": self.operation.value}
        if self.api_version:
            parts["apiVersion"] = self.api_version
        if self.subresource:
            parts["subresource"] = self.subresource
        return msgspec.json.encode(parts).decode()

    def __str__(self) -> str:
        text = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text + f" using {self.api_version}" if self.operation is ManagedFieldsOperation.UPDATE else text


@attrs.frozen
class ManagedFieldsEntry:
    """One entry of managedFields: the set of `fields` that one manager owns, as paths of the version `api_version`.

    `time` is the time of the manager's last write, and may be empty (S-66). `wire` is the entry in the JSON form of a
    stored object; None if it was changed or is new.
    """

    fields: FieldSet
    api_version: str
    time: str = ""
    wire: Mapping[str, Any] | None = attrs.field(default=None, eq=False, repr=False)

    def owning(self, fields: FieldSet) -> "ManagedFieldsEntry":
        """Return the entry with `fields` as the owned fields.

        If they equal the entry's own fields, the entry itself is returned.
        """
        return (
            self
            if fields is self.fields or fields == self.fields
            else ManagedFieldsEntry(fields, self.api_version, self.time)
        )

    def at(self, time: str) -> "ManagedFieldsEntry":
        """Return the entry with the time `time`."""
        return self if time == self.time else ManagedFieldsEntry(self.fields, self.api_version, time)


Managers: TypeAlias = Mapping[ManagerKey, ManagedFieldsEntry]


def key_of(manager: str, operation: ManagedFieldsOperation, subresource: str, api_version: str) -> ManagerKey:
    """Return the identity under which a write is recorded. A write without a manager belongs to `unknown` (S-53)."""
    # managedfields: managedfields.go, BuildManagerIdentifier: paths of an update are those of one version, but an
    # applier replaces its whole entry and so needs only one.
    version = api_version if operation is ManagedFieldsOperation.UPDATE else ""
    return ManagerKey(manager or "unknown", operation, subresource, version)


def is_reset(managed_fields: Any, *, built_in: bool) -> bool:
    """Report whether the managedFields that a client sent request the removal of all ownership (S-68).

    `[{}]` does so, and on built-in kinds also `[]`.
    """
    # The documented way to strip all ownership; `[]` does so on built-in kinds only (S-68).
    if managed_fields == [{}]:
        return True
    # managedfields: fieldmanager.go, isResetManagedFields: an empty list resets if it is not nil. Unstructured objects
    # lose this difference in their accessor, typed objects keep it (measured, S-68).
    return built_in and managed_fields == []


def decode_managers(
    managed_fields: Iterable[Any] | None, *, trusted: bool = True
) -> dict[ManagerKey, ManagedFieldsEntry]:
    """Return the entries of managedFields by their identity.

    With `trusted`, the server itself wrote the entries, so they are not checked. Raises ManagedFieldsError for a
    malformed entry of a client.
    """
    entries: dict[ManagerKey, ManagedFieldsEntry] = {}
    for raw in managed_fields or ():
        if not trusted:
            _check_entry(raw)
        fields = raw.get("fieldsV1") or EMPTY
        version = raw["apiVersion"]
        operation = ManagedFieldsOperation(raw["operation"])
        key = key_of(raw.get("manager", ""), operation, raw.get("subresource", ""), version)
        time = raw.get("time") or ""
        # Two entries with one identity are no error: the later one counts (managedfields.go, DecodeManagedFields fills
        # a map).
        entries[key] = (
            ManagedFieldsEntry(fields, version, time, raw)
            if trusted
            else ManagedFieldsEntry(_canonical(fields), version, time)
        )
    return entries


def _check_entry(raw: Any) -> None:
    if not isinstance(raw, Mapping):
        raise ManagedFieldsError("an entry must be an object")
    if raw.get("operation") not in tuple(ManagedFieldsOperation):
        raise ManagedFieldsError("operation must be `Apply` or `Update`")
    if not isinstance(raw.get("apiVersion"), str) or not raw["apiVersion"]:
        raise ManagedFieldsError("apiVersion must not be empty")
    if raw.get("fieldsType") != "FieldsV1":
        raise ManagedFieldsError(f"invalid fieldsType {raw.get('fieldsType')!r}")
    texts = (raw.get(key) for key in ("manager", "subresource", "time"))
    if any(text is not None and not isinstance(text, str) for text in texts):
        raise ManagedFieldsError("manager, subresource and time must be strings")


def _canonical(fields: Any) -> FieldSet:
    if not isinstance(fields, Mapping):
        raise ManagedFieldsError("fieldsV1 must be an object")
    try:
        return {parse_element(key): _canonical(node) for key, node in fields.items()}
    except PathError as error:
        raise ManagedFieldsError(str(error)) from error


def encode_managers(managers: Managers) -> list[Mapping[str, Any]]:
    """Return managedFields with the entries sorted as the API server sorts them.

    Apply precedes Update; then entries are sorted by time, manager, apiVersion and subresource (S-64).
    """
    rows = sorted(
        managers.items(),
        key=lambda row: (
            # The enum's text sorts as the API does: "Apply" precedes "Update" (S-64).
            row[0].operation,
            # RFC 3339 in UTC and whole seconds sorts like the time itself, and an absent time, which is 0 in Go, comes
            # first.
            row[1].time,
            row[0].manager,
            row[1].api_version,
            row[0].subresource,
        ),
    )
    return [_encode(key, entry) for key, entry in rows]


def _encode(key: ManagerKey, entry: ManagedFieldsEntry) -> Mapping[str, Any]:
    if entry.wire is not None:
        return entry.wire
    out: dict[str, Any] = {"manager": key.manager, "operation": key.operation.value, "apiVersion": entry.api_version}
    if entry.time:
        out["time"] = entry.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = normalized(entry.fields)
    if key.subresource:
        out["subresource"] = key.subresource
    return out


def cap_updaters(managers: dict[ManagerKey, ManagedFieldsEntry]) -> dict[ManagerKey, ManagedFieldsEntry]:
    """Return `managers` with at most ten entries of updates (S-52).

    The oldest entries are merged into entries of the manager `ancient-changes`. Only entries of the same apiVersion are
    merged, so more than ten may remain.
    """
    updaters = sorted(
        (key for key in managers if key.operation is ManagedFieldsOperation.UPDATE),
        # managedfields: capmanagers.go, capUpdateManagers sorts by time, then by the JSON text of the identity.
        key=lambda key: (managers[key].time, key.identifier()),
    )
    if len(updaters) <= MAX_UPDATERS:
        return managers
    out, excess = dict(managers), len(updaters) - MAX_UPDATERS
    first: dict[str, ManagerKey] = {}
    for key in updaters:
        if excess == 0:
            break
        entry = managers[key]
        oldest = first.setdefault(entry.api_version, key)
        # The first entry of a version stays alone until a second one of that version can be merged with it (S-52).
        if oldest is key:
            continue
        bucket = ManagerKey(ANCIENT, ManagedFieldsOperation.UPDATE, "", entry.api_version)
        held = out.pop(oldest if key == bucket or bucket not in out else bucket)
        out.pop(key, None)
        # managedfields: capmanagers.go: the bucket takes the time of the entry that is merged into it, which is newer.
        out[bucket] = ManagedFieldsEntry(union(entry.fields, held.fields), entry.api_version, entry.time)
        excess -= 1
    return out
