"""The inventory of what is to be uninstalled, read from the cluster before anything is changed."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

import attrs

from purekube.apimachinery.definitions import BOX_NAME, OPERATOR_BOX
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.meta import is_abandoned
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    HELM_RELEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    RBAC_KINDS,
    RESOURCE_QUOTA,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
from purekube.apimachinery.structuring import read_meta
from purekube.controller.ownership import is_controlled_by
from purekube.ports import KubeApi
from purekube_run.controller.lookups import all_of, find, leases_of
from vworkspace_app.install.deployed import is_operator, settings_shown
from vworkspace_app.install.names import APPLIED_BOXES, INSTANCE_LABELS, NAME
from vworkspace_app.settings.loading import find_installation
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION, OWN_KINDS
from vworkspace_core.api.labels import FINALIZER, NAMESPACE_GATE, NAMESPACE_GATE_VALUE, is_managed
from vworkspace_core.install.access import named_by_releases
from vworkspace_core.overview.tree import RELEASE_NAMESPACE

_ADMISSION: Final = "admissionregistration.k8s.io"
_WEBHOOKS: Final = tuple(
    Kind(_ADMISSION, "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    )
)
_RIGHTS: Final = (*RBAC_KINDS, SERVICE_ACCOUNT, RESOURCE_QUOTA)
_BESIDE: Final = (
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    SERVICE,
    # A rule that outlived the operator would say for ever that no operator is there.
    Kind("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    Kind("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    Kind("cert-manager.io", "v1", "Certificate", "certificates"),
    Kind("cert-manager.io", "v1", "Issuer", "issuers"),
)
_OF_OTHERS: Final = (
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    Kind("batch", "v1", "CronJob", "cronjobs"),
    # The operator makes none there, and the volume would be lost with its claim.
    PERSISTENT_VOLUME_CLAIM,
)
_REVISION: Final = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in INSTANCE_LABELS.items())


@attrs.frozen
class Inventory:
    """The operator's objects in a cluster, and all HelmReleases, as they were before the uninstallation.

    `rights` are the operator's roles, bindings, ServiceAccounts and ResourceQuotas, and `definitions` its CRDs.
    `releases` are all HelmReleases. `leases` are the operator's Leases in all namespaces; it is empty if no
    replica ever took part in leader election.
    """

    system_namespace: str
    operations: tuple[Manifest, ...] = ()
    instances: tuple[Manifest, ...] = ()
    webhooks: tuple[ObjectRef, ...] = ()
    deployments: tuple[ObjectRef, ...] = ()
    """The operator's Deployments: one, or one for each shard."""
    elsewhere: tuple[ObjectRef, ...] = ()
    """Deployments of an operator in other namespaces than `system_namespace`."""
    rights: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    beside: tuple[ObjectRef, ...] = ()
    definitions: tuple[ObjectRef, ...] = ()
    namespace: ObjectRef | None = None
    """The operator's own namespace; None if the command `manifests` did not create it."""
    has_namespace: bool = True
    """True if the namespace `system_namespace` exists, even if `manifests` did not create it."""
    neighbours: tuple[ObjectRef, ...] = ()
    """The workloads and volume claims of others in that namespace, such as the Deployment of a box, whose default
    namespace it is.
    """
    managed_namespaces: tuple[str, ...] = ()
    boxes: tuple[str, ...] = ()
    """The names of OperatorBoxes that no Deployment runs except the operator's."""
    extensions: tuple[str, ...] = ()
    """The boxes and controllers that the operator's Deployments run too, as the arguments that name them."""
    leases: tuple[Manifest, ...] = ()
    lease_names: tuple[str, ...] = (NAME,)
    """The names of the Leases of first shards: the default, and those that the Deployments set."""
    releases: tuple[Manifest, ...] = ()
    installation: Installation = PRINTED

    @property
    def applications(self) -> tuple[Manifest, ...]:
        """The instances that have the operator's finalizer and are not abandoned.

        Their releases are uninstalled with them.
        """
        return tuple(each for each in self.instances if _has_application(each) and not is_abandoned(read_meta(each)))

    @property
    def abandoned(self) -> tuple[Manifest, ...]:
        """The instances that a user has marked as abandoned. Their releases always stay."""
        return tuple(manifest for manifest in self.instances if is_abandoned(read_meta(manifest)))

    @property
    def without_application(self) -> tuple[Manifest, ...]:
        """The instances for which no operator here has deployed anything, such as those of other clusters."""
        return tuple(
            each for each in self.instances if not _has_application(each) and not is_abandoned(read_meta(each))
        )

    def staying(self, *, keep_applications: bool) -> tuple[Manifest, ...]:
        """Return the HelmReleases that the uninstallation does not delete.

        If `keep_applications` is True, these are all HelmReleases. Otherwise they are the ones that belong to none of
        `applications`: those of abandoned instances, and those that something other than an instance created.
        """
        going = () if keep_applications else self.applications
        uids = [str(metadata(instance)["uid"]) for instance in going]
        return tuple(release for release in self.releases if not any(is_controlled_by(release, uid) for uid in uids))

    def remaining_releases(self, *, keep_applications: bool) -> tuple[ObjectRef, ...]:
        """Return references to the HelmReleases that the operator created, and that stay after the uninstallation.

        If `keep_applications` is True, the user keeps all applications, and these are all HelmReleases that the
        operator created. Otherwise only those stay whose instance a user has marked as abandoned, or is gone already.
        """
        return tuple(
            ref_of(release, HELM_RELEASE)
            for release in self.staying(keep_applications=keep_applications)
            if is_managed(read_meta(release))
        )

    def needed_rights(self, *, keep_applications: bool) -> frozenset[ObjectRef]:
        """Return the accounts, roles and bindings that Flux still needs for the HelmReleases that stay.

        If `keep_applications` is True, all HelmReleases stay. Otherwise those of `applications` are deleted, and the
        others stay.
        """
        return named_by_releases(self.rights, self.staying(keep_applications=keep_applications))

    def namespace_to_delete(self, *, keep_applications: bool) -> ObjectRef | None:
        """Return the operator's own namespace if it may be deleted, else None.

        It stays if the command `manifests` did not create it, if workloads or volume claims of others are in it, or if
        a HelmRelease in it stays. If `keep_applications` is True, all HelmReleases stay; otherwise those of
        `applications` are deleted.
        """
        staying = self.staying(keep_applications=keep_applications)
        is_used = any(metadata(release)["namespace"] == self.system_namespace for release in staying)
        return None if is_used or self.neighbours else self.namespace

    @property
    def is_empty(self) -> bool:
        """Report whether no object of the operator is left, except those that existing HelmReleases need."""
        rights = self.rights.keys() - self.needed_rights(keep_applications=True)
        namespace = self.namespace_to_delete(keep_applications=True)
        return not (self.definitions or self.deployments or self.webhooks or rights or namespace)


