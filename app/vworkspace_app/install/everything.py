"""The manifests of the operator and of a managed namespace, in the order to apply them, and kustomize bases (RUN-7).

A managed namespace gets two service accounts: one for Flux to install releases, one to run Operations (RUN-12). Neither
is the operator's own: an instance or an Operation gets only rights in its own namespace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.resources import RBAC_GROUP
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.install.deployment import namespace_of, workload
from vworkspace_app.install.names import NAME
from vworkspace_app.install.network_objects import network
from vworkspace_app.install.options import COMPONENT, RELEASE_ACCOUNT, RUNNER_ACCOUNT, InstallOptions, meta
from vworkspace_app.install.rbac import binding_of, cluster_rbac, granted, operator_role, page_rbac, tenant_roles
from vworkspace_app.install.webhook_manifests import certificate, configurations
from vworkspace_app.settings.table import PageAccess
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.install import access
from vworkspace_core.operations.settings import RUNNER

_ALL: Final = ("get", "list", "watch", "create", "update", "patch", "delete")


def installation(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the operator, without those of managed namespaces and without CRDs.

    The webhook configurations come last, because the operator must run before its webhooks are called. CRDs are printed
    separately: deleting them would delete every application.
    """
    yield namespace_of(options)
    yield from cluster_rbac(options)
    if _serves_page(options):
        yield page_rbac(options)
    if options.tenant_roles:
        yield from tenant_roles()
    yield from _system_rbac(options)
    if options.velero_namespace:
        yield from _velero_rbac(options)
    if options.applied_boxes:
        yield from _applied_rbac(options)
    yield from network(options)
    yield from workload(options)
    if options.cert_manager:
        yield from certificate(options)
    if options.webhooks:
        yield from configurations(options)


def rights(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield only roles and bindings of the operator.

    If the options enable Velero, the web page or applied boxes (OperatorBoxes in the cluster), these are only the
    additional roles for them. Otherwise these are the operator's own two roles. Never both: applying the own roles
    again would replace roles that were printed with other options.
    """
    if options.velero_namespace:
        yield from _velero_rbac(options)
    if _serves_page(options):
        yield page_rbac(options)
    if options.applied_boxes:
        yield from _applied_rbac(options)
    if not (options.velero_namespace or _serves_page(options) or options.applied_boxes):
        yield from cluster_rbac(options)
        yield from _system_rbac(options)


def tenant(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the objects of a managed namespace: the operator's Role (RES-5), the accounts (RUN-12) and any quota.

    There is a quota only if the options set one.
    """
    # Without the Namespace itself: `kubectl delete -f` would delete it with everything inside.
    yield from tenant_rights(namespace, options)
    yield from accounts(namespace, options)
    if options.quota:
        yield _quota(namespace, options)


def tenant_rights(namespace: str, options: InstallOptions, account: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operator's Role and RoleBinding in a managed namespace.

    If `account` is not empty, yield instead the ServiceAccount of that name with its rights in the namespace.
    """
    if account:
        yield from account_of(account, namespace, options)
        return
    accesses = (*access.TENANT, *access.JOBS) if options.agent else access.TENANT
    yield from operator_role(options.role_name(), accesses, options, namespace)


def _serves_page(options: InstallOptions) -> bool:
    return options.settings.get("page", "").lower() == PageAccess.TOKEN_REVIEW


def _system_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    accesses = access.OWN if options.agent else access.LOCAL_OWN
    yield from operator_role(options.role_name("-system"), accesses, options, options.namespace)
    if elsewhere := options.settings.get("leader_elect_resource_namespace"):
        yield from operator_role(options.role_name("-election"), (access.LEASES,), options, elsewhere)


def _applied_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    from vworkspace_app.install.extension_manifests import applied_rbac  # boxes are slow to import

    yield from applied_rbac(options)


def _velero_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    yield from operator_role(options.role_name("-velero"), access.VELERO, options, options.velero_namespace)


def _quota(namespace: str, options: InstallOptions) -> dict[str, Any]:
    counts = {APPLICATION_INSTANCE: options.quota, OPERATION: 4 * options.quota}
    hard = {f"count/{kind.plural}.{kind.group}": str(count) for kind, count in counts.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta(NAME, namespace), "spec": {"hard": hard}}


_BASE: Final = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def kustomize_bases() -> Mapping[str, str]:
    """Return the text of each file of the kustomize bases, by its path in the repository.

    One base is for the CRDs, one for the operator, and one for the objects of a managed namespace.
    """
    crds = [f"crds/{crd['metadata']['name']}.yaml" for crd in crd_manifests()]
    options = InstallOptions()
    return {
        "manifests/kustomization.yaml": _kustomization(crds),
        "deploy/kustomization.yaml": _kustomization(["operator.yaml"]),
        "deploy/operator.yaml": dump(list(installation(options)), Format.YAML),
        "deploy/tenant/kustomization.yaml": _kustomization(["role.yaml"]),
        "deploy/tenant/role.yaml": dump([_anywhere(manifest) for manifest in tenant("", options)], Format.YAML),
    }


def _kustomization(resources: Iterable[str]) -> str:
    return dump([{**_BASE, "resources": list(resources)}], Format.YAML)


def _anywhere(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest without its namespace, so that a user's overlay can set it."""
    meta = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": meta}


# --- accounts ---------------------------------------------------------------------------------------------------------


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str] = _ALL) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


