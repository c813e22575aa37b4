"""The engine `helmHookJob`: it runs a Helm hook of the target's chart again, as a Job of the operator (OPS-8).

The target is the ApplicationInstance that the Operation names. The hook is read from the release Secret of the target's
deployed revision. The Secret is used only if it matches the checksum that Flux recorded in the history of the target's
HelmRelease. A Job with the hook's name, or a Secret by another writer, is not trusted.

The hook's pods must follow the rules of every Job that the operator starts: the restricted Pod Security profile, the
service account `vworkspace-operation-runner` or an allowed one, allowed images, one pod at a time. A template with
`allowUnrestrictedHooks` lifts these rules, and then needs an approval. Helm's annotations are left out, since Helm
would otherwise manage the operator's Job as its own.
"""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.resources import HELM_RELEASE, JOB, SECRET
from purekube.controller.ownership import belongs_to
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.labels import marks_of
from vworkspace_core.api.operation import Operation, OperationType
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.contract import (
    DemoOperation,
    Engine,
    EngineContext,
    EngineObject,
    EngineRefusal,
    EngineTemplate,
    Objects,
    always,
)
from vworkspace_core.operations.engines.job import (
    JOB_TERMINAL_REASONS,
    KEPT_SECONDS,
    TABLE,
    job_diagnostics,
    observe_job,
    one_at_a_time,
)
from vworkspace_core.operations.engines.job_pods import PODS_ACCESS, end_from_events, remedy_of_pods
from vworkspace_core.operations.identity import (
    engine_manifest,
    is_ready,
    parameters_of,
    seconds_beyond_deadline,
    target_of,
)
from vworkspace_core.operations.parameter_schemas import NAME, record, with_description
from vworkspace_core.operations.pods import job_problems
from vworkspace_core.operations.settings import RUNNER, OperationSettings