async def take_inventory(api: KubeApi, system_namespace: str) -> Inventory:
    """Return the operator's objects and all HelmReleases, which it reads from the cluster.

    `system_namespace` is the operator's own namespace. Raises the errors of `KubeApi.list` and `KubeApi.get` except
    NotFound.
    """
    definitions = [
        ref
        for kind in reversed(OWN_KINDS)
        if await find(api, ref := ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name)) is not None
    ]
    deployments = [
        manifest for manifest in await all_of(api, DEPLOYMENT, namespace=system_namespace) if is_operator(manifest)
    ]
    everywhere = [
        ref_of(manifest, DEPLOYMENT)
        for manifest in await all_of(api, DEPLOYMENT, selector=_SELECTOR)
        if is_operator(manifest)
    ]
    namespace = await find(api, ObjectRef(NAMESPACE, None, system_namespace))
    named = [name for each in deployments for name in settings_shown(each, "leader_elect_resource_name")]
    lease_names = tuple(dict.fromkeys((NAME, *named)))
    labelled = {kind: await all_of(api, kind, selector=_SELECTOR) for kind in (*_WEBHOOKS, *_RIGHTS)}
    return Inventory(
        system_namespace,
        operations=await all_of(api, OPERATION),
        instances=await all_of(api, APPLICATION_INSTANCE),
        webhooks=tuple(ref_of(manifest, kind) for kind in _WEBHOOKS for manifest in labelled[kind]),
        deployments=tuple(ref_of(manifest, DEPLOYMENT) for manifest in deployments),
        elsewhere=tuple(ref for ref in everywhere if ref.namespace != system_namespace),
        rights={ref_of(manifest, kind): manifest for kind in _RIGHTS for manifest in labelled[kind]},
        beside=tuple([ref async for ref in _other_objects(api, system_namespace)]),
        definitions=tuple(definitions),
        namespace=_own_namespace(namespace),
        has_namespace=namespace is not None,
        neighbours=tuple([ref async for ref in _neighbours(api, system_namespace)]),
        managed_namespaces=tuple(
            str(metadata(manifest)["name"])
            for manifest in await all_of(api, NAMESPACE, selector=f"{NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}")
        ),
        boxes=await _boxes(api),
        extensions=tuple(
            dict.fromkeys(
                f"--{name} {value}"
                for each in deployments
                for name in ("box", "controllers")
                for value in settings_shown(each, name)
            )
        ),
        leases=await leases_by(api, lease_names),
        lease_names=lease_names,
        releases=await all_of(api, HELM_RELEASE),
        installation=await find_installation(api, system_namespace, agent=True),
    )


