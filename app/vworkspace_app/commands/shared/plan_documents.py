"""The input and output of the command `plan`: the given documents, and a decision (the planned writes) as text or data.

Metadata that an API server would set, such as uids, is added to the documents.
"""

import base64
import binascii
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata, ref_of
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.controller.appliers import Applier, estimated, overlaid, without_last_applied
from purekube.controller.decision import Decision, Finalizer, as_data
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.api.kinds import ALL_KINDS, APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import CLUSTER_ID, FIELD_MANAGER, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.engines import engine_kinds

_PLANNED = (OPERATION, APPLICATION_INSTANCE)
_QUIET: Final = ContextVar("quiet", default=False)
_NO_UID = "00000000-0000-0000-0000-"
"""The prefix of the uids that are made up for documents without a uid."""


def note(text: str) -> None:
    """Print a note on standard error: a fact that influenced the plan but is not a part of it."""
    if not _QUIET.get():
        print(f"note: {text}", file=sys.stderr)


@contextmanager
def quiet() -> Iterator[None]:
    """Print no notes while the block runs, because a second run of the same code would repeat them."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def check_name(manifest: Manifest) -> None:
    """Raise CommandError unless the object has a name, and its namespace, if it has one, is a text."""
    for field, missing in (("name", None), ("namespace", "")):
        value = get_path(manifest, "metadata", field)
        if not isinstance(missing if value is None else value, str):
            told = "is required" if value is None else f"{value} must be a string: put it in quotes"
            raise CommandError(f"{manifest.get('kind')}: metadata.{field}: {told}")


def time_of(text: str) -> datetime:
    """Return the value of `--now` as a time, or the present time if it is empty. Raises CommandError if it is none."""
    try:
        moment = datetime.fromisoformat(text) if text else datetime.now(UTC)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--now {text}: not an RFC 3339 time such as 2026-01-31T12:00:00Z", status=USAGE) from error


def problem_lines(error: ValidationProblems) -> str:
    """Return all validation problems, each with its field path, as one line."""
    return "; ".join(map(str, error.problems))


def chosen(documents: Sequence[Manifest], desired: str) -> tuple[ObjectRef, Manifest]:
    """Return the object to plan: the object named by `desired`, which is a name or Kind/name.

    If `desired` is empty, return the only Operation, or the only ApplicationInstance if there are no Operations. Raises
    CommandError if there is no such object, or more than one.
    """
    candidates = [
        (ref_of(manifest, kind), manifest) for kind in _PLANNED for manifest in documents if is_of(manifest, kind)
    ]
    if desired:
        candidates = [
            (ref, manifest) for ref, manifest in candidates if desired in (ref.name, f"{ref.kind.kind}/{ref.name}")
        ]
    elif any(ref.kind == OPERATION for ref, _ in candidates):
        candidates = [(ref, manifest) for ref, manifest in candidates if ref.kind == OPERATION]
    if not candidates and desired:
        raise CommandError(
            f"--for {desired}: the files hold no Operation or ApplicationInstance of that name", status=USAGE
        )
    if not candidates:
        raise CommandError("there is nothing to plan: give an ApplicationInstance or an Operation")
    if len(candidates) > 1:
        names = ", ".join(f"{ref.kind.kind}/{ref.name}" for ref, _ in candidates)
        raise CommandError(f"several objects could be planned; say which with --for: {names}", status=USAGE)
    return candidates[0]


def is_of(manifest: Manifest, kind: Kind) -> bool:
    """Report whether a document has this kind and apiVersion."""
    return manifest.get("kind") == kind.kind and manifest.get("apiVersion") == kind.api_version


@attrs.frozen
class InputDocuments:
    """The objects given to the command `plan`, by object reference.

    Documents of kinds that do not affect the operator's decisions are left out.
    """

    objects: Mapping[ObjectRef, Manifest]

    @classmethod
    def of(cls, documents: Sequence[Manifest], now: str) -> "InputDocuments":
        """Return the documents by object reference, completed with the metadata that an API server would set.

        A document is left out if its kind has no influence on what `plan` prints, and a note on standard error says
        so. Objects without a creation time get the time `now`.
        """
        objects: dict[ObjectRef, Manifest] = {}
        for manifest in documents:
            kind = _kind_of(manifest)
            if kind is None:
                name = get_path(manifest, "metadata", "name")
                note(f"{manifest.get('kind')} {name} is of no kind that decides anything")
            else:
                ref = ref_of(manifest, kind)
                objects[ref] = _as_stored(ref, manifest, now)
        return cls(objects)

    def namespace(self, name: str) -> Manifest:
        """Return the given Namespace `name`.

        If it was not given, print a note, and return a Namespace with the label that lets the operator manage it.
        """
        namespace = self.objects.get(ObjectRef(NAMESPACE, None, name))
        if namespace is not None:
            return namespace
        note(f"no Namespace was given: {name} is taken to be managed")
        return NAMESPACE.manifest(name, metadata={"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}})

    def operations(self) -> tuple[Operation, ...]:
        """Return the given Operations. A malformed Operation is left out, and a note is printed."""
        operations = []
        for ref, manifest in self.objects.items():
            if ref.kind == OPERATION:
                try:
                    operations.append(read_operation(manifest))
                except ValidationProblems as error:
                    note(f"{ref} cannot be read and is left out: {problem_lines(error)}")
        return tuple(operations)

    def approval_secret(self) -> bytes | None:
        """Return the key with which approvals of Operations are verified; None if it was not given.

        It is the value of `approval-secret` in the Secret `vworkspace-agent-credentials`.
        """
        for ref, manifest in self.objects.items():
            if ref.kind == SECRET and ref.name == CREDENTIALS_SECRET:
                return _key(manifest, "approval-secret")
        return None


def _kind_of(manifest: Manifest) -> Kind | None:
    """Return the document's kind if it is a kind that decisions or engines read, else None."""
    return next((kind for kind in (*ALL_KINDS, *engine_kinds()) if is_of(manifest, kind)), None)


