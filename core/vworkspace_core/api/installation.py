"""The tool that installed the operator, such as Helm or Argo CD.

A missing right must be granted through this tool, because the tool would revert any other change of the roles.
"""

import re
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from vworkspace_core.api.labels import FIELD_MANAGER

CREDENTIALS_SECRET: Final = "vworkspace-agent-credentials"
"""The name of the Secret, in the operator's namespace, with all secrets that the operator shares with other systems."""

APPROVAL_KEY: Final = "approval-secret"
"""The key in the data of the credentials Secret whose value is the secret by which approvals are verified."""

RELEASE_ACCOUNT: Final = "vworkspace-release"
"""The default name of the service account that Flux impersonates for the releases in a managed namespace."""

_ACCOUNT: Final = re.compile(rf"system:serviceaccount:([^:]+):{re.escape(FIELD_MANAGER)}")

_HELM: Final = "meta.helm.sh/release-name"

_HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"

_TRACKING: Final = "argocd.argoproj.io/tracking-id"

_ARGO_LABEL: Final = "argocd.argoproj.io/instance"

_INSTANCE: Final = "app.kubernetes.io/instance"
"""The label that Argo CD sets by default. People set it too, but not on the operator's own service account."""


class InstallTool(StrEnum):
    """The tool that manages the operator's own objects, and refuses or reverts changes by others."""

    NOBODY = ""
    """No tool: the manifests were printed and applied by hand, and another apply replaces them."""
    HELM = "Helm release"
    FLUX_HELM_RELEASE = "HelmRelease"
    FLUX_KUSTOMIZATION = "Kustomization"
    ARGO_CD = "Application of Argo CD"


@attrs.frozen
class Installation:
    """One installation of the operator. `keeper` is the tool that manages the operator's objects, if there is one.

    `name` and `place` are name and namespace of the tool's own object, such as a HelmRelease. Without the agent
    (`agent` is False), which fetches jobs from the control plane, the operator's roles have fewer rights.
    """

    namespace: str = "vworkspace-system"
    agent: bool = True
    keeper: InstallTool = InstallTool.NOBODY
    name: str = ""
    place: str = ""

    @property
    def managed_by(self) -> str:
        """The tool that manages the operator's objects, and the name of the tool's own object, as text for messages."""
        return f"the {self.keeper} {self.place}/{self.name}" if self.place else f"the {self.keeper} {self.name}"


PRINTED: Final = Installation()
"""The installation to assume if nothing is known: manifests that were printed and applied unchanged."""


def installation_of(account: Manifest | None, namespace: str, *, agent: bool) -> Installation:
    """Return the installation that the labels of the operator's own service account describe.

    `account` is the manifest of that service account; with None, no managing tool is assumed. `namespace` is the
    operator's namespace. `agent` says that the operator fetches jobs from a control plane, for which its roles have
    further rights.
    """
    keeper, name, place = managing_tool(account)
    if keeper is InstallTool.NOBODY and (application := _mark(account, "labels", _INSTANCE)):
        keeper, name = InstallTool.ARGO_CD, application
    return Installation(namespace, agent, keeper, name, place)


def managing_tool(manifest: Manifest | None) -> tuple[InstallTool, str, str]:
    """Return three strings: the outermost tool that manages an object, and name and namespace of the tool's own object.

    A name or namespace that is unknown is empty. For an object that Helm installed on behalf of Flux the tool is Flux,
    since such objects are changed in Git.
    """
    for keeper, group in ((InstallTool.FLUX_HELM_RELEASE, "helm"), (InstallTool.FLUX_KUSTOMIZATION, "kustomize")):
        if name := _mark(manifest, "labels", f"{group}.toolkit.fluxcd.io/name"):
            return keeper, name, _mark(manifest, "labels", f"{group}.toolkit.fluxcd.io/namespace")
    if tracked := _mark(manifest, "annotations", _TRACKING):
        return InstallTool.ARGO_CD, tracked.partition(":")[0], ""
    if name := _mark(manifest, "annotations", _HELM):
        return InstallTool.HELM, name, _mark(manifest, "annotations", _HELM_NAMESPACE)
    if name := _mark(manifest, "labels", _ARGO_LABEL):
        return InstallTool.ARGO_CD, name, ""
    return InstallTool.NOBODY, "", ""


def _mark(manifest: Manifest | None, field: str, key: str) -> str:
    """Return an object's label or annotation `key`, or an empty string. `field` is `labels` or `annotations`."""
    return str(get_path(manifest, "metadata", field, key) or "")


def namespace_of_account(user: str) -> str:
    """Return the namespace of the operator's own service account from its user name.

    Return an empty string for any other user, such as a person who runs the operator outside the cluster.
    """
    match = _ACCOUNT.fullmatch(user)
    return match[1] if match else ""
