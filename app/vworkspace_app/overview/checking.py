"""The requests that the command `check` sends to a cluster: reads, and access reviews. It changes nothing (SEE-1)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import Forbidden, Right
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    RBAC_GROUP,
    SECRET,
    SERVICE_ACCOUNT,
    Access,
    service_account_user,
)
from purekube.boxes.webhooks.conversion_webhook import VALIDATING_CONFIGURATION
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import all_of, find, lacking, leases_of
from vworkspace_app.install.deployed import lease_place, permitted_deployment
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import TLS_SECRET, InstallOptions
from vworkspace_app.settings.loading import find_installation
from vworkspace_core.api.installation import Installation
from vworkspace_core.api.kinds import CLUSTER, OWN_KINDS
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.clusters.inventory import FLUX_KINDS
from vworkspace_core.credentials.secret import secret_ref
from vworkspace_core.install import access
from vworkspace_core.operations.settings import RUNNER
from vworkspace_core.overview import checkup
from vworkspace_core.overview.checkup import CheckFinding, CheckResult, Definitions
from vworkspace_core.overview.tree import at_work, heartbeat_of, is_alive, present_cluster

_NEEDED_TO_INSTALL: Final = (
    Right("create", CUSTOM_RESOURCE_DEFINITION.group, CUSTOM_RESOURCE_DEFINITION.plural),
    Right("create", RBAC_GROUP, "clusterroles"),
    Right("create", RBAC_GROUP, "clusterrolebindings"),
    Right("create", "", "namespaces"),
)


async def before_installing(api: KubeApiClient) -> AsyncIterator[CheckFinding]:
    """Yield a finding for each requirement on the cluster, met or not, before the operator is installed."""
    yield checkup.api_server(await api.server_version())
    needed = [(right, "") for right in _NEEDED_TO_INSTALL]
    yield checkup.may_install(await _missing(api, needed, {}) or ())
    definitions = await _definitions(api)
    for finding in (*checkup.controllers(definitions), checkup.gitops(definitions)):
        yield finding


async def installed(api: KubeApiClient, options: InstallOptions, now: datetime) -> AsyncIterator[CheckFinding]:
    """Yield findings about an installed operator: its objects and rights, and its connection to the control plane.

    `options` are those for which the command `manifests` prints the objects to install.
    """
    yield checkup.api_server(await api.server_version())
    definitions = await _definitions(api)
    clusters = await all_of(api, CLUSTER) if checkup.is_served(definitions, CLUSTER) else ()
    cluster = present_cluster(clusters) or next(iter(clusters), None)
    deployment, refused = await permitted_deployment(api, options.namespace)
    if options.agent:
        alive = is_alive(heartbeat_of([] if cluster is None else [cluster]), now)
        options = attrs.evolve(options, agent=checkup.runs_an_agent(deployment, cluster, is_alive=alive))
    installation = await find_installation(api, options.namespace, agent=options.agent)
    for finding in (*checkup.own_definitions(definitions, installation), *checkup.controllers(definitions)):
        yield finding
    yield await _unless_forbidden("operator", partial(_at_work, api, options, deployment, refused, now))
    async for finding in _rights(api, options, installation):
        yield finding
    if options.agent:
        yield await _unless_forbidden("credentials", partial(_credential, api, options))
    async for finding in _webhooks(api, options, now):
        yield finding
    if checkup.is_served(definitions, CLUSTER):
        for finding in checkup.connection(cluster):
            yield finding


async def _unless_forbidden(point: str, look: Callable[[], Awaitable[CheckFinding]]) -> CheckFinding:
    """Call `look` and return its finding, or a finding UNKNOWN on `point` if the user lacks the rights for `look`."""
    try:
        return await look()
    except Forbidden as error:
        return CheckFinding(point, CheckResult.UNKNOWN, error.message)


async def _at_work(
    api: KubeApiClient, options: InstallOptions, deployment: Manifest | None, refused: Forbidden | None, now: datetime
) -> CheckFinding:
    place = lease_place(deployment, options.namespace)
    shards = at_work(await leases_of(api, place.namespace, place.name), place.name, now)
    if shards and all(each.holder for each in shards):
        return checkup.operator(None, shards)
    has_heartbeat = not shards and is_alive(heartbeat_of(await all_of(api, CLUSTER)), now)
    if refused is not None:
        raise refused
    return checkup.operator(deployment, shards, options.namespace, has_heartbeat=has_heartbeat)


async def _definitions(api: KubeApiClient) -> Definitions:
    engines = checkup.ENGINE_CONTROLLERS.values()
    further = (checkup.KUSTOMIZATION, *(kind for each in engines for kind in (*each.definitions, *each.read_later)))
    kinds = (*OWN_KINDS, *FLUX_KINDS, *further)
    refs = [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name) for kind in kinds]
    return {ref.name: await find(api, ref) for ref in refs}


async def _rights(
    api: KubeApiClient, options: InstallOptions, installation: Installation
) -> AsyncIterator[CheckFinding]:
    """Yield findings on the operator's rights in the cluster and in each namespace, compared with `manifests`."""
    own, held = access.OWN if options.agent else access.LOCAL_OWN, partial(_check_rights, api, installation)
    yield await held("rights in the whole cluster", access.EVERYWHERE, "")
    yield await held(f"rights in {options.namespace}", own, options.namespace)
    if place := options.velero_namespace:
        yield await _unless_forbidden(f"rights in {place}", partial(_in_velero, api, installation, place))
    gated = await all_of(api, NAMESPACE, selector=f"{NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}")
    names = [str(metadata(namespace)["name"]) for namespace in gated]
    yield checkup.managed_namespaces(names)
    there = (*access.TENANT, *(access.JOBS if options.agent else ()))
    for name in names:
        yield await held(f"rights in {name}", there, name)
        look = partial(_accounts, api, name, options.release_account, installation)
        yield await _unless_forbidden(f"accounts in {name}", look)


