"""How a namespace ends: by the cluster's own namespace controller, and where there is none by one that is played.

Roles and bindings go first, as the worst case of the order that a real one is free to choose.
"""

import ssl
from base64 import b64decode
from contextlib import suppress
from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, ObjectRef, metadata, ref_of
from purekube.ports import KubeApi
from tests.support.cluster_choice import Reached, is_existing
from tests.support.commands import call
from tests.support.e2e_world import World
from vworkspace_core.api import kinds as own_kinds

ROLES: Final = tuple(
    Kind("rbac.authorization.k8s.io", "v1", kind, plural)
    for kind, plural in (("RoleBinding", "rolebindings"), ("Role", "roles"))
)
_STEPS: Final = 10
_CONTENT: Final = (
    *ROLES,
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    *(kind for kind in own_kinds.ALL_KINDS if kind.namespaced and kind != known.EVENT),
)


async def end_namespace(world: World, name: str, *, seconds: float = 60.0) -> None:
    """Wait until the namespace, which somebody has deleted, is gone; what is left of it is named where it stays."""
    await world.until(lambda: is_ended(world, name), f"namespace {name} gone", seconds=seconds)


def take_roles(world: World, name: str) -> None:
    """The operator has no rights of that namespace any more."""
    world.hands.do(lambda api: _delete(api, ROLES, name))


def is_ended(world: World, name: str) -> bool:
    """Whether it is gone; where the namespace controller is played, its work goes a step further."""
    if world.reached is not None and world.reached.real is None and not is_existing():
        left = world.hands.do(lambda api: _delete(api, _CONTENT, name))
        if not left:
            _finalize(world.reached, name)
    return world.find(ObjectRef(known.NAMESPACE, None, name)) is None


def end_what_goes(world: World, *names: str) -> None:
    """End namespaces that a story which failed has left on their way out, or no later story would have one."""
    for name in names:
        namespace = world.find(ObjectRef(known.NAMESPACE, None, name))
        if namespace is not None and metadata(namespace).get("deletionTimestamp"):
            any(is_ended(world, name) for _ in range(_STEPS))


async def _delete(api: KubeApi, kinds: tuple[Kind, ...], namespace: str) -> int:
    """Delete what is there and not going yet; how many objects there were."""
    found = 0
    for kind in kinds:
        with suppress(KindMissing):
            for manifest in (await api.list(kind, namespace=namespace)).items:
                found += 1
                if not metadata(manifest).get("deletionTimestamp"):
                    with suppress(NotFound):
                        await api.delete(ref_of(manifest, kind))
    return found


def _finalize(reached: Reached, name: str) -> None:
    config = reached.admin
    assert config.user is not None
    authority = config.cluster.certificate_auth_data
    trust = None if authority is None else ssl.create_default_context(cadata=b64decode(authority).decode())
    url = f"{config.cluster.server}/api/v1/namespaces/{name}"
    token = config.user.token or ""
    live = call("GET", url, token=token, trust=trust)
    if live is not None:
        call("PUT", f"{url}/finalize", {**live, "spec": {"finalizers": []}}, token=token, trust=trust)
