"""The actions on objects from the command line: find an object by name, decide, patch it, and return what was done.

An object is named as in kubectl: `NAME`, `op/NAME`, `operation/NAME`. Logs are those of the pods of the operator, of an
Operation or of an application. `forget` removes the finalizers of a controller that will not run again, so that its
objects can be deleted: objects that the controller created stay, children with an owner reference are garbage-collected
with their object, and external resources are no longer managed.
"""

import base64
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import anyio
import attrs

from purekube.apimachinery.errors import Forbidden, KindMissing, NotFound, OperatorError, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import JOB, POD, WORKFLOW
from purekube.ports import KubeApi, PatchType
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import all_of, each_of
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.install.names import INSTANCE_LABELS
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import CLI_MANAGER, OPERATION_UID
from vworkspace_core.credentials.secret import CredentialKey, secret_ref
from vworkspace_core.operations.approvals import approval_claim, parameters_digest
from vworkspace_core.overview.actions import ActionOutcome, Approver, PlannedAction, approval_payload, approve

_WORDS: Final = {
    "applicationinstance": APPLICATION_INSTANCE,
    "applicationinstances": APPLICATION_INSTANCE,
    "appinst": APPLICATION_INSTANCE,
    "operation": OPERATION,
    "op": OPERATION,
    "operations": OPERATION,
    "cluster": CLUSTER,
    "clusters": CLUSTER,
}
"""The words by which users may name the operator's kinds, as in kubectl: kind, plural and short name."""
NOTHING: Final[Mapping[str, Kind]] = {}
"""No kinds other than the operator's own."""
_OF_JOB: Final = "batch.kubernetes.io/job-name"
_OF_WORKFLOW: Final = "workflows.argoproj.io/workflow"
_OF_RELEASE: Final = "app.kubernetes.io/instance"
"""The label that charts set by convention on the pods of a release. No controller sets it."""
_NO_NAME: Final = frozenset("\\,=")
"""Characters with a meaning in field selectors; no name contains them."""
_MANAGER = "vworkspace-forget"
_ATTEMPTS = 5
"""The maximum number of attempts of a write that conflicts with other writers."""


async def execute_verb(
    api: KubeApi, name: str, namespace: str | None, decide: Callable[[Kind, Manifest], PlannedAction | ActionOutcome]
) -> str:
    """Perform an action, such as `suspend`, on the named object, and return a message about it.

    `decide` returns the write or a refusal. Raises CommandError for a refusal, and the errors of `KubeApi.patch`.
    """
    kind, manifest = await find_named_object(api, name, namespace, acts=True)
    return await carry_out(api, kind, manifest, decide(kind, manifest))


async def carry_out(api: KubeApi, kind: Kind, manifest: Manifest, decided: PlannedAction | ActionOutcome) -> str:
    """Write the change `decided` to the object in `manifest`, and return a message.

    A new object of the same name is not changed. Raises CommandError for a refusal, unless the change is done already:
    then its text is the message.
    """
    match decided:
        case ActionOutcome(why, is_done=True):
            return why
        case ActionOutcome(why):
            raise CommandError(why)
        case PlannedAction():
            await _write(api, ref_of(manifest, kind), metadata(manifest)["uid"], decided)
            return decided.message


async def _write(api: KubeApi, ref: ObjectRef, uid: str, decided: PlannedAction) -> None:
    if decided.patch is not None:
        guarded = {**decided.patch, "metadata": {**decided.patch.get("metadata", {}), "uid": uid}}
        await api.patch(ref, guarded, patch_type=PatchType.MERGE, field_manager=CLI_MANAGER)
    for fields in decided.applies:
        head = ref.kind.manifest(ref.name, ref.namespace)
        # An apply that names a uid neither recreates a deleted object (S-08) nor changes its successor (S-09).
        guarded = {**head, **fields, "metadata": {**head["metadata"], "uid": uid}}
        await api.apply(guarded, kind=ref.kind, field_manager=CLI_MANAGER, force=True)


@attrs.frozen
class ApprovalRequest:
    """A request to approve an Operation: its name, the approver, and the time for which the approval is valid."""

    name: str
    namespace: str | None
    by: str
    valid: timedelta
    system_namespace: str


async def approve_operation(api: KubeApi, request: ApprovalRequest, now: datetime) -> str:
    """Approve an Operation by an approval claim in it, as the control plane would do, and return a message.

    An approval claim is a signed text that says who approved the Operation; it is valid only for this Operation. The
    API server's RBAC decides who may approve: these are all users who may read the operator's credentials.
    """
    kind, manifest = await find_named_object(api, request.name, request.namespace, acts=True)
    secret = await _approval_secret(api, request.system_namespace)
    digest = parameters_digest(get_path(manifest, "spec", "parameters"))
    approver = Approver(request.by, str(uuid4()), now + request.valid)
    claim = approval_claim(approval_payload(manifest, approver, digest, now), secret)
    return await carry_out(api, kind, manifest, approve(kind, manifest, claim, request.valid))


