"""The origin of an object: who requested its present spec, and when.

It is read from annotations, labels and managedFields.
"""

from datetime import datetime
from typing import Any, assert_never

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.timestamps import format_time, time_at
from purekube.controller.managed_fields import entries
from vworkspace_core.api.installation import InstallTool, managing_tool
from vworkspace_core.api.labels import CLI_MANAGER, IDEMPOTENCY_KEY


@attrs.frozen
class ObjectOrigin:
    """The requester of an object: a job of the control plane, a tool, or the field manager of its spec.

    Tools are Helm, Flux and Argo CD. `name` is the name of the tool's own object, such as a Kustomization, with its
    namespace if known. All fields are empty if the requester is unknown.
    """

    job: str = ""
    manager: str = ""
    tool: InstallTool = InstallTool.NOBODY
    name: str = ""

    def __str__(self) -> str:
        if self.job:
            return f"control plane (job {self.job})"
        match self.tool:
            case InstallTool.NOBODY:
                return f"applied directly ({self.manager or 'writer unknown'})"
            case InstallTool.HELM:
                return f"the {self.tool} {self.name}"
            case InstallTool.FLUX_HELM_RELEASE | InstallTool.FLUX_KUSTOMIZATION | InstallTool.ARGO_CD:
                return f"GitOps, by the {self.tool} {self.name}"
            case _:
                assert_never(self.tool)


def origin_of(manifest: Manifest) -> ObjectOrigin:
    """Return the requester of the present spec of the object `manifest`: a job, a tool, or the field manager.

    The operator's own command line counts only if the spec has no other writer, since it changes single fields of specs
    that others write.
    """
    job = get_path(manifest, "metadata", "annotations", IDEMPOTENCY_KEY)
    tool, name, place = managing_tool(manifest)
    return ObjectOrigin(str(job or ""), _writer_of(_spec_entries(manifest)), tool, f"{place}/{name}" if place else name)


def _spec_entries(manifest: Manifest) -> list[Any]:
    """Return the entries of managedFields that hold fields of the spec."""
    return [
        entry
        for _, entry in entries(manifest)
        if get_path(entry, "fieldsV1", "f:spec") is not None and not get_path(entry, "subresource")
    ]


def _writer_of(spec_entries: list[Any]) -> str:
    managers = [str(get_path(entry, "manager")) for entry in spec_entries]
    writers = [manager for manager in managers if manager != CLI_MANAGER] or managers
    return writers[-1] if writers else ""


def origin_data(origin: ObjectOrigin) -> dict[str, str]:
    """Return an origin (the requester of an object) as a JSON-like mapping."""
    if origin.job:
        return {"job": origin.job}
    return {"manager": origin.manager, **({"tool": f"{origin.tool} {origin.name}"} if origin.tool else {})}


def with_writer(cached: Manifest, live: Manifest) -> Manifest:
    """Return `cached`, a reduced copy of `live`, with managedFields that tell who wrote the spec and when.

    The result shares parts with `cached`.
    """
    spec_entries = _spec_entries(live)
    writer = _writer_of(spec_entries)
    if not writer:
        return cached
    meta, at = metadata(cached), _written_at(spec_entries, writer)
    time = {} if at is None else {"time": format_time(at)}
    held = [*(meta.get("managedFields") or ()), {"manager": writer, **time, "fieldsV1": {"f:spec": {}}}]
    return {**cached, "metadata": {**meta, "managedFields": held}}


def applied_at(manifest: Manifest) -> datetime | None:
    """Return when the writer of the spec of `manifest` last changed it, or None if managedFields do not say."""
    spec_entries = _spec_entries(manifest)
    return _written_at(spec_entries, _writer_of(spec_entries))


def _written_at(spec_entries: list[Any], writer: str) -> datetime | None:
    times = [time_at(dict(entry), "time") for entry in spec_entries if get_path(entry, "manager") == writer]
    return max((at for at in times if at is not None), default=None)
