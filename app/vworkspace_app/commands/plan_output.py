"""A Decision as `plan` prints it: a line for people, data, or a diff of objects as they are and as they would be."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.controller.decision import Decision, Finalizer, as_data
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.overview.differences import overlaid

_OBSTACLES: Final = ("Blocked", "Stalled", "Failed")
_SERVER: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
"""The fields of metadata that only an API server writes."""


def data(decision: Decision, afterwards: Decision) -> dict[str, Any]:
    """Return the decision, and the creates and deletes of a later pass (OPS-1) under `then`."""
    later = as_data(Decision(creates=afterwards.creates, deletes=afterwards.deletes))
    return {**as_data(decision), **({"then": later} if later else {})}


def summary(decision: Decision, afterwards: Decision, present: Manifest) -> str:
    """Return a line: `2 applies (OCIRepository shop, HelmRelease shop), 0 deletes; Blocked: ValidationFailed: …`."""
    parts = [text for text in (_downstream(decision, afterwards), _own(decision)) if text]
    return "; ".join([*parts, *_obstacles(decision, present)]) or "nothing to do"


def obstacle(decision: Decision, present: Manifest) -> bool:
    """Report whether the object is Blocked, Stalled or Failed after the decision."""
    return any(True for _ in _obstacles(decision, present))


def _downstream(decision: Decision, afterwards: Decision) -> str:
    written = [*(request.ref for request in decision.applies), *(request.ref for request in decision.patches)]
    creates = [request.ref for request in (*decision.creates, *afterwards.creates)]
    deletes = [request.ref for request in decision.deletes]
    later = [request.ref for request in afterwards.deletes]
    if not (written or creates or deletes):
        return "no apply, no delete" if decision.status is not None or decision.finalizer else ""
    counts = [_count_and_refs("apply", "applies", written)]
    counts += [_count_and_refs("delete", "deletes", deletes)] if deletes or not later else []
    counts += [_count_and_refs("delete afterwards", "deletes afterwards", later)] if later else []
    return ", ".join([_count_and_refs("create", "creates", creates), *counts] if creates else counts)


def _count_and_refs(singular: str, plural: str, refs: Sequence[ObjectRef]) -> str:
    names = ", ".join(f"{ref.kind.kind} {ref.name}" for ref in refs)
    return f"{len(refs)} {singular if len(refs) == 1 else plural}" + (f" ({names})" if names else "")


def _own(decision: Decision) -> str:
    """Return what is written to the object itself."""
    verb = "adds" if decision.finalizer is Finalizer.ADD else "removes"
    parts = [f"{verb} the finalizer"] if decision.finalizer else []
    parts += ["writes the status"] if decision.status is not None else []
    return " and ".join(parts)


def _obstacles(decision: Decision, present: Manifest) -> Iterator[str]:
    status = get_path(decision.status if decision.status is not None else present, "status", "conditions") or ()
    conditions = {str(condition.get("type")): condition for condition in status}
    for kind in _OBSTACLES:
        if kind in conditions and conditions[kind].get("status") == "True":
            message = str(conditions[kind].get("message") or "")
            yield f"{kind}: {conditions[kind].get('reason')}" + (f": {message}" if message else "")
            return


# --- as a diff ----------------------------------------------------------------------------------------------------


def diff(decision: Decision, afterwards: Decision, present: Mapping[ObjectRef, Manifest], *, colour: bool) -> str:
    """Return a unified diff for every downstream object; empty if none changes."""
    before_and_after: list[tuple[ObjectRef, Any, Any]] = []
    for apply in decision.applies:
        live = _plain(present.get(apply.ref))
        before_and_after.append((apply.ref, live, overlaid(live or {}, _plain(apply.manifest))))
    for create in (*decision.creates, *afterwards.creates):
        before_and_after.append((create.ref, None, _plain(create.manifest)))
    for patch in decision.patches:
        live = _plain(present.get(patch.ref)) or {}
        before_and_after.append((patch.ref, live, overlaid(live, _plain(patch.patch))))
    for delete in (*decision.deletes, *afterwards.deletes):
        before_and_after.append((delete.ref, _plain(present.get(delete.ref)), None))
    return diff_text(before_and_after, colour=colour)


def diff_text(changes: Iterable[tuple[ObjectRef, Manifest | None, Manifest | None]], *, colour: bool) -> str:
    """Return unified diffs of objects as they are and as they would be, without fields that only an API server sets."""
    lines = [line for ref, before, after in changes for line in _lines(ref, _plain(before), _plain(after))]
    return "".join(f"{_coloured(line) if colour else line}\n" for line in lines)


def _lines(ref: ObjectRef, before: Any, after: Any) -> Iterator[str]:
    old, new = ([] if manifest is None else dump([manifest], Format.YAML).splitlines() for manifest in (before, after))
    yield from difflib.unified_diff(old, new, f"{ref} now", f"{ref} then", lineterm="")


def _coloured(line: str) -> str:
    code = {"+": "32", "-": "31", "@": "35"}.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def _plain(manifest: Manifest | None) -> dict[str, Any] | None:
    """Return the manifest without the fields that the API server and status writers add."""
    if manifest is None:
        return None
    meta = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _SERVER}
    return {key: meta if key == "metadata" else value for key, value in manifest.items() if key != "status"}
