"""Successful answers of the server."""

from collections.abc import Mapping
from typing import Any

import attrs

from kubelab.model.records import Record, decode, encode
from kubelab.model.resources import ServedResource


@attrs.frozen
class Reply:
    """One object, or the Status of a deletion, as JSON bytes; `warnings` are texts for Warning headers."""

    status: int
    raw: bytes
    warnings: tuple[str, ...] = ()

    def object(self) -> dict[str, Any]:
        """Return a private copy of the answer."""
        copy: dict[str, Any] = decode(self.raw)
        return copy


@attrs.frozen
class ListedPage:
    """The selected records of one page, the resourceVersion of the list, and what is needed to continue it."""

    records: tuple[Record, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@attrs.frozen
class ObjectPage:
    """A page of objects of one resource."""

    resource: ServedResource
    page: ListedPage

    def metadata(self) -> dict[str, Any]:
        """Return the list's own metadata."""
        meta: dict[str, Any] = {"resourceVersion": str(self.page.version)}
        if self.page.continue_token or self.resource.custom:
            meta["continue"] = self.page.continue_token
        if self.page.remaining is not None:
            meta["remainingItemCount"] = self.page.remaining
        return meta

    def raws(self) -> list[bytes]:
        """Return every object's bytes, in the requested version."""
        return [self.resource.render(record) for record in self.page.records]

    def objects(self) -> list[Mapping[str, Any]]:
        """Return private copies of the objects."""
        return [decode(raw) for raw in self.raws()]

    def raw(self) -> bytes:
        """Return the whole list object as JSON."""
        head = encode({"kind": self.resource.list_kind, "apiVersion": self.resource.api_version})[:-1]
        return b"".join((head, b',"metadata":', encode(self.metadata()), b',"items":[', b",".join(self.raws()), b"]}"))


def deleted_status(resource: ServedResource, name: str, uid: str) -> Reply:
    """Return the Status that answers the deletion of an object (W-31)."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
    return Reply(200, encode(body))
