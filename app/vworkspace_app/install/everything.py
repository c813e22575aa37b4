"""The whole installation in the order in which it is to be applied, and what each gated namespace needs."""

from collections.abc import Iterator
from typing import Any

from vworkspace_app.install.accounts import accounts
from vworkspace_app.install.network import network
from vworkspace_app.install.options import NAME, InstallOptions
from vworkspace_app.install.rbac import cluster_rbac, namespace_rbac, page_rbac, tenant_roles
from vworkspace_app.install.webhooks import certificate, configurations
from vworkspace_app.install.workload import namespace_of, workload
from vworkspace_app.settings.table import PageAccess
from vworkspace_core.install import access


def installation(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Everything but what gated namespaces need; the webhooks come last, when there is something to ask.

    The CRDs stand apart: whoever deletes what one command printed must not delete every application (U3).
    """
    yield namespace_of(options)
    yield from cluster_rbac(options)
    if options.settings.get("page", "").lower() == PageAccess.TOKEN_REVIEW:
        yield page_rbac(options)
    if options.tenant_roles:
        yield from tenant_roles()
    yield from namespace_rbac(
        f"{NAME}-system", options.namespace, access.OWN if options.agent else access.LOCAL_OWN, options
    )
    if options.velero_namespace:
        yield from namespace_rbac(f"{NAME}-velero", options.velero_namespace, access.VELERO, options)
    yield from network(options)
    yield from workload(options)
    if options.cert_manager:
        yield from certificate(options)
    if options.webhooks:
        yield from configurations(options)


def tenant(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    """What lets the operator work in one gated namespace (RES-5), and as whom it has things done there (RUN-12)."""
    granted = (*access.TENANT, *access.JOBS) if options.agent else access.TENANT
    yield from namespace_rbac(NAME, namespace, granted, options)
    yield from accounts(namespace, options)