def _key(secret: Manifest, name: str) -> bytes | None:
    plain, encoded = get_path(secret, "stringData", name), get_path(secret, "data", name)
    if isinstance(plain, str):
        return plain.encode()
    try:
        return base64.b64decode(str(encoded), validate=True) if encoded else None
    except (binascii.Error, ValueError):
        raise CommandError(f"Secret {CREDENTIALS_SECRET}: data.{name} is not base64") from None


def _as_stored(ref: ObjectRef, manifest: Manifest, now: str) -> Manifest:
    """Return a document with the metadata that the API server would set.

    These are uid, generation, resourceVersion and creationTimestamp. Metadata in the document itself is kept; `now` is
    the creationTimestamp of a document without one.
    """
    stored: dict[str, Any] = {"uid": _uid(ref), "generation": 1, "resourceVersion": "1", "creationTimestamp": now}
    return {**manifest, "metadata": {**stored, **metadata(manifest)}}


def _uid(ref: ObjectRef) -> str:
    """Return a made-up uid for an object without one.

    Each Operation gets a uid of its own; all other objects get the same.
    """
    return _NO_UID + (content_hash([ref.namespace, ref.name])[:12] if ref.kind == OPERATION else "0" * 12)


def cluster_of(manifest: Manifest) -> str:
    """Return the cluster id in the object's label `app.vworkspace.io/cluster-id`, or "" if it has no such label."""
    return str(get_path(manifest, "metadata", "labels", CLUSTER_ID) or "")


_OBSTACLES: Final = ("Blocked", "Stalled", "Failed")
_FAULT: Final = "Degraded"
"""The condition of an object with a fault, which does not keep the operator from its work."""
_MASK: Final = "***"
_SERVER: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
"""The metadata fields that only an API server sets."""
_FIRST: Final = ("apiVersion", "kind", "metadata", "name", "namespace")
"""The fields with which a map begins in a diff. The others follow in alphabetical order."""


def data(decision: Decision, afterwards: Decision) -> dict[str, Any]:
    """Return a decision (the planned writes) as a JSON-like mapping, which the command `plan` prints.

    `afterwards` is the decision of the next reconcile, once these writes are done. The objects that it would create and
    delete are under the key `then` (OPS-1).
    """
    later = as_data(Decision(creates=afterwards.creates, deletes=afterwards.deletes))
    return {**as_data(decision), **({"then": later} if later else {})}


def summary(decision: Decision, afterwards: Decision, present: Manifest) -> str:
    """Return a one-line summary of the decision, such as `2 applies (OCIRepository shop, HelmRelease shop), 0 deletes`.

    `afterwards` is the decision of the next reconcile, and `present` the planned object as it is now.
    """
    parts = [text for text in (_downstream(decision, afterwards), _own(decision)) if text]
    troubles = list(_troubles(decision, present, (*_OBSTACLES, _FAULT)))
    return "; ".join([*(parts or ["nothing to do"]), *troubles])


def obstacle(decision: Decision, present: Manifest) -> bool:
    """Report whether the planned object would be Blocked, Stalled or Failed after the decision.

    `present` is the object as it is now.
    """
    return any(True for _ in _troubles(decision, present, _OBSTACLES))


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
    """Return a text on the writes to the planned object itself: to its finalizer and to its status."""
    verb = "adds" if decision.finalizer is Finalizer.ADD else "removes"
    parts = [f"{verb} the finalizer"] if decision.finalizer else []
    parts += ["writes the status"] if decision.status is not None else []
    return " and ".join(parts)


