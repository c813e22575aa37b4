"""The remedies that the operator advises, as sentences to read and commands to paste.

The order of advice is: what has to be installed, then rights, then credentials. A command changes only what it names: a
command that grants a right creates roles, never workloads. If a tool such as Helm or Argo CD manages the operator's
objects, the advice is the change to make in that tool. The module `advice` says who can help where no command does.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, assert_never

import attrs

from purekube.apimachinery.errors import Right, first_refusal
from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import CORE_EVENT, EVENT, POD, SECRET, VELERO_BACKUP
from purekube.controller.decision import Failure
from purekube.controller.managed_fields import kubectl_name
from vworkspace_core.api.installation import (
    APPROVAL_KEY,
    CREDENTIALS_SECRET,
    PRINTED,
    RELEASE_ACCOUNT,
    Installation,
    InstallTool,
    namespace_of_account,
)
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.api.labels import CAPABILITY_PREFIX, CLUSTER_ID, NAMESPACE_GATE, NAMESPACE_GATE_VALUE

APPLY: Final = "| kubectl apply --server-side -f -"
INSTALL_CRDS: Final = f"vworkspace-operator manifests --crds-only {APPLY}"
FLUX: Final = "Flux (https://fluxcd.io/flux/installation)"
"""The name of Flux and the address of its installation guide, for messages that advise to install it.

They name no command, since each project is installed in its own way.
"""


# --- namespaces, objects -------------------------------------------------------------------------------------------


def manage_namespace_command(namespace: str, live: Manifest | None) -> str:
    """Return the command that labels a namespace as managed by the operator (RES-5). `live` is its manifest.

    If the label has another value, kubectl refuses to change it without the option `--overwrite`.
    """
    overwrite = " --overwrite" if get_path(live, "metadata", "labels", NAMESPACE_GATE) is not None else ""
    return f"kubectl label namespace {namespace} {NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}{overwrite}"


def open_namespace_remedy(namespace: str, live: Manifest | None, installation: Installation) -> str:
    """Return how to label a namespace as managed and to create the roles and accounts that the operator needs there
    (RES-5). `live` is the manifest of the namespace.
    """
    label, needed = manage_namespace_command(namespace, live), tenant_remedy(namespace, RELEASE_ACCOUNT, installation)
    return f"{label} && {needed}" if installation.keeper is InstallTool.NOBODY else f"{label}. Then, {needed}"


def cluster_command(ref: ObjectRef, cluster_id: str) -> str:
    """Return the command that labels an object as belonging to the cluster `cluster_id` (RES-5)."""
    return f"kubectl label {kubectl_name(ref)} {CLUSTER_ID}={bounded_name(cluster_id)} --overwrite"


def capability_command(target: str, namespace: str, capability: str, engine: str) -> str:
    """Return the command that records which engine provides a capability of an application (RES-5).

    `target` is the name of the ApplicationInstance, `capability` a word such as `backup`, `engine` one such as
    `velero`.
    """
    return f"kubectl annotate appinst {target} -n {namespace} {CAPABILITY_PREFIX}{capability}={engine} --overwrite"


def resume_command(ref: ObjectRef) -> str:
    """Return the command that resumes a Flux object that a person suspended.

    It removes `spec.suspend`, so that no field manager owns the field afterwards.
    """
    return merge_command(ref, {"spec": {"suspend": None}})


def merge_command(ref: ObjectRef, patch: Mapping[str, object]) -> str:
    """Return the command that applies a merge patch to an object."""
    return f"kubectl patch {kubectl_name(ref)} --type=merge -p {shlex.quote(canonical_json(patch).decode())}"


# --- what has to be installed ----------------------------------------------------------------------------------------


def not_installed(definitions: Iterable[str], project: str = FLUX) -> str:
    """Return a message that names the missing CRDs (`definitions`) and the project that provides them (REC-12).

    With an empty `project` the message does not say what to install.
    """
    fix = f". To fix, as an administrator of the cluster: install {project}" if project else ""
    return f"not installed in this cluster: {', '.join(definitions)}{fix}"


INTO_GIT: Final = re.compile(r"in your GitOps repository, [^:,]+, add what this prints:")
"""The pattern of the words before a command that only prints manifests.

