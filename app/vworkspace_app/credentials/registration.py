"""The registration of a cluster: a one-time token is exchanged for a credential that is stored before use (PULL-8).

With the credential, the operator authenticates to the control plane, the server that offers jobs to it.

The one-time token is an option, or that which a Cluster object names (RES-3).
"""

import base64
import binascii
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import redact
from purekube.ports import Clock, KubeApi
from purekube_run.process.command_line import CommandError
from vworkspace_app.credentials.live_credential import CredentialsSource, Live
from vworkspace_app.credentials.rotation import RotationManager
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.control_plane.connection import RetryPace
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.messages import BootstrapToken
from vworkspace_core.credentials.performer import CredentialPerformer, issued_by, registration_body
from vworkspace_core.credentials.secret import Credentials, StoredCredential, credentials_of, new_secret, secret_ref
from vworkspace_odoo import ControlPlaneEndpoint, ReloadingControlPlane

REGISTRATION_TOKEN_TYPE: Final = "vworkspace.io/registration-token"
"""The type of a Secret that holds a one-time token. The API server does not allow a Secret's type to change."""
TRIES: Final = 5
"""The number of attempts that the command `register` makes; the operator itself never gives up."""
LOOK_SECONDS = 5.0
"""The seconds between two looks at the data of a registration that does not succeed."""
_log = structlog.get_logger("operator")


@attrs.frozen
class Bootstrap:
    """The data with which a cluster registers itself: the control plane's URL, the cluster id, and a one-time token."""

    url: str = attrs.field(repr=lambda url: repr(redact(url)))
    cluster_id: str
    token: str = attrs.field(repr=False)

    @property
    def bootstrap_token(self) -> BootstrapToken:
        """The one-time token as an input (an event) of the state machine that decides when and how the agent's
        credential is renewed.
        """
        return BootstrapToken(self.token, self.cluster_id)


async def find_bootstrap(api: KubeApi, namespace: str, *, cluster_id: str = "", url: str = "") -> Bootstrap | None:
    """Return the data with which this cluster can register itself, from a Cluster object, or None if none qualifies.

    A Cluster object qualifies if it names a registration token that exists, and a control plane's URL. The first by
    name is taken. If `cluster_id` is not empty, only Cluster objects with that id qualify. If `url` is not empty, it is
    used instead of a Cluster object's own URL. Raises the errors of `KubeApi.list` and `KubeApi.get` except NotFound.
    """
    try:
        page = await api.list(CLUSTER)
    except NotFound:
        return None
    for cluster in sorted(page.items, key=lambda item: str(metadata(item).get("name"))):
        own, endpoint = (
            str(get_path(cluster, "spec", "clusterId") or ""),
            str(get_path(cluster, "spec", "controlPlaneEndpoint") or ""),
        )
        if cluster_id in ("", own) and (url or endpoint) and (token := await _token(api, namespace, cluster)):
            return Bootstrap(url or endpoint, own, token)
    return None


async def _token(api: KubeApi, namespace: str, cluster: Manifest) -> str:
    """Return the registration token that the Cluster object names, or "" if there is none.

    The token is taken only from a Secret of the type for registration tokens. Otherwise a user who may write Clusters
    could have any Secret of the operator's namespace sent to an address of their choice.
    """
    name, key = (get_path(cluster, "spec", "registrationTokenSecretRef", field) for field in ("name", "key"))
    if not isinstance(name, str) or not isinstance(key, str):
        return ""
    try:
        secret = await api.get(ObjectRef(SECRET, namespace, name))
    except NotFound:
        return ""
    if secret.get("type") != REGISTRATION_TOKEN_TYPE:
        _warn_wrong_type(str(metadata(cluster).get("name")), namespace, name, key, str(secret.get("type")))
        return ""
    return _decoded(get_path(secret, "data", key))


@lru_cache(maxsize=64)
def _warn_wrong_type(cluster: str, namespace: str, name: str, key: str, secret_type: str) -> None:
    """Log a warning, once, that the Secret that a Cluster names as its registration token has the wrong type."""
    made = f"kubectl -n {namespace} create secret generic {name} --type={REGISTRATION_TOKEN_TYPE} --from-file=./{key}"
    _log.warning(
        "a Secret that a Cluster names is not of the type that registration takes",
        cluster=cluster,
        object=f"Secret {namespace}/{name}",
        type=secret_type,
        wanted=REGISTRATION_TOKEN_TYPE,
        cure=f"delete it and make it anew: {made}",
    )


def _decoded(text: Any) -> str:
    try:
        return base64.b64decode(text, validate=True).decode().strip() if isinstance(text, str) else ""
    except (binascii.Error, ValueError):
        return ""


def rotation_requests(clusters: Iterable[Manifest], cluster_id: str) -> tuple[str, ...]:
    """Return the requests for a new credential in the Cluster objects with `cluster_id`: `cluster/<uid>/<generation>`
    each.

    Every generation with `spec.rotateCredentials: true` is a new request. The operator does not reset the field, which
    belongs to the user.
    """
    return tuple(
        f"cluster/{metadata(cluster).get('uid')}/{metadata(cluster).get('generation')}"
        for cluster in clusters
        if get_path(cluster, "spec", "clusterId") == cluster_id
        and get_path(cluster, "spec", "rotateCredentials") is True
    )


async def can_bootstrap(api: KubeApi, source: CredentialsSource) -> bool:
    """Report whether this cluster can register itself: a Cluster object names a one-time token that exists.

    `source` names the namespace in which the token's Secret is, and the cluster id, if it is known already. Raises the
    errors of `find_bootstrap`.
    """
    return await _bootstrap(api, source) is not None


