"""The execution of an action on an object: read it, decide, patch it, and return what was done."""

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import attrs

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.ports import KubeApi, PatchType
from purekube_run.process.command_line import CommandError
from vworkspace_app.verbs.named_objects import find_named_object
from vworkspace_core.api.labels import CLI_MANAGER
from vworkspace_core.credentials.secret import CredentialKey, secret_ref
from vworkspace_core.operations.approvals.claims import approval_claim, parameters_digest
from vworkspace_core.overview.actions import ActionOutcome, Approver, PlannedAction, approval_payload, approve


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
