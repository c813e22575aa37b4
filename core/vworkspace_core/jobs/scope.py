"""Limits of what a job of the control plane may touch (PULL-10), and the manifest that a permitted job applies.

There are two steps. `admit` needs only the job: kinds, cluster id, the metadata whitelist, the admission rules that the
webhook applies too. `namespace_refusal` and `may_touch` need the cluster's state: whether the namespace is managed, and
the owner of an existing object.

A job may also carry the position of a span in a trace, in the format of W3C Trace Context (SEE-7).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import Problem, join, type_name
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api import labels
from vworkspace_core.api.admission import admit as rules
from vworkspace_core.api.labels import JOB_ANNOTATIONS
from vworkspace_core.api.remedies import manage_namespace_command
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.result import JobResult, Reason
from vworkspace_core.jobs.wire import ApplyRequest, DeleteRequest, Job, RotateRequest

_KINDS: Final = (own_kinds.APPLICATION_INSTANCE, own_kinds.OPERATION)
_KEPT: Final = ("name", "namespace", "labels", "annotations")
Admission = Callable[[Manifest], Iterable[Problem]]
"""A function that returns every problem of a manifest by the admission rules; none if it is valid (RUN-6)."""
Link = Callable[[ObjectRef], str]
"""A function that returns the URL of the operator's web page about an object; empty if there is none."""
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


@attrs.frozen
class JobScope:
    """The limits on jobs of the control plane: the cluster for which jobs are accepted, the rules for admission, and
    the requirements on payloads with the keys to verify and decrypt them.

    `link` returns the URL of the operator's web page about an object, which the job's result contains.
    """

    cluster_id: str
    admission: Admission = attrs.field(default=rules, repr=False)
    security: Security = attrs.field(factory=Security)
    link: Link = attrs.field(default=lambda _: "", repr=False)

    @property
    def cluster_label(self) -> str:
        """The cluster's id as it is written into an object's label (RES-5)."""
        return bounded_name(self.cluster_id)


@attrs.frozen
class ApplyTask:
    """The task of a job to apply `manifest` to the object `ref`.

    The manifest has the operator's labels, but neither a uid nor the operator's annotations yet. `path` is its place in
    the job, such as `payload`.
    """

    ref: ObjectRef
    manifest: Manifest = attrs.field(repr=False)
    path: str = attrs.field(default="payload", eq=False)

    @property
    def namespace_path(self) -> str:
        """The path in the job of the field that names the namespace, for error messages."""
        return f"{self.path}.metadata.namespace"

    @property
    def target(self) -> ObjectRef | None:
        """The application on which an Operation acts, or None for any other kind."""
        name = get_path(self.manifest, "spec", "targetRef", "name")
        if self.ref.kind != own_kinds.OPERATION or not isinstance(name, str):
            return None
        return ObjectRef(own_kinds.APPLICATION_INSTANCE, self.ref.namespace, name)


@attrs.frozen
class DeleteTask:
    """The task of a job of the control plane to delete the object `ref`."""

    ref: ObjectRef

    @property
    def namespace_path(self) -> str:
        """The path in the job of the field that names the namespace, for error messages."""
        return "payload.namespace"


@attrs.frozen
class RotateTask:
    """A request of the control plane that the operator renew its credential. It concerns no object."""

    ref: None = None


Task = ApplyTask | DeleteTask | RotateTask


def admit(job: Job, scope: JobScope) -> Task | JobResult:
    """Return the task of `job` (what it has to do: apply, delete, or rotate the credential), or a refusal.

    The refusal is NotPermitted if the job is outside this cluster's scope, or ValidationFailed if the job is invalid.
    """
    match job.request:
        case RotateRequest():
            return RotateTask()
        case DeleteRequest(api_version, kind, namespace, name):
            known_kind = _kind(api_version, kind)
            return (
                _kind_refused("payload", api_version, kind)
                if known_kind is None
                else DeleteTask(ObjectRef(known_kind, namespace, name))
            )
        case ApplyRequest() as request:
            return _admit_manifest(request, scope, _trace_annotation(job, scope))