They name the GitOps repository to which the output must be added; without that step the command solves nothing.
"""


def _into_git(command: str, installation: Installation) -> str:
    return f"in your GitOps repository, {installation.managed_by}, add what this prints: {command}"


def crds_remedy(installation: Installation = PRINTED) -> str:
    """Return how to install the operator's own CRDs: a command, or a change in the tool that manages the operator."""
    match installation.keeper:
        case InstallTool.NOBODY:
            return INSTALL_CRDS
        case InstallTool.HELM | InstallTool.FLUX_HELM_RELEASE:
            return f"upgrade {installation.managed_by}; its value crds.install is not to be false"
        case InstallTool.FLUX_KUSTOMIZATION | InstallTool.ARGO_CD:
            return _into_git(INSTALL_CRDS.removesuffix(f" {APPLY}"), installation)
        case _:
            assert_never(installation.keeper)


def velero_is_elsewhere(namespace: str) -> str:
    """Return the message that `namespace`, in which the operator looks for Velero, does not exist.

    It advises no command that creates a Role, since the Role would be in the missing namespace.
    """
    return (
        f"there is no namespace {namespace}, where the operator looks for Velero. To fix: an administrator installs "
        "Velero there, or sets the operator's velero-namespace to the namespace that Velero is in"
    )


# --- rights ----------------------------------------------------------------------------------------------------------


class _Scope(Enum):
    """The part of the operator's RBAC roles, as the command `manifests` prints them, to which a right belongs."""

    OPERATOR = "operator"
    TENANT = "tenant"
    VELERO = "velero"
    PAGE = "page"


_CHANGES: Final = ("create", "patch", "delete")
"""The verbs of the Role in each managed namespace. Verbs that read are granted in the whole cluster instead."""
_OWN: Final = tuple((kind.group, kind.plural) for kind in OWN_KINDS)
_EVENTS: Final = (EVENT.group, EVENT.plural)
_SECRETS: Final = (SECRET.group, SECRET.plural)
_LISTED_THERE: Final = tuple((kind.group, kind.plural) for kind in (POD, CORE_EVENT))
_REVIEWS: Final = ("authentication.k8s.io", "authorization.k8s.io")


def _scope(right: Right, system: str) -> _Scope:
    """Return the part of the operator's printed RBAC roles to which `right` belongs.

    `system` is the operator's own namespace. The part TENANT is printed for each managed namespace, VELERO for Velero's
    namespace, and every other part once.
    """
    where = (right.group, right.resource)
    if right.group in _REVIEWS:
        return _Scope.PAGE
    if not right.namespace or right.namespace == system or "/" in right.resource or where == _EVENTS:
        return _Scope.OPERATOR
    if right.group == VELERO_BACKUP.group:
        return _Scope.VELERO if right.verb in (*_CHANGES, "get") else _Scope.OPERATOR
    by_finalizer = where in _OWN and right.verb == "patch"
    if where in _LISTED_THERE and right.verb == "list":
        return _Scope.TENANT
    changes = right.verb in _CHANGES and where != _SECRETS and not by_finalizer
    reads_records = where == _SECRETS and right.verb in ("get", "list")
    return _Scope.TENANT if changes or reads_records else _Scope.OPERATOR


def remedy(right: Right, installation: Installation = PRINTED) -> str:
    """Return how to grant the operator a right: a command, or a change in the tool that manages the roles."""
    own = namespace_of_account(right.user)
    installation = attrs.evolve(installation, namespace=own or installation.namespace)
    if right.user and not own:  # the kubeconfig of a person, outside the cluster: no tool manages its roles
        return f"{_roles(right, installation, right.user)} {APPLY}"
    match installation.keeper:
        case InstallTool.NOBODY:
            return f"{_roles(right, installation)} {APPLY}"
        case InstallTool.HELM:
            return f"in the values of {installation.managed_by}, {_value(right, installation)}"
        case InstallTool.FLUX_HELM_RELEASE:
            return (
                f"in your GitOps repository, in the values of {installation.managed_by}, {_value(right, installation)}"
            )
        case InstallTool.FLUX_KUSTOMIZATION | InstallTool.ARGO_CD:
            return _into_git(_roles(right, installation), installation)
        case _:
            assert_never(installation.keeper)


def _roles(right: Right, installation: Installation, user: str = "") -> str:
    """Return the command that prints only those of the operator's RBAC roles that contain `right`.

    The roles are bound to `user`, or to the operator's account if `user` is empty.
    """
    words = ["vworkspace-operator manifests --rbac-only"]
    match _scope(right, installation.namespace):
        case _Scope.TENANT:
            words.append(f"--namespace {right.namespace}")
        case _Scope.VELERO:
            words.append(f"--velero-namespace {right.namespace}")
        case _Scope.PAGE:
            words.append("--setting page=token-review")
        case _Scope.OPERATOR:
            pass
    if installation.namespace != PRINTED.namespace:
        words.append(f"--system-namespace {installation.namespace}")
    if not installation.agent:
        words.append("--no-agent")
    if user:
        words.append(f"--user {shlex.quote(user)}")
    return " ".join(words)