async def leases_by(api: KubeApi, names: Iterable[str]) -> tuple[Manifest, ...]:
    """Return the Leases of an operator in all namespaces, by the possible `names` of its first shard's Lease.

    Raises the errors of `KubeApi.list`.
    """
    return tuple([lease for name in names for lease in await leases_of(api, None, name)])


async def _boxes(api: KubeApi) -> tuple[str, ...]:
    """Return the names of all OperatorBoxes, but none if a Deployment of their own runs them."""
    if await all_of(api, DEPLOYMENT, selector=f"app.kubernetes.io/name={APPLIED_BOXES}"):
        return ()
    return tuple(str(metadata(box)["name"]) for box in await all_of(api, OPERATOR_BOX))


async def _other_objects(api: KubeApi, namespace: str) -> AsyncIterator[ObjectRef]:
    for kind in _BESIDE:
        for manifest in await all_of(api, kind, selector=_SELECTOR, namespace=namespace):
            yield ref_of(manifest, kind)


async def _neighbours(api: KubeApi, namespace: str) -> AsyncIterator[ObjectRef]:
    """Yield the workloads and volume claims in the operator's namespace that are neither its own nor of a HelmRelease
    there, and the revisions of boxes.
    """
    # Without its revision, an object of an applied box is left alone by every later operator.
    for manifest in await all_of(api, _REVISION, selector=BOX_NAME, namespace=namespace):
        yield ref_of(manifest, _REVISION)
    for kind in _OF_OTHERS:
        for manifest in await all_of(api, kind, namespace=namespace):
            labels = metadata(manifest).get("labels") or {}
            is_own = INSTANCE_LABELS.items() <= labels.items() or is_operator(manifest)
            if not is_own and labels.get(RELEASE_NAMESPACE) != namespace:
                yield ref_of(manifest, kind)


def _own_namespace(namespace: Manifest | None) -> ObjectRef | None:
    labels = get_path(namespace, "metadata", "labels") or {}
    return ref_of(namespace, NAMESPACE) if namespace and INSTANCE_LABELS.items() <= labels.items() else None


def _has_application(instance: Manifest) -> bool:
    """Report whether an operator has put its finalizer on the instance, before it deployed anything."""
    return FINALIZER in (metadata(instance).get("finalizers") or ())