_CHART: Final = (
    # Secrets are also where Helm keeps its record of the release.
    _rule("", ("configmaps", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services")),
    _rule("", ("events", "pods/log"), ("get", "list", "watch")),
    _rule("apps", ("daemonsets", "deployments", "statefulsets")),
    _rule("apps", ("controllerrevisions", "replicasets"), ("get", "list", "watch")),
    _rule("autoscaling", ("horizontalpodautoscalers",)),
    _rule("batch", ("cronjobs", "jobs")),
    _rule("networking.k8s.io", ("ingresses", "networkpolicies")),
    _rule("policy", ("poddisruptionbudgets",)),
    # The API server refuses a role that grants rights its creator lacks.
    _rule(RBAC_GROUP, ("rolebindings", "roles")),
)
"""The kinds that an ordinary chart creates in its own namespace.

Our kinds and Flux's are not among them: a HelmRelease in a chart would be installed with the rights of Flux itself.
"""
_EXECUTOR: Final = (_rule("argoproj.io", ("workflowtaskresults",), ("create", "patch")),)
"""The rights of the pods of an Argo Workflow: Argo's executor in each pod writes these objects."""


def accounts(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the accounts for releases and for Operations, with their roles and bindings.

    If `namespace` is empty, the manifests have no namespace.
    """
    yield from _release(namespace, options)
    yield from _runner(namespace, options)


def account_of(name: str, namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the ServiceAccount `name` and of its rights in a namespace.

    If `name` is the account that runs Operations, it gets the rights for them. Any other account gets the rights that
    Flux needs to install releases.
    """
    if name == RUNNER:
        return _runner(namespace, options)
    return _release(namespace, attrs.evolve(options, release_account=name))


def _release(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    name = options.release_account
    metadata = _meta(name, namespace, RELEASE_ACCOUNT)
    yield _account(metadata)
    if options.release_role:
        yield binding_of(metadata, "ClusterRole", options.release_role, _subject(name, namespace))
    else:
        yield from granted(metadata, _CHART, _subject(name, namespace))


def _runner(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    # Only Argo's executor uses a token; the pods of Jobs never mount one.
    token = {} if options.workflows else {"automountServiceAccountToken": False}
    metadata = _meta(RUNNER, namespace, RUNNER_ACCOUNT)
    yield {**_account(metadata), **token}
    if options.workflows:
        yield from granted(metadata, _EXECUTOR, _subject(RUNNER, namespace))


def _meta(name: str, namespace: str, component: str) -> dict[str, Any]:
    metadata = meta(name, namespace)
    return {**metadata, "labels": {**metadata["labels"], COMPONENT: component}}


def _account(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _subject(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}