def _troubles(decision: Decision, present: Manifest, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the first condition of the types `kinds` that is True after the decision, as text."""
    conditions = conditions_by_type(decision.status if decision.status is not None else present)
    for kind in kinds:
        if kind in conditions and conditions[kind].get("status") == "True":
            message = " ".join(str(conditions[kind].get("message") or "").split())
            yield f"{kind}: {conditions[kind].get('reason')}" + (f": {message}" if message else "")
            return


# --- as a diff ----------------------------------------------------------------------------------------------------


def diff(decision: Decision, afterwards: Decision, present: Mapping[ObjectRef, Manifest], *, colour: bool) -> str:
    """Return a unified diff of all downstream objects that a decision and the next one would change, or "" if none.

    `afterwards` is the decision of the next reconcile, once the writes of `decision` are done. `present` has the
    objects as they are now. With `colour`, the diff has terminal colours.
    """
    before_and_after: list[tuple[ObjectRef, Any, Any]] = []
    for apply in decision.applies:
        live = present.get(apply.ref)
        before_and_after.append((apply.ref, live, estimated(live, apply.manifest, Applier(FIELD_MANAGER))))
    for create in (*decision.creates, *afterwards.creates):
        before_and_after.append((create.ref, None, _plain(create.manifest)))
    for patch in decision.patches:
        live = _plain(present.get(patch.ref)) or {}
        before_and_after.append((patch.ref, live, overlaid(live, _plain(patch.patch))))
    for delete in (*decision.deletes, *afterwards.deletes):
        before_and_after.append((delete.ref, _plain(present.get(delete.ref)), None))
    return diff_text(before_and_after, colour=colour)


def diff_text(changes: Iterable[tuple[ObjectRef, Manifest | None, Manifest | None]], *, colour: bool) -> str:
    """Return unified diffs of objects, as one text.

    Each change has the object's reference, and the object before and after the change; None means that it does not
    exist. With `colour`, the diffs have terminal colours. The status and metadata fields that only an API server sets
    are left out. The content of a Secret is hidden; only which values differ is shown, as by `kubectl diff`.
    """
    plain = [(ref, _plain(before), _plain(after)) for ref, before, after in changes]
    shown = [
        (ref, _masked(before, after, "now"), _masked(after, before, "then"))
        if ref.kind == SECRET
        else (ref, before, after)
        for ref, before, after in plain
    ]
    lines = [line for ref, before, after in shown for line in object_lines(str(ref), before, after)]
    return "".join(f"{_coloured(line) if colour else line}\n" for line in lines)


def _masked(secret: Manifest | None, other: Manifest | None, when: str) -> Manifest | None:
    """Return a Secret without its content. A value that differs from that in `other` is marked by `when`."""
    if secret is None:
        return None
    out = dict(secret)
    for field in ("data", "stringData"):
        if field not in secret:
            continue
        values, others = secret[field], get_path(other, field)
        if not isinstance(values, Mapping):
            out[field] = _MASK
            continue
        known = others if isinstance(others, Mapping) else {}
        out[field] = {
            key: _MASK if known.get(key, each) == each else f"{_MASK} ({when})" for key, each in values.items()
        }
    return out


def object_lines(name: str, before: Manifest | None, after: Manifest | None) -> Iterator[str]:
    """Yield the lines of a unified diff of one object, called `name`, from the state `before` to the state `after`.

    None means that the object does not exist.
    """
    old, new = (
        [] if manifest is None else dump([_ordered(manifest)], Format.YAML).splitlines() for manifest in (before, after)
    )
    yield from difflib.unified_diff(old, new, f"{name} now", f"{name} then", lineterm="")


def _ordered(value: Any) -> Any:
    """Return the value with the keys of each map in one order: those in `_FIRST`, then the others by the alphabet.

    Otherwise a diff would show keys that only moved.
    """
    if isinstance(value, Mapping):
        first = [key for key in _FIRST if key in value]
        return {key: _ordered(value[key]) for key in (*first, *sorted(value.keys() - {*first}))}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value


def _coloured(line: str) -> str:
    code = {"+": "32", "-": "31", "@": "35"}.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def _plain(manifest: Manifest | None) -> dict[str, Any] | None:
    """Return the manifest without its status and without the metadata that the API server or kubectl sets."""
    if manifest is None:
        return None
    manifest = without_last_applied(manifest)
    meta = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _SERVER}
    return {key: meta if key == "metadata" else value for key, value in manifest.items() if key != "status"}