async def _bootstrap(api: KubeApi, source: CredentialsSource) -> Bootstrap | None:
    return await find_bootstrap(api, source.namespace, cluster_id=source.cluster_id, url=source.url)


async def bootstrap(api: KubeApi, source: CredentialsSource, clock: Clock) -> None:
    """Register this cluster with the one-time token that a Cluster object names; retry until the credential is stored.

    Only the leader may call this, the replica that holds the operator's Lease. Do nothing if no Cluster object names a
    token. Return early if the Cluster object, the token or the credentials Secret was changed meanwhile, so that the
    caller begins again with the change. `source` is where the present credential is read from. Raises the errors of
    `find_bootstrap`, and CommandError for a credential that cannot be read.
    """
    registration = await _bootstrap(api, source)
    if registration is None:
        return
    _log.info("registering this cluster", control_plane=registration.url, cluster_id=registration.cluster_id)
    present = await source.look() or Credentials()
    secret = Live(attrs.evolve(present, url=registration.url, cluster_id=registration.cluster_id))
    trust = (present.ca, present.certificate, present.private_key)
    endpoint = ControlPlaneEndpoint(registration.url, "", *trust, allow_http=source.allow_http)
    async with ReloadingControlPlane(lambda: endpoint) as control, anyio.create_task_group() as group:
        performer = CredentialPerformer(api, control, source.namespace, registration.url, registration.cluster_id)
        manager = RotationManager(performer, secret, clock, jitter=random.random())
        ended = anyio.Event()
        manager.live.subscribe(lambda credentials: ended.set() if credentials.token else None)
        manager.set_bootstrap_token(registration.bootstrap_token)
        group.start_soon(manager.run)

        async def look_for_changes() -> None:
            # What is being stored is a change of our own.
            while not await _is_changed(api, source, registration, present) or manager.is_storing:
                await clock.sleep(LOOK_SECONDS)
            ended.set()

        group.start_soon(look_for_changes)
        await ended.wait()
        group.cancel_scope.cancel()
    if manager.live.current.token:
        _log.info("this cluster is registered", secret=str(secret_ref(source.namespace)))


async def _is_changed(api: KubeApi, source: CredentialsSource, registration: Bootstrap, present: Credentials) -> bool:
    """Report whether a registration would now have other data. False if that cannot be read."""
    try:
        return (await _bootstrap(api, source), await source.look() or Credentials()) != (registration, present)
    except (OperatorError, CommandError):
        return False


@attrs.frozen
class Registered:
    """A credential that was just issued, and the id of the cluster for which it is valid."""

    cluster_id: str
    stored: StoredCredential

    def secret(self, namespace: str, url: str, ca: str = "") -> Manifest:
        """Return the manifest of the Secret with the credential, the cluster id and the control plane's `url`.

        `ca` is the certificate authority (PEM) to trust at `url`.
        """
        return new_secret(namespace, url, self.cluster_id, self.stored, ca)


async def register(
    control: ControlPlane, clock: Clock, token: str, *, cluster_id: str = "", display_name: str = ""
) -> Registered:
    """Exchange the one-time token `token` for a credential, and return it.

    Without a `cluster_id`, the control plane says for which cluster the token is. `display_name` is the name by which
    the control plane shows the cluster. Retry while the control plane is unavailable. Raises CommandError if the
    request is refused, or after the last attempt.
    """
    pace, body = RetryPace(), registration_body(token, cluster_id, display_name)
    for left in reversed(range(TRIES)):
        try:
            answer = await control.register(body)
            issued = issued_by(answer, cluster_id)
            break
        except Unavailable as error:
            if not left:
                raise CommandError(f"the control plane cannot be reached: {error.message}") from error
            pace, delay = pace.failed(error, random.random())
            await clock.sleep(delay)
        except OperatorError as error:
            raise CommandError(f"the registration is refused: {error.message}") from error
    given = answer.get("clusterId")
    known_id = cluster_id or (given if isinstance(given, str) else "")
    if not known_id:
        raise CommandError("the control plane did not say for which cluster: give --cluster-id")
    if not is_label_value(known_id):
        raise CommandError(f"the control plane calls this cluster {known_id!r}, which no label can hold: {LABEL_RULE}")
    return Registered(known_id, StoredCredential(issued.token, "", issued.expires_at, datetime.now(UTC)))


async def store_credential(
    api: KubeApi, control: ControlPlane, namespace: str, url: str, new: Registered, ca: str = ""
) -> None:
    """Write a new credential into the Secret `vworkspace-agent-credentials` in `namespace`, or create the Secret.

    `url` and `ca` are the control plane's URL and certificate authority, which are stored with the token. Raises
    CommandError if the Secret cannot be read or written.
    """
    performer = CredentialPerformer(api, control, namespace, url, new.cluster_id, ca=ca, names=True)
    expected = await _present(api, namespace)
    for _ in range(TRIES):
        match (await performer.perform(r.WriteSecret(0, expected, new.stored))).answer:
            case r.SecretWritten():
                return
            case r.SecretChanged(stored):
                expected = stored.token
            case r.WriteFailed(message, refused):
                failure = message
                if refused:
                    break
                await anyio.sleep(1)
            case _:
                raise AssertionError("a write has no other answer")
    raise CommandError(f"{secret_ref(namespace)} cannot be written: {failure}. The token can be used again")


async def _present(api: KubeApi, namespace: str) -> str:
    """Return the token in the credentials Secret, or "" if the Secret does not exist.

    Raises CommandError if the Secret cannot be read.
    """
    try:
        return credentials_of(await api.get(secret_ref(namespace))).token
    except NotFound:
        return ""
    except OperatorError as error:
        raise CommandError(f"{secret_ref(namespace)} cannot be read: {error.message}") from error
