"""The first credential of a cluster, issued for the one-time token that a Cluster object names (PULL-8, RES-3).

With a credential, the operator authenticates to the control plane, the server that offers jobs to it.
"""

import base64
import binascii
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import attrs
import structlog

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import redact
from purekube.ports import KubeApi
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.credentials.messages import BootstrapToken

REGISTRATION_TOKEN_TYPE: Final = "vworkspace.io/registration-token"
"""The type of a Secret that holds a one-time token. The API server does not allow a Secret's type to change."""

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