async def _in_velero(api: KubeApiClient, installation: Installation, place: str) -> CheckFinding:
    point = f"rights in {place}"
    if await find(api, ObjectRef(NAMESPACE, None, place)) is None:
        return checkup.velero_is_absent(point, place)
    return await _check_rights(api, installation, point, access.VELERO, place)


async def _check_rights(
    api: KubeApiClient, installation: Installation, point: str, accesses: Iterable[Access], namespace: str
) -> CheckFinding:
    system = installation.namespace
    user = service_account_user(system, NAME)
    desired = [
        (Right(verb, each.kind.group, each.resource, namespace, user), each.name)
        for each in accesses
        for verb in each.verbs
    ]
    subject = {
        "user": user,
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{system}", "system:authenticated"],
    }
    return checkup.rights(point, len(desired), await _missing(api, desired, subject), installation)


async def _missing(
    api: KubeApiClient, desired: Sequence[tuple[Right, str]], subject: Mapping[str, Any]
) -> Sequence[Right] | None:
    """Return the rights in `desired` that the subject lacks, or None if the user may not ask for them."""
    try:
        return await lacking(api, desired, subject)
    except Forbidden:
        return None


async def _accounts(
    api: KubeApiClient, namespace: str, release_account: str, installation: Installation
) -> CheckFinding:
    refs = [ObjectRef(SERVICE_ACCOUNT, namespace, name) for name in (release_account, RUNNER)]
    return checkup.accounts(namespace, [ref.name for ref in refs if await find(api, ref) is None], installation)


async def _webhooks(api: KubeApiClient, options: InstallOptions, now: datetime) -> AsyncIterator[CheckFinding]:
    """Yield a finding on the webhooks' certificates.

    Yield nothing if no webhooks are installed, or if that may not be read.
    """
    try:
        configuration = await find(api, ObjectRef(VALIDATING_CONFIGURATION, None, NAME))
    except Forbidden:
        return
    if configuration is not None:
        secret = ObjectRef(SECRET, options.namespace, TLS_SECRET)

        async def look() -> CheckFinding:
            return checkup.webhooks(configuration, await find(api, secret), now)

        yield await _unless_forbidden("webhooks", look)


async def _credential(api: KubeApiClient, options: InstallOptions) -> CheckFinding:
    return checkup.credential(await find(api, secret_ref(options.namespace)))