def _admit_manifest(request: ApplyRequest, scope: JobScope, trace: Mapping[str, str]) -> Task | JobResult:
    implied = _implied(request)
    api_version, kind_name = implied.get("apiVersion"), implied.get("kind")
    kind = _kind(api_version, kind_name)
    if kind is None or (request.expected is not None and kind_name != request.expected):
        return _kind_refused(request.path, api_version, kind_name, request.expected)
    if problems := sorted(set(_metadata_problems(implied))):
        return _refused(Reason.VALIDATION_FAILED, request.path, problems)
    given = metadata(implied)
    foreign = get_path(given, "labels", labels.CLUSTER_ID)
    if foreign is not None and foreign != scope.cluster_label:
        return _not_permitted(
            f"{request.path}.metadata.labels: {labels.CLUSTER_ID} is {foreign!r}, this cluster is {scope.cluster_id!r}"
        )
    manifest = _manifest_to_send(implied, scope, trace)
    if problems := sorted(set(scope.admission(manifest))):
        return _refused(Reason.VALIDATION_FAILED, request.path, problems)
    return ApplyTask(ObjectRef(kind, str(given["namespace"]), str(given["name"])), manifest, request.path)


def _trace_annotation(job: Job, scope: JobScope) -> dict[str, str]:
    """Return the annotation by which the object continues the control plane's trace (SEE-7); empty if there is none."""
    context, above = job_context(scope.cluster_id, job.idempotency_key, job.traceparent)
    return {labels.TRACEPARENT: str(context)} if above else {}


def _implied(request: ApplyRequest) -> Mapping[str, Any]:
    """Return the manifest that a job requests to apply.

    If the manifest omits apiVersion and kind, they are those of the kind that the job's intent implies. An intent names
    what the job requests.
    """
    kind = next((kind for kind in _KINDS if kind.kind == request.expected), None)
    if kind is None:
        return request.manifest
    return {"apiVersion": kind.api_version, "kind": kind.kind, **request.manifest}