async def _approval_secret(api: KubeApi, namespace: str) -> bytes:
    ref = secret_ref(namespace)
    try:
        encoded = get_path(await api.get(ref), "data", CredentialKey.APPROVAL_SECRET)
    except NotFound:
        encoded = None
    if not isinstance(encoded, str) or not encoded:
        message = f"{ref} has no key {CredentialKey.APPROVAL_SECRET}, so nobody can approve here"
        raise CommandError(f"{message}: docs/install.md says how it is set")
    return base64.b64decode(encoded)


def kinds_named(name: str, others: Mapping[str, Kind] = NOTHING, *, acts: bool = False) -> tuple[tuple[Kind, ...], str]:
    """Return the kinds to which `NAME` or `KIND/NAME` may refer, and the name.

    `others` maps further words to kinds. If `acts` is True, a name alone means an instance or an Operation, never a
    Cluster. Raises CommandError for an unknown kind. If `acts` is True, the error's message says that the command is
    only for instances and Operations; otherwise it lists all known words.
    """
    word, slash, bare = name.partition("/")
    if not slash:
        own = (APPLICATION_INSTANCE, OPERATION) if acts else (APPLICATION_INSTANCE, OPERATION, CLUSTER)
        return tuple(dict.fromkeys((*own, *others.values()))), name
    words = {**others, **_WORDS}
    if word.lower() not in words:
        wrong = f"{word} is no kind of the operator's: give {', '.join(sorted(words))}"
        if acts:
            wrong = f"this command is for instances (appinst/NAME) and Operations (op/NAME), not for a {word}"
        raise CommandError(f"{wrong}; of an object in namespace {word}: {bare} -n {word}", status=USAGE)
    return (words[word.lower()],), bare


def is_known(word: str) -> bool:
    """Report whether a word names one of the operator's own kinds."""
    return word.lower() in _WORDS


async def find_named_object(
    api: KubeApi, name: str, namespace: str | None, others: Mapping[str, Kind] = NOTHING, *, acts: bool = False
) -> tuple[Kind, Manifest]:
    """Return the object to which `NAME` or `KIND/NAME` refers, and its kind.

    The object is searched in one namespace, or in all if `namespace` is None. `others` and `acts` are as in
    `kinds_named`. Kinds that the user may not list are skipped. Raises CommandError if there is none or several, and
    the errors of `KubeApi.list`, but Forbidden only if no kind may be listed.
    """
    kinds, bare = kinds_named(name, others, acts=acts)
    found, refused = await _candidates(api, kinds, bare, namespace)
    if not found and len(refused) == len(kinds):
        raise refused[kinds[0]]
    if not found:
        where = f" in namespace {namespace}" if namespace else ""
        searched = " or ".join(kind.kind for kind in kinds if kind not in refused)
        unknown = "".join(f"; not searched: {kind.plural}: {error.message}" for kind, error in refused.items())
        raise CommandError(f"there is no {searched} {bare}{where}{unknown}")
    if len(found) > 1:
        named = "; ".join(str(ref_of(manifest, kind)) for kind, manifest in found)
        raise CommandError(f"{name} may mean {named}: give KIND/NAME and -n NAMESPACE", status=USAGE)
    return found[0]


async def _candidates(
    api: KubeApi, kinds: Sequence[Kind], name: str, namespace: str | None
) -> tuple[list[tuple[Kind, Manifest]], dict[Kind, Forbidden]]:
    """Return the objects of these kinds that have the name, and the kinds that the user may not list."""
    found, refused = list[tuple[Kind, Manifest]](), dict[Kind, Forbidden]()
    fields = "" if _NO_NAME & {*name} else f"metadata.name={name}"
    for kind in kinds:
        try:
            manifests = await all_of(api, kind, namespace=namespace if kind.namespaced else None, fields=fields)
        except Forbidden as error:
            refused[kind] = error
            continue
        found += [(kind, manifest) for manifest in manifests if get_path(manifest, "metadata", "name") == name]
    return found, refused


@attrs.frozen
class LogRequest:
    """A request for logs: the object whose pods are read, the number of lines, and whether to follow new lines.

    An empty `name` means the operator itself, whose pods are in `system_namespace`. If `namespace` is None, the object
    is searched in all namespaces. `tail` is the number of last lines of each container; None means all lines.
    """

    name: str
    namespace: str | None
    follow: bool
    tail: int | None
    system_namespace: str