LARGEST_RELEASE: Final = 4 * 1024 * 1024
"""The maximum size of a decompressed release in bytes. (A Secret holds at most 1 MiB of compressed data.)"""
LARGEST_HOOK: Final = 256 * 1024
"""The maximum size of a hook's manifest in bytes."""
_GZIP: Final = b"\x1f\x8b\x08"
_NULL, _EMPTY, _NO_TEXT = msgspec.Raw(b"null"), msgspec.Raw(b"{}"), msgspec.Raw(b'""')
_TEST: Final = "test"
HOOK_EVENTS: Final = ("pre-install", "post-install", "pre-upgrade", "post-upgrade")
"""The Helm hook events whose hooks a Migration may run. Hooks for rollback, deletion and tests are excluded."""
# Without its podFailurePolicy a hook would be tried again after an end for which its chart forbids that.
_KEPT_FIELDS: Final = ("activeDeadlineSeconds", "backoffLimit", "podFailurePolicy")
_UNRESTRICTED_FIELDS: Final = ("completions", "completionMode", "parallelism")
_CONTROLLER_LABELS: Final = frozenset(
    {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
)
_CONTROLLER_PREFIXES: Final = ("helm.sh/", "meta.helm.sh/")


class UnreadableRelease(ValueError):
    """An error for a release Secret whose content is not what Helm writes, or not what Flux recorded.

    The message repeats none of the content.
    """


@attrs.frozen
class RecordedHook:
    """A Helm hook in Helm's record of a release.

    `events` are the events at which the hook runs, and `manifest` is YAML text.
    """

    name: str
    kind: str
    manifest: str = attrs.field(repr=False)
    events: tuple[str, ...]


class _Chart(msgspec.Struct):
    metadata: msgspec.Raw = _EMPTY


class _Release(msgspec.Struct):
    """Helm's record of a release, with each part as raw JSON."""

    name: msgspec.Raw = _NO_TEXT
    version: msgspec.Raw = msgspec.Raw(b"0")
    info: msgspec.Raw = _EMPTY
    chart: _Chart = msgspec.field(default_factory=_Chart)
    config: msgspec.Raw = _NULL
    manifest: msgspec.Raw = _NO_TEXT
    hooks: list[msgspec.Raw] | None = None
    namespace: msgspec.Raw = _NO_TEXT


class _HookParameters(msgspec.Struct):
    name: str = ""
    kind: str = ""
    manifest: str = ""
    events: list[str] | None = None


def proved_hooks(secret: Manifest, recorded: Mapping[str, Any]) -> tuple[RecordedHook, ...]:
    """Return the hooks of the release in `secret`, after verifying it against `recorded`, an entry of Flux's history.

    The history is the field `status.history` of the HelmRelease. Test hooks are left out, even if they also serve other
    events, because the digest that Flux recorded does not cover them. Raises UnreadableRelease if the Secret cannot be
    decoded, or is not the one that Flux recorded.

    Helm writes `data.release` of the Secret as base64 of gzip of JSON, and Kubernetes encodes that again as base64.
    Every account that may write Secrets can forge one. A Secret is therefore trusted only if it matches the digest that
    Flux recorded: `status.history[].digest` of the HelmRelease is the SHA-256 of the release as helm-controller
    observes it. The hashed text is Go's JSON encoding of an object with the fields

        name, version, info, chartMetadata, config, manifest, hooks, namespace, ociDigest

    in this order, followed by a line feed. `hooks` has no tests; `config` and `hooks` are `null` if there are none;
    `ociDigest` is taken from the history's entry, since Helm does not store it. Helm's JSON contains every part
    character by character, so the text is assembled from these parts without encoding them again.
    """
    try:
        release = msgspec.json.decode(_text_of(secret), type=_Release)
        hooks = [(raw, msgspec.json.decode(raw, type=_HookParameters)) for raw in release.hooks or ()]
    except (binascii.Error, zlib.error, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableRelease(f"the release Secret cannot be decoded ({type(error).__name__})") from None
    covered = [(raw, hook) for raw, hook in hooks if _TEST not in (hook.events or ())]
    digests = {_digest(text) for text in _observations(release, [bytes(raw) for raw, _ in covered], recorded)}
    if recorded.get("digest") not in digests:
        raise UnreadableRelease("the release Secret is not the one that Flux recorded: its checksum differs")
    return tuple(RecordedHook(hook.name, hook.kind, hook.manifest, tuple(hook.events or ())) for _, hook in covered)


def _observations(release: _Release, hooks: list[bytes], recorded: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the texts of which Flux may have recorded the checksum when it observed `release`.

    `hooks` are its hooks as JSON, and `recorded` is the entry of Flux's history. Newer versions of Flux omit an empty
    `ociDigest`; older ones include it.
    """
    empty = bytes(release.config) in (b"null", b"{}")
    parts = {
        b"name": bytes(release.name),
        b"version": bytes(release.version),
        b"info": bytes(release.info),
        b"chartMetadata": bytes(release.chart.metadata),
        b"config": b"null" if empty else bytes(release.config),
        b"manifest": bytes(release.manifest),
        b"hooks": b"[" + b",".join(hooks) + b"]" if hooks else b"null",
        b"namespace": bytes(release.namespace),
    }
    oci = recorded.get("ociDigest")
    if isinstance(oci, str) and oci:
        yield _object({**parts, b"ociDigest": msgspec.json.encode(oci)})
        return
    yield _object(parts)
    yield _object({**parts, b"ociDigest": b'""'})


def _object(parts: Mapping[bytes, bytes]) -> bytes:
    return b"{" + b",".join(b'"' + name + b'":' + value for name, value in parts.items()) + b"}\n"


def _digest(text: bytes) -> str:
    return "sha256:" + hashlib.sha256(text).hexdigest()


def _text_of(secret: Manifest) -> bytes:
    data = get_path(secret, "data", "release")
    if not isinstance(data, str):
        raise UnreadableRelease("the release Secret has no data.release")
    packed = base64.b64decode(base64.b64decode(data, validate=True), validate=True)
    # Releases of very old Helm are not packed (Helm 4.2.2: pkg/storage/driver/util.go, decodeRelease).
    return _unpack(packed) if packed.startswith(_GZIP) else packed


def _unpack(packed: bytes) -> bytes:
    # 31: a gzip header and trailer around the deflate stream (zlib, inflateInit2). gzip.decompress has no limit of
    # size.
    unpacker = zlib.decompressobj(wbits=31)
    text = unpacker.decompress(packed, LARGEST_RELEASE)
    if unpacker.unconsumed_tail:
        raise UnreadableRelease(f"the release unpacks to more than {LARGEST_RELEASE // 1024 // 1024} MiB")
    if not unpacker.eof:
        raise UnreadableRelease("the release is cut short")
    return text


class _NoHook(ValueError):
    """The error raised when a chart has no Helm hook that the Operation may run, with the reason."""


@attrs.frozen
class _Hook:
    """The result of the search for the chart's Helm hook that a Migration runs.

    `spec` is the spec of the hook's Job. `missing` is the reason why there is no hook, empty if there is one.
    `problems` are the rules for pods that the spec breaks.
    """

    spec: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    missing: str = ""
    problems: tuple[Problem, ...] = ()


def _looks_up(
    _operation: Operation, target: ApplicationInstance, _settings: OperationSettings
) -> tuple[ObjectRef, ...]:
    return tuple(_release_refs(target))


def _release_refs(target: ApplicationInstance) -> Iterator[ObjectRef]:
    if target.spec.release is not None:
        yield ObjectRef(HELM_RELEASE, target.metadata.namespace, target.spec.release.name)


def _extra_reads(operation: Operation, objects: Objects) -> tuple[ObjectRef, ...]:
    """Return the reference of the Secret in which Helm recorded the deployed revision.

    The name comes from Flux's history. The Secret is read by name, because a right to list Secrets would give access to
    all of the namespace.
    """
    known = operation.status.engine_ref
    target = target_of(operation, objects)
    if target is None or (known is not None and known.uid):
        return ()
    recorded = _deployed(target, objects)
    return () if recorded is None else (_record_ref(target, recorded),)


def _deployed(target: ApplicationInstance, objects: Objects) -> Mapping[str, Any] | None:
    """Return the entry for the target's deployed revision in the HelmRelease's history, or None if there is none."""
    for ref in _release_refs(target):
        release, history = objects.get(ref), get_path(objects.get(ref), "status", "history")
        if release is None or not isinstance(history, list):
            continue
        if not belongs_to(release, target.metadata.uid, lambda: marks_of(target.metadata)):
            continue
        for entry in history:
            if isinstance(entry, Mapping) and entry.get("status") == "deployed" and _is_revision(entry, ref):
                return entry
    return None


def _is_revision(entry: Mapping[str, Any], release: ObjectRef) -> bool:
    named = (entry.get("name"), entry.get("namespace")) == (release.name, release.namespace)
    return named and type(entry.get("version")) is int


def _record_ref(target: ApplicationInstance, recorded: Mapping[str, Any]) -> ObjectRef:
    return ObjectRef(SECRET, target.metadata.namespace, f"sh.helm.release.v1.{recorded['name']}.v{recorded['version']}")


def _check(operation: Operation, target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    hook = _find_hook(operation, target, context)
    if hook.missing:
        # Flux writes the conditions first and the history after them (fluxcd/pkg: runtime/patch/patch.go, Patch): that
        # is no reason to give up.
        ready = is_ready(target)
        return EngineRefusal(
            Reason.HOOK_NOT_FOUND if ready else Reason.TARGET_NOT_READY, hook.missing, blocks=not ready
        )
    if not hook.problems or context.template.allow_unrestricted_hooks:
        return None
    problems = "; ".join(map(str, hook.problems))
    return EngineRefusal(
        Reason.VALIDATION_FAILED,
        f"the chart's hook {parameters_of(operation)['hookName']} may not run as it is: {problems}. Set this in the"
        " chart, or use a template with allowUnrestrictedHooks: true, which needs an approval",
    )


def _find_hook(operation: Operation, target: ApplicationInstance, context: EngineContext) -> _Hook:
    """Return the result of the search for the Helm hook to run. The search is made at most once for each decision."""
    hook: _Hook = context.once("hook", lambda: _find(operation, target, context))
    return hook


def _find(operation: Operation, target: ApplicationInstance, context: EngineContext) -> _Hook:
    name = str(parameters_of(operation)["hookName"])
    try:
        spec = _spec_of(_named(name, target, context), context)
    except _NoHook as error:
        return _Hook(missing=str(error))
    return _Hook(spec, problems=job_problems(spec, context.settings))


def _named(name: str, target: ApplicationInstance, context: EngineContext) -> RecordedHook:
    """Return the Helm hook called `name` in the deployed revision.

    Raises _NoHook if there is no such hook, or if a Migration may not run it.
    """
    release = target.spec.release
    if release is None:
        raise _NoHook("the target has no release")
    recorded = _deployed(target, context.objects)
    if recorded is None:
        raise _NoHook(f"Flux has recorded no deployed revision of release {release.name} of this target")
    hooks = _recorded(release.name, _record_ref(target, recorded), recorded, context)
    jobs = [hook for hook in hooks if hook.kind == JOB.kind]
    hook = next((job for job in jobs if job.name == name), None)
    if hook is None:
        names = ", ".join(sorted(job.name for job in jobs if not _unfit(job))[:8]) or "none"
        raise _NoHook(f"the deployed release {release.name} has no Job hook {name}; it has {names}")
    if events := _unfit(hook):
        raise _NoHook(f"the hook {name} runs on {events}; a migration runs hooks on {', '.join(HOOK_EVENTS)} only")
    return hook


def _unfit(hook: RecordedHook) -> str:
    """Return, as one text, those events of the Helm hook `hook` that forbid a Migration to run it.

    The text is empty if a Migration may run the hook.
    """
    others = [event or "an event without a name" for event in hook.events if event not in HOOK_EVENTS]
    return ", ".join(others[:4]) or ("" if hook.events else "no event")


def _recorded(
    release: str, ref: ObjectRef, recorded: Mapping[str, Any], context: EngineContext
) -> tuple[RecordedHook, ...]:
    secret = context.objects.get(ref)
    if secret is None:
        raise _NoHook(f"release {release}: there is no Secret {ref.name}, Helm's record of the deployed revision")
    try:
        return proved_hooks(secret, recorded)
    except UnreadableRelease as error:
        raise _NoHook(f"release {release}, Secret {ref.name}: {error}") from None


def _spec_of(hook: RecordedHook, context: EngineContext) -> Mapping[str, Any]:
    """Return the spec of the Job in `hook`. Raises _NoHook if the hook's manifest is too large or unreadable."""
    if len(hook.manifest.encode()) > LARGEST_HOOK:
        raise _NoHook(f"the manifest of hook {hook.name} has more than {LARGEST_HOOK // 1024} KiB")
    try:
        manifest = context.parse_yaml(hook.manifest)
    except ValueError as error:
        raise _NoHook(f"the manifest of hook {hook.name} cannot be read: {error}") from None
    spec = get_path(manifest, "spec")
    if not isinstance(get_path(spec, "template", "spec", "containers"), list):
        raise _NoHook(f"the chart's hook {hook.name} is no Job with a pod template")
    return spec  # type: ignore[no-any-return]


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    hook = _find_hook(operation, target, context).spec
    manifest = engine_manifest(JOB, operation, target, context)
    template = hook["template"]
    meta = {"labels": {**_labels(template), **manifest["metadata"]["labels"]}}
    if annotations := _annotations(template):
        meta["annotations"] = annotations
    fields = (*_KEPT_FIELDS, *(_UNRESTRICTED_FIELDS if context.template.allow_unrestricted_hooks else ()))
    manifest["spec"] = {
        **{field: hook[field] for field in fields if field in hook},
        **one_at_a_time(hook.get("backoffLimit")),
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": meta, "spec": _pod(template["spec"], context)},
    }
    return (EngineObject(JOB, manifest),)


def _pod(spec: Mapping[str, Any], context: EngineContext) -> dict[str, Any]:
    """Return the pod spec of the chart's hook, adapted for a Job that the operator creates.

    A pod without a service account gets the runner's account, but no token.
    """
    pod = {key: value for key, value in spec.items() if key != "serviceAccount"}
    if pod.get("restartPolicy") != "OnFailure":
        pod["restartPolicy"] = "Never"
    account = pod.get("serviceAccountName") or spec.get("serviceAccount")
    if account or not context.template.allow_unrestricted_hooks:
        pod["serviceAccountName"] = account or RUNNER
    if pod.get("serviceAccountName") == RUNNER:
        pod["automountServiceAccountToken"] = False
    return pod


def _labels(template: Manifest) -> dict[str, str]:
    """Return the labels of the pod template `template` without the labels that the Job controller sets."""
    return {key: value for key, value in _texts(template, "labels") if key not in _CONTROLLER_LABELS}


def _annotations(template: Manifest) -> dict[str, str]:
    return {key: value for key, value in _texts(template, "annotations") if not key.startswith(_CONTROLLER_PREFIXES)}


def _texts(template: Manifest, field: str) -> Iterator[tuple[str, str]]:
    entries = get_path(template, "metadata", field)
    for key, value in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(key, str) and isinstance(value, str):
            yield key, value


ENGINE: Final = Engine(
    name="helmHookJob",
    kinds=always(JOB),
    desired=_desired,
    observe=observe_job,
    tables={"Job": TABLE},
    timeout_seconds=3600,
    needs_seconds=seconds_beyond_deadline,
    check=_check,
    looks_up=_looks_up,
    extra_reads=_extra_reads,
    diagnostics=job_diagnostics,
    final_status=end_from_events,
    terminal_reasons=JOB_TERMINAL_REASONS,
    templates=(
        EngineTemplate(
            OperationType.MIGRATION,
            record(("hookName",), hookName=with_description("The chart's Job hook that is run once more.", NAME)),
            example={"hookName": "nextcloud-db-migrate"},
            refused=({"hookName": "no-such-hook"},),
            needs_ready_target=True,
        ),
    ),
    tenant_access=PODS_ACCESS,
    remedy=remedy_of_pods,
    demo=DemoOperation("migrate", OperationType.MIGRATION, {"hookName": "nextcloud-db-migrate"}),
)