def _value(right: Right, installation: Installation) -> str:
    """Return, as part of a message, the change of the Helm chart's values that adds `right` to the operator's roles."""
    match scope := _scope(right, installation.namespace):
        case _Scope.TENANT:
            return f"add {{namespace: {right.namespace}}} to tenants"
        case _Scope.VELERO:
            return f"set veleroNamespace: {right.namespace}"
        case _Scope.PAGE:
            return "set settings.page: token-review"
        case _Scope.OPERATOR:
            return "nothing is missing: upgrade it to the chart of the operator's version, which brings the roles back"
        case _:
            assert_never(scope)


def not_permitted(right: Right, installation: Installation = PRINTED) -> str:
    """Return the message about a missing right, with the command or change that grants it."""
    return f"the operator may not {right}. To fix: {remedy(right, installation)}"


def account_remedy(namespace: str, account: str, installation: Installation = PRINTED) -> str:
    """Return how to create the missing service account `account` of a managed namespace, as text for a message.

    It is a command, or a change in the tool that manages the operator. Releases or Operations run as this account.
    """
    printed = f"vworkspace-operator manifests --rbac-only --namespace {namespace} --account {account}"
    return _of_tenant(namespace, printed, installation)


def tenant_remedy(namespace: str, account: str, installation: Installation = PRINTED) -> str:
    """Return how to create the operator's Role and the accounts of releases and Operations in a namespace.

    It is a command, or a change in the tool that manages the operator (see `installation`). `account` is the service
    account as which releases are installed.
    """
    words = [f"vworkspace-operator manifests --namespace {namespace}"]
    if installation.namespace != PRINTED.namespace:
        words.append(f"--system-namespace {installation.namespace}")
    if not installation.agent:
        words.append("--no-agent")
    if account != RELEASE_ACCOUNT:
        words.append(f"--release-account {account}")
    return _of_tenant(namespace, " ".join(words), installation)


def _of_tenant(namespace: str, printed: str, installation: Installation) -> str:
    """Return, as words for a message, how to create the objects that a managed namespace lacks.

    `printed` is the command line that prints these objects.
    """
    match installation.keeper:
        case InstallTool.NOBODY:
            return f"{printed} {APPLY}"
        case InstallTool.HELM | InstallTool.FLUX_HELM_RELEASE:
            where = f"in the values of {installation.managed_by}"
            return f"{where}, add {{namespace: {namespace}}} to tenants, or upgrade it where that is there"
        case InstallTool.FLUX_KUSTOMIZATION | InstallTool.ARGO_CD:
            return _into_git(printed, installation)
        case _:
            assert_never(installation.keeper)


def missing_right_of(failures: Iterable[Failure], installation: Installation = PRINTED) -> str:
    """Return the message about the missing right that caused one of `failures`, or an empty string if none did.

    The message says how to grant the right, which depends on `installation`.
    """
    error = first_refusal(failure.error for failure in failures)
    return not_permitted(error.right, installation) if error is not None and error.right is not None else ""


def approve_command(ref: ObjectRef, installation: Installation = PRINTED) -> str:
    """Return the command by which an authorized person approves the Operation `ref`.

    The command names the operator's namespace, which is in `installation`, if it is not the default.
    """
    place = "" if installation.namespace == PRINTED.namespace else f" --system-namespace {installation.namespace}"
    return f"vworkspace-operator approve op/{ref.name} -n {ref.namespace}{place}"


# --- credentials -----------------------------------------------------------------------------------------------------


def approval_remedy(installation: Installation) -> str:
    """Return how to add the key by which approvals are verified to the operator's credentials Secret (OPS-4).

    Without an agent, the result is a command. With one, it is the advice that the people who run the control plane add
    the key.
    """
    name, namespace = CREDENTIALS_SECRET, installation.namespace
    if installation.agent:
        return f"the people who run the control plane give the Secret {namespace}/{name} the key {APPROVAL_KEY}"
    return (
        f"openssl rand -hex 32 | kubectl create secret generic {name} -n {namespace} "
        f"--from-file={APPROVAL_KEY}=/dev/stdin --dry-run=client -o json {APPLY}"
    )