async def write_logs(api: KubeApiClient, request: LogRequest, write: Callable[[str], None]) -> None:
    """Call `write` with each log line of the requested pods, prefixed with the names of pod and container.

    If the request asks to follow, continue with new lines until cancelled. Raises CommandError if no pod exists.
    """
    pods = [pod async for pod in _pods(api, request)]
    if not pods:
        raise CommandError(f"no pod of {request.name or 'the operator'} is there" + _where(request))
    containers = [(ref_of(pod, POD), name) for pod in pods for name in _containers(pod)]
    if not request.follow:
        for pod, container in containers:
            await _copy(api, pod, container, request, write)
        return
    async with anyio.create_task_group() as group:
        for pod, container in containers:
            group.start_soon(_copy, api, pod, container, request, write)


async def _copy(
    api: KubeApiClient, pod: ObjectRef, container: str, request: LogRequest, write: Callable[[str], None]
) -> None:
    """Write the log of one container. An error, such as that the container has not started, is written as a line."""
    head = f"[{pod.name}/{container}]"
    try:
        async for line in api.pod_log(pod, container, follow=request.follow, tail_lines=request.tail):
            write(f"{head} {line}")
    except OperatorError as error:
        write(f"{head} ({error.message})")


async def _pods(api: KubeApi, request: LogRequest) -> AsyncIterator[Manifest]:
    if not request.name:
        selector = ",".join(f"{label}={value}" for label, value in INSTANCE_LABELS.items())
        for pod in await all_of(api, POD, namespace=request.system_namespace, selector=selector):
            yield pod
        return
    kind, manifest = await find_named_object(api, request.name, request.namespace, acts=True)
    namespace = get_path(manifest, "metadata", "namespace")
    for selector in await _selectors(api, kind, manifest):
        for pod in await all_of(api, POD, namespace=namespace, selector=selector):
            yield pod


async def _selectors(api: KubeApi, kind: Kind, manifest: Manifest) -> Sequence[str]:
    """Return the label selectors of the pods that belong to an object. Raises CommandError for a kind without pods."""
    if kind == APPLICATION_INSTANCE:
        name = get_path(manifest, "spec", "release", "name") or get_path(manifest, "metadata", "name")
        return (f"{_OF_RELEASE}={name}",)
    if kind != OPERATION:
        raise CommandError(f"a {kind.kind} has no pods; without a name the operator's own are told")
    uid, namespace = (get_path(manifest, "metadata", field) for field in ("uid", "namespace"))
    mine = f"{OPERATION_UID}={bounded_name(str(uid))}"
    return [
        f"{label}={get_path(made, 'metadata', 'name')}"
        for engine, label in ((JOB, _OF_JOB), (WORKFLOW, _OF_WORKFLOW))
        for made in await all_of(api, engine, namespace=namespace, selector=mine)
    ]


def _containers(pod: Manifest) -> list[str]:
    spec = get_path(pod, "spec") or {}
    return [str(each["name"]) for field in ("initContainers", "containers") for each in spec.get(field) or ()]


def _where(request: LogRequest) -> str:
    if request.name:
        return ": it has not started one, or they are gone"
    return f" in {request.system_namespace}: give --system-namespace where it is another one"


@attrs.frozen
class Held:
    """The objects of `kind` whose deletion one of the `finalizers` prevents.

    `by` names the controller, for messages.
    """

    kind: Kind
    finalizers: Collection[str]
    by: str


@attrs.frozen
class Forgetting:
    """The component that removes finalizers from objects. `tell` is called with a line of text for each object.

    With `dry_run` no object is changed.
    """

    api: KubeApi
    tell: Callable[[str], None]
    dry_run: bool = False

    async def run(self, held: Held) -> int:
        """Remove `held.finalizers` from all objects of `held.kind`, and return how many objects had one of them.

        A dry run returns the same number. Raises OperatorError if a request fails; a second run then continues with the
        other objects.
        """
        refs = await self._refs(held)
        for ref in refs:
            if not self.dry_run:
                await self._release(ref, held.finalizers)
            self.tell(f"{ref}: {'would be' if self.dry_run else ''} free of the {held.by}".replace("  ", " "))
        return len(refs)

    async def _refs(self, held: Held) -> list[ObjectRef]:
        found = each_of(self.api, held.kind)
        try:
            return [ref_of(each, held.kind) async for each in found if _is_held(each, held.finalizers)]
        except KindMissing:
            return []

    async def _release(self, ref: ObjectRef, finalizers: Collection[str]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                live = metadata(await self.api.get(ref))
                left = [name for name in live.get("finalizers") or () if name not in finalizers]
                guard = {"uid": live["uid"], "resourceVersion": live["resourceVersion"]}
                patch = {"metadata": {**guard, "finalizers": left}}
                await self.api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=_MANAGER)
                return
            except NotFound:
                return
            except Stale:
                if attempt + 1 == _ATTEMPTS:
                    raise


def _is_held(manifest: Manifest, finalizers: Collection[str]) -> bool:
    return any(name in finalizers for name in metadata(manifest).get("finalizers") or ())
