"""The way in which the operator came into a cluster: it decides how a missing right can be given without damage."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.apimachinery.manifest import Manifest, get_path

CREDENTIALS_SECRET: Final = "vworkspace-agent-credentials"
"""The Secret in the operator's namespace with everything that it shares with others."""
APPROVAL_KEY: Final = "approval-secret"
"""The key of that Secret which approvals are checked with."""
_ACCOUNT: Final = re.compile(rf"system:serviceaccount:([^:]+):{re.escape(FIELD_MANAGER)}")
_HELM: Final = "meta.helm.sh/release-name"
_HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_TRACKING: Final = "argocd.argoproj.io/tracking-id"
_ARGO_LABELS: Final = ("argocd.argoproj.io/instance", "app.kubernetes.io/instance")


class Keeper(StrEnum):
    """The tool that keeps the operator's own objects: it refuses, or undoes, what another one writes to them."""

    NOBODY = ""
    """They were printed and applied; whoever applies them again replaces them."""
    HELM = "Helm release"
    FLUX_HELM_RELEASE = "HelmRelease"
    FLUX_KUSTOMIZATION = "Kustomization"
    ARGO_CD = "Application of Argo CD"


@attrs.frozen
class Installation:
    """One installation of the operator. `name` is what keeps it, `place` the namespace of that.

    Without an `agent` its roles hold fewer rights.
    """

    namespace: str = "vworkspace-system"
    agent: bool = True
    keeper: Keeper = Keeper.NOBODY
    name: str = ""
    place: str = ""

    @property
    def kept_by(self) -> str:
        """The keeper, for people."""
        return f"the {self.keeper} {self.place}/{self.name}" if self.place else f"the {self.keeper} {self.name}"


PRINTED: Final = Installation()
"""One that nothing else is known of: printed, and applied as it was."""


def installation_of(account: Manifest | None, namespace: str, *, agent: bool) -> Installation:
    """Return the installation that the operator's own service account tells of; None where it cannot be seen."""
    labels, annotations = (get_path(account, "metadata", field) or {} for field in ("labels", "annotations"))
    keeper, name, place = _keeper(labels, annotations)
    return Installation(namespace, agent, keeper, name, place)


def _keeper(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> tuple[Keeper, str, str]:
    """The outermost tool first: what Helm installed for Flux is changed in Git."""
    for keeper, group in ((Keeper.FLUX_HELM_RELEASE, "helm"), (Keeper.FLUX_KUSTOMIZATION, "kustomize")):
        if name := labels.get(f"{group}.toolkit.fluxcd.io/name"):
            return keeper, str(name), str(labels.get(f"{group}.toolkit.fluxcd.io/namespace") or "")
    if tracked := annotations.get(_TRACKING):
        return Keeper.ARGO_CD, str(tracked).partition(":")[0], ""
    if name := annotations.get(_HELM):
        return Keeper.HELM, str(name), str(annotations.get(_HELM_NAMESPACE) or "")
    if name := next((labels[label] for label in _ARGO_LABELS if labels.get(label)), None):
        return Keeper.ARGO_CD, str(name), ""
    return Keeper.NOBODY, "", ""


def namespace_of_account(user: str) -> str:
    """Return the namespace of the operator's own service account; empty for any other user, as one outside the cluster
    is."""
    match = _ACCOUNT.fullmatch(user)
    return match[1] if match else ""