def _manifest_to_send(manifest: Manifest, scope: JobScope, trace: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest to apply for a job (REC-6), with unchanged type and spec.

    Only permitted metadata is kept. The operator's labels and the annotations `trace` are added.
    """
    meta: dict[str, Any] = {name: value for name, value in metadata(manifest).items() if name in _KEPT}
    meta["labels"] = {
        **(meta.get("labels") or {}),
        labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
        labels.CLUSTER_ID: scope.cluster_label,
        **_target_label(manifest),
    }
    annotations = meta.get("annotations") or {}
    own = {name: value for name, value in annotations.items() if name not in JOB_ANNOTATIONS}
    meta["annotations"] = {**own, **trace}
    whole = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": meta}
    return {**whole, "spec": manifest["spec"]} if "spec" in manifest else whole


def _target_label(manifest: Manifest) -> dict[str, str]:
    """Return the label that names an Operation's application, or an empty mapping for other kinds.

    All Operations on an application are found by this label (RES-5).
    """
    name = get_path(manifest, "spec", "targetRef", "name")
    if manifest.get("kind") != own_kinds.OPERATION.kind or not isinstance(name, str) or not name:
        return {}
    return {labels.APPLICATION_INSTANCE: bounded_name(name)}


def _metadata_problems(manifest: Manifest) -> Iterable[Problem]:
    meta = manifest.get("metadata")
    if not isinstance(meta, Mapping):
        yield Problem("metadata", "is required" if meta is None else f"must be an object, not {type_name(meta)}")
        return
    for name in ("name", "namespace"):
        value = meta.get(name)
        if not isinstance(value, str) or not value:
            yield Problem(f"metadata.{name}", "is required" if not value else "must be a string")
    for name in ("labels", "annotations"):
        yield from _map_problems(f"metadata.{name}", meta.get(name))
    managed = get_path(meta, "labels", labels.MANAGED_BY)
    if managed not in (None, labels.MANAGED_BY_VALUE):
        path = join("metadata.labels", labels.MANAGED_BY)
        yield Problem(path, f"must be {labels.MANAGED_BY_VALUE!r} or absent, not {managed!r}")


def _map_problems(path: str, value: Any) -> Iterable[Problem]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield Problem(path, f"must be an object of strings, not {type_name(value)}")
        return
    for name, text in value.items():
        if not isinstance(text, str):
            yield Problem(join(path, str(name)), f"must be a string, not {type_name(text)}")


def namespace_refusal(task: Task, namespace: Manifest | None) -> JobResult | None:
    """Return a refusal if the task's namespace exists but is not managed, or None otherwise (RES-5)."""
    if isinstance(task, RotateTask) or namespace is None or labels.namespace_is_managed(namespace):
        return None
    gate = f"{labels.NAMESPACE_GATE}={labels.NAMESPACE_GATE_VALUE}"
    message = f"{task.namespace_path}: namespace {task.ref.namespace!r} is not labelled {gate}"
    fix = manage_namespace_command(task.ref.namespace or "", namespace)
    return _not_permitted(f"{message}. To fix: {fix}")


def may_touch(task: Task, live: Manifest | None, namespace: Manifest | None, scope: JobScope) -> JobResult | None:
    """Return a refusal if the task may not change its object, or None if the task may change it.

    `live` is the object, and `namespace` its Namespace, each None if it does not exist. An object of another cluster
    than that of `scope` is refused, an object without the managed-by label and the operator's finalizer is not deleted,
    and nothing is applied without a Namespace.
    """
    match task:
        case RotateTask():
            return None
        case ApplyTask(ref) | DeleteTask(ref):
            if namespace is None and isinstance(task, ApplyTask):
                return _not_permitted(f"{task.namespace_path}: namespace {ref.namespace!r} does not exist")
            return None if live is None else _foreign_refusal(task, ref, live, scope)


def _foreign_refusal(task: ApplyTask | DeleteTask, ref: ObjectRef, live: Manifest, scope: JobScope) -> JobResult | None:
    object_labels = metadata(live).get("labels") or {}
    owner = object_labels.get(labels.CLUSTER_ID)
    if owner is not None and owner != scope.cluster_label:
        return _not_permitted(f"{ref} belongs to cluster {owner!r}, this cluster is {scope.cluster_id!r}")
    known_to_us = object_labels.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE
    finalized = labels.FINALIZER in (metadata(live).get("finalizers") or ())
    if isinstance(task, DeleteTask) and not known_to_us and not finalized:
        return _not_permitted(f"{ref} is not labelled {labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}")
    return None


def _kind(api_version: Any, kind: Any) -> Kind | None:
    return next(
        (known_kind for known_kind in _KINDS if (known_kind.api_version, known_kind.kind) == (api_version, kind)), None
    )


def _kind_refused(path: str, api_version: Any, kind: Any, expected: str | None = None) -> JobResult:
    desired = expected or " or ".join(known_kind.kind for known_kind in _KINDS)
    given = f"{str(api_version)[:253]}/{str(kind)[:253]}"
    return _not_permitted(f"{path}.kind: a job may touch {desired} only, not {given}")


def _not_permitted(message: str) -> JobResult:
    return JobResult.failed(Reason.NOT_PERMITTED, message)


def _refused(reason: Reason, path: str, problems: Iterable[Problem]) -> JobResult:
    text = "; ".join(
        str(Problem(f"{path}.{problem.path}" if problem.path else path, problem.message)) for problem in problems
    )
    return JobResult.failed(reason, text)


# --- the trace context of a job ---------------------------------------------------------------------------------------


@attrs.frozen
class TraceContext:
    """The position of a span in a trace: the trace-id and parent-id of W3C Trace Context, in hex."""

    trace: str
    span: str
    is_sampled: bool = True

    @classmethod
    def parsed(cls, text: object) -> "TraceContext | None":
        """Return the context in the text of a `traceparent` header, or None if the text is not a valid header."""
        match = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
        return None if match is None else cls(match[1], match[2], bool(int(match[3], 16) & 1))

    @classmethod
    def of(cls, *identity: str | int) -> "TraceContext":
        """Return the context of the root span of a trace whose ids are hashes of `identity`.

        The same identity always gives the same trace id and span id.
        """
        first, second = content_hash(["trace", *identity]), content_hash(["more", *identity])
        return cls(first + second, content_hash(["span", *identity]))

    def child(self, *identity: str | int) -> "TraceContext":
        """Return the context of a child span in the same trace.

        Its span id is a hash of this span's id and `identity`, so the same identity always gives the same id.
        """
        return attrs.evolve(self, span=content_hash([self.trace, self.span, *identity]))

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{int(self.is_sampled):02x}"


def job_context(cluster: str, key: str, traceparent: object = "") -> tuple[TraceContext, str]:
    """Return a pair: the trace context of the span of a control plane's job, and the id of its parent span.

    The span's id is made from `cluster`, the cluster's id, and `key`, the job's idempotency key. A valid `traceparent`
    names the parent; otherwise the span is a root and the id is empty.
    """
    above = TraceContext.parsed(traceparent)
    return (TraceContext.of(cluster, key), "") if above is None else (above.child(cluster, key), above.span)
