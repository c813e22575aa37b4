"""The service accounts of a managed namespace: one for Flux to install releases, one to run Operations (RUN-12).

Neither is the operator's own: an instance or an Operation gets only rights in its own namespace.
"""

from collections.abc import Iterator
from typing import Any, Final

import attrs

from vworkspace_app.install.options import COMPONENT, RELEASE_ACCOUNT, RUNNER_ACCOUNT, InstallOptions, meta
from vworkspace_core.operations.settings import RUNNER

_GROUP: Final = "rbac.authorization.k8s.io"
_ALL: Final = ("get", "list", "watch", "create", "update", "patch", "delete")


@attrs.frozen
class _Rule:
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...] = _ALL

    def manifest(self) -> dict[str, Any]:
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


_CHART: Final = (
    # Secrets are also where Helm keeps its record of the release.
    _Rule("", ("configmaps", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services")),
    _Rule("", ("events", "pods/log"), ("get", "list", "watch")),
    _Rule("apps", ("daemonsets", "deployments", "statefulsets")),
    _Rule("apps", ("controllerrevisions", "replicasets"), ("get", "list", "watch")),
    _Rule("autoscaling", ("horizontalpodautoscalers",)),
    _Rule("batch", ("cronjobs", "jobs")),
    _Rule("networking.k8s.io", ("ingresses", "networkpolicies")),
    _Rule("policy", ("poddisruptionbudgets",)),
    # The API server refuses a role that grants rights its creator lacks.
    _Rule(_GROUP, ("rolebindings", "roles")),
)
"""The kinds that an ordinary chart creates in its own namespace.

Our kinds and Flux's are not among them: a HelmRelease in a chart would be installed with the rights of Flux itself.
"""

_EXECUTOR: Final = (_Rule("argoproj.io", ("workflowtaskresults",), ("create", "patch")),)
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
    yield _account(options.release_account, namespace, RELEASE_ACCOUNT)
    if not options.release_role:
        yield _role(options.release_account, namespace, RELEASE_ACCOUNT, _CHART)
    yield _binding(options.release_account, namespace, RELEASE_ACCOUNT, options.release_role)


def _runner(namespace: str, options: InstallOptions) -> Iterator[dict[str, Any]]:
    # Only Argo's executor uses a token; the pods of Jobs never mount one.
    token = {} if options.workflows else {"automountServiceAccountToken": False}
    yield {**_account(RUNNER, namespace, RUNNER_ACCOUNT), **token}
    if options.workflows:
        yield _role(RUNNER, namespace, RUNNER_ACCOUNT, _EXECUTOR)
        yield _binding(RUNNER, namespace, RUNNER_ACCOUNT)


def _meta(name: str, namespace: str, component: str) -> dict[str, Any]:
    metadata = meta(name, namespace)
    return {**metadata, "labels": {**metadata["labels"], COMPONENT: component}}


def _account(name: str, namespace: str, component: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(name, namespace, component)}


def _role(name: str, namespace: str, component: str, rules: tuple[_Rule, ...]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": _meta(name, namespace, component),
        "rules": [rule.manifest() for rule in rules],
    }


def _binding(name: str, namespace: str, component: str, cluster_role: str = "") -> dict[str, Any]:
    role = {"kind": "ClusterRole", "name": cluster_role} if cluster_role else {"kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _meta(name, namespace, component),
        "roleRef": {"apiGroup": _GROUP, **role},
        "subjects": [subject],
    }
