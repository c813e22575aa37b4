"""The command `vworkspace-operator check`: each function tests one thing that the operator needs (SEE-1).

The result of a check is a `CheckFinding`, with a remedy if something is missing.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.certificates import Validity, validities
from purekube.apimachinery.conditions import conditions_by_type, conditions_of
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, Manifest, canonical_json, get_path
from purekube.apimachinery.timestamps import format_time
from vworkspace_core.api.advice import advice_for
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.installation import CREDENTIALS_SECRET, PRINTED, Installation
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.api.remedies import FLUX, account_remedy, crds_remedy, remedy, tenant_remedy, velero_is_elsewhere
from vworkspace_core.clusters.inventory import FLUX_KINDS
from vworkspace_core.credentials.secret import CredentialKey, stored_credential
from vworkspace_core.operations.contract import EngineController
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.overview.remedy import commands_in
from vworkspace_core.overview.tree import AtWork

_INSTALL: Final = "install it as docs/install.md says; check what an operator outside the cluster writes to its log"
_REGISTER: Final = (
    "have the control plane give a registration token, and run `vworkspace-operator register` as docs/install.md says"
)

ENGINE_CONTROLLERS: Final[Mapping[str, EngineController]] = {
    name: engine.controller
    for name, engine in sorted(ENGINES.items())
    if engine.controller is not None and engine.controller.install != FLUX
}
"""The controllers that only Operations need, by engine. Flux, which the engine `helm` needs, is required anyway."""

KUSTOMIZATION: Final = Kind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
"""The kind by which Flux applies files from Git. The operator itself does not need it."""

_CERTIFICATE: Final = (
    "let cert-manager renew it, or put another one into their Secret and print `manifests` with its --webhook-ca "
    "again, as docs/install.md says"
)
_MOST_NAMED: Final = 5


class CheckResult(StrEnum):
    """The verdict of one check of `vworkspace-operator check`, such as passed or failed."""

    OK = "ok"
    WARNING = "warning"
    """The operator can work, but the finding names a problem."""
    FAILED = "failed"
    """The check failed, and must be repaired."""
    OPTIONAL = "optional"
    """The checked thing is not installed, and is optional."""
    UNKNOWN = "unknown"
    """The state is unknown, for example because the user who runs the check lacks a right."""


_OK, _WARNING, _FAILED, _OPTIONAL, _UNKNOWN = CheckResult


@attrs.frozen
class CheckFinding:
    """The result of one check of `vworkspace-operator check`, with a message.

    `point` is the name of the check, such as `engine velero`. `remedy` is a command or a sentence, empty if nothing
    needs to be done.
    """

    point: str
    verdict: CheckResult
    told: str = ""
    remedy: str = ""


_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})")
_NEEDED: Final = (
    ((1, 28), "the webhooks need 1.28: install without them; the operator judges by the same rules"),
    ((1, 25), "rules of CRDs need 1.25: an object that breaks one is stored, and says ValidationFailed"),
)
"""The API server versions that features need, each with the consequence of an older version; newest first."""


def api_server(version: str) -> CheckFinding:
    """Return a finding that says whether the API server's version `version` has all features that the operator uses.

    These are features for the operator's webhooks and for the rules in its CRDs.
    """
    match = _VERSION.match(version)
    if match is None:
        return CheckFinding("API server", _UNKNOWN, f"it calls its version {version[:40]!r}")
    lacking = [told for needed, told in _NEEDED if (int(match[1]), int(match[2])) < needed]
    if not lacking:
        return CheckFinding("API server", _OK, version)
    return CheckFinding("API server", _WARNING, f"{version}: {'; '.join(lacking)}")


Definitions = Mapping[str, Manifest | None]
"""The manifests of CRDs by name. A missing CRD has None."""


def own_definitions(definitions: Definitions, installation: Installation = PRINTED) -> Iterator[CheckFinding]:
    """Yield a finding for each of the operator's own CRDs: whether it is installed in the version of this operator.

    `definitions` has the CRDs in the cluster. `installation` says how the operator was installed, on which the remedies
    depend.
    """
    for crd_manifest in crd_manifests():
        name, kind = str(crd_manifest["metadata"]["name"]), str(crd_manifest["spec"]["names"]["kind"])
        live = definitions.get(name)
        if live is None:
            yield CheckFinding(f"CRD {kind}", _FAILED, f"{name} is not installed", crds_remedy(installation))
        elif _schema(live) != _schema(crd_manifest):
            told = f"{name} is of another version than this command"
            yield CheckFinding(f"CRD {kind}", _WARNING, told, crds_remedy(installation))
        else:
            yield CheckFinding(f"CRD {kind}", _OK)


def _schema(definition: Manifest) -> bytes:
    versions = get_path(definition, "spec", "versions") or ()
    return canonical_json({str(get_path(each, "name")): get_path(each, "schema") for each in versions})


def controllers(definitions: Definitions) -> Iterator[CheckFinding]:
    """Yield a finding for Flux, and one for each engine's controller: whether it is installed.

    `definitions` has the CRDs in the cluster, which show this. A missing engine is only reported as optional, since
    only Operations that name it need it.
    """
    missing = [kind.crd_name for kind in FLUX_KINDS if not is_served(definitions, kind)]
    told = f"not installed in this cluster: {', '.join(missing)}"
    yield CheckFinding("Flux", _FAILED, told, f"install {FLUX}") if missing else _ok("Flux")
    for engine, controller in ENGINE_CONTROLLERS.items():
        kinds = (*controller.definitions, *controller.read_later)
        absent = [kind.crd_name for kind in kinds if not is_served(definitions, kind)]
        told = f"not installed, and only Operations that name it ask for it: {', '.join(absent)}"
        point = f"engine {engine}"
        yield (CheckFinding(point, _OPTIONAL, told, f"install {controller.install}") if absent else _ok(point))


def gitops(definitions: Definitions) -> CheckFinding:
    """Return a finding that says whether Flux's kustomize-controller, which applies files from Git, is installed.

    `definitions` has the CRDs in the cluster, which show this. A missing kustomize-controller is reported as optional.
    """
    point = "kustomize-controller"
    told = f"not installed, and only files that Flux applies from Git ask for it: {KUSTOMIZATION.crd_name}"
    return (
        _ok(point) if is_served(definitions, KUSTOMIZATION) else CheckFinding(point, _OPTIONAL, told, f"install {FLUX}")
    )


def is_served(definitions: Definitions, kind: Kind) -> bool:
    """Report whether `definitions`, the CRDs in the cluster, serve `kind` in the version that the operator uses."""
    versions = get_path(definitions.get(kind.crd_name), "spec", "versions") or ()
    return any(get_path(each, "name") == kind.version and get_path(each, "served") is True for each in versions)


def velero_is_absent(point: str, namespace: str) -> CheckFinding:
    """Return the finding that Velero's namespace `namespace` does not exist, for the check named `point`.

    Velero must be installed before rights in its namespace can be granted.
    """
    told, _, help_ = velero_is_elsewhere(namespace).partition(". To fix: ")
    return CheckFinding(point, _FAILED, told, help_)


def rights(
    point: str, asked: int, missing: Sequence[Right] | None, installation: Installation = PRINTED
) -> CheckFinding:
    """Return a finding that says whether the operator's account has all its rights, for the check named `point`.

    `asked` is the number of rights that were checked. `missing` has the missing rights, or is None if the rights could
    not be checked. `installation` says how the operator was installed, on which the remedy depends.
    """
    if missing is None:
        told = "you may not ask for the rights of others (create subjectaccessreviews)"
        return CheckFinding(point, _UNKNOWN, told, "ask an administrator to run this")
    if not missing:
        return CheckFinding(point, _OK, f"{asked} rights")
    named = ", ".join(str(right) for right in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return CheckFinding(point, _FAILED, f"the operator may not {named}{more}", remedy(missing[0], installation))


def accounts(namespace: str, missing: Sequence[str], installation: Installation = PRINTED) -> CheckFinding:
    """Return a finding that says whether a managed namespace has the service accounts of releases and Operations.

    `missing` has the names of the missing accounts. If there are several, the remedy creates everything that the
    namespace needs. `installation` says how the operator was installed, on which the remedy depends.
    """
    point = f"accounts in {namespace}"
    if not missing:
        return _ok(point)
    told = f"no service account {' and '.join(missing)}"
    if len(missing) > 1:
        return CheckFinding(point, _FAILED, told, tenant_remedy(namespace, missing[0], installation))
    return CheckFinding(point, _FAILED, told, account_remedy(namespace, missing[0], installation))


def managed_namespaces(namespaces: Sequence[str]) -> CheckFinding:
    """Return a finding that says whether any namespace is managed, since the operator acts in no other namespace.

    `namespaces` are the names of the managed namespaces.
    """
    if namespaces:
        return CheckFinding("namespaces", _OK, f"{len(namespaces)} open to the operator")
    told = "none is open to the operator, so it acts in none"
    return CheckFinding("namespaces", _WARNING, told, "label those it is to act in: managed-by=vworkspace")


def operator(
    deployment: Manifest | None,
    shards: Sequence[AtWork],
    namespace: str = PRINTED.namespace,
    *,
    has_heartbeat: bool = False,
) -> CheckFinding:
    """Return a finding that says whether an operator runs for every shard, which is a part of the namespaces.

    `shards` has the leader of each shard, as the operator's Leases show it. If there are no Leases, its Deployment
    shows whether it runs, or its heartbeat in the Cluster object (`has_heartbeat`). If no operator runs, the remedy is
    a command that installs it, or one that shows the Events of its Deployment and pods in `namespace`, the operator's
    own namespace.
    """
    if not shards and deployment is None and has_heartbeat:
        return CheckFinding("operator", _OK, "a replica is at work, without a Lease")
    why = f"kubectl describe deployments,replicasets,pods -n {namespace} -l app.kubernetes.io/name={FIELD_MANAGER}"
    idle = [str(each.shard) for each in shards if not each.holder]
    available = get_path(deployment, "status", "availableReplicas")
    if (shards and not idle) or (len(shards) < 2 and isinstance(available, int) and available > 0):
        told = f"{len(shards)} shards are at work" if len(shards) > 1 else "a replica is at work"
        return CheckFinding("operator", _OK, told)
    if len(shards) > 1:
        told = f"no replica works on shard {', '.join(idle)}: its namespaces wait"
        return CheckFinding("operator", _FAILED, told, why)
    if deployment is None:
        return CheckFinding("operator", _FAILED, "it is not installed, and nothing holds its Lease", _INSTALL)
    told = "it is installed, and none of its replicas is at work"
    if not shards and has_heartbeat:
        return CheckFinding("operator", _WARNING, f"{told}; another one is, without a Lease", why)
    return CheckFinding("operator", _FAILED, told, why)


def runs_an_agent(deployment: Manifest | None, cluster: Manifest | None, *, is_alive: bool) -> bool:
    """Report whether the operator runs with a job agent, the part that pulls jobs from the control plane.

    The argument `--no-agent` of its Deployment, or a condition of the Cluster object, says that it has none. `is_alive`
    says whether the operator runs now. If it does not, the condition may be outdated, and counts only if there is no
    Deployment.
    """
    containers = get_path(deployment, "spec", "template", "spec", "containers") or ()
    if any("--no-agent" in (get_path(container, "args") or ()) for container in containers):
        return False
    is_denied = any(condition.get("reason") == ClusterReason.NO_AGENT for condition in conditions_of(cluster))
    return not (is_denied and (is_alive or deployment is None))


_ABOUT_THE_CONNECTION: Final = (
    (ClusterConditionType.CONNECTED, "control plane", _FAILED),
    (ClusterConditionType.AUTHENTICATED, "token", _FAILED),
    (ClusterConditionType.CONTROLLERS_HEALTHY, "what the operator sees", _WARNING),
    (ClusterConditionType.HARDENED, "tenants", _WARNING),
)


def connection(cluster: Manifest | None) -> Iterator[CheckFinding]:
    """Yield findings about the control plane's connection and token, downstream controllers, security, clocks, and
    jobs that cannot be recorded.

    The finding about security names the settings that an administrator should restrict. All are taken from the
    conditions of `cluster`, the operator's Cluster object, which is None if it does not exist yet.
    """
    if cluster is None:
        told = "no Cluster object is there: the operator makes one when it first runs"
        yield CheckFinding("control plane", _UNKNOWN, told)
        return
    by_type = conditions_by_type(cluster)
    for type_, point, verdict in _ABOUT_THE_CONNECTION:
        if (condition := by_type.get(type_)) is not None:
            yield _of_condition(point, condition, verdict)
    if get_path(by_type.get(ClusterConditionType.CLOCK_SKEW), "status") == "True":
        message = str(get_path(by_type[ClusterConditionType.CLOCK_SKEW], "message"))
        yield CheckFinding("clocks", _FAILED, message, "set the clock of the one that is wrong")
    else:
        yield _ok("clocks")
    jobs = by_type.get(ClusterConditionType.JOBS_BLOCKED)
    if get_path(jobs, "status") == "True":
        yield _trouble("jobs", jobs, _FAILED)


def _of_condition(point: str, condition: Manifest, verdict: CheckResult) -> CheckFinding:
    reason, message = (str(get_path(condition, field) or "") for field in ("reason", "message"))
    if get_path(condition, "status") == "True" or reason == "NoAgent":
        return CheckFinding(point, _OK, message if reason == "NoAgent" else "")
    return _trouble(point, condition, verdict)


def _trouble(point: str, condition: Manifest | None, verdict: CheckResult) -> CheckFinding:
    reason, message = (str(get_path(condition, field) or "") for field in ("reason", "message"))
    advice = advice_for(CLUSTER.kind, reason)
    if advice is None:
        return CheckFinding(point, verdict, f"{reason}: {message}")
    commands = commands_in(message) if advice.names_command else ()
    return CheckFinding(point, verdict, f"{reason}: {message}", commands[0] if commands else advice.text)


def credential(secret: Manifest | None) -> CheckFinding:
    """Return a finding that says whether the Secret with the control plane's credential has all keys.

    An agent needs the keys for URL, cluster id, token and signing key. `secret` is None if the Secret does not exist.
    The values in it are not shown.
    """
    if secret is None:
        told = f"no Secret {CREDENTIALS_SECRET}: without one only `run --no-agent` does anything"
        return CheckFinding("credentials", _FAILED, told, _REGISTER)
    needed = (CredentialKey.URL, CredentialKey.CLUSTER_ID, CredentialKey.TOKEN)
    data: Any = get_path(secret, "data") or {}
    if absent := [key.value for key in needed if not data.get(key)]:
        return CheckFinding("credentials", _FAILED, f"Secret {CREDENTIALS_SECRET} lacks {', '.join(absent)}", _REGISTER)
    if data.get(CredentialKey.EXPIRES_AT) and stored_credential(secret).expires_at is None:
        told = (
            f"{CredentialKey.EXPIRES_AT} is no time such as 2026-01-31T12:00:00Z: the token expires without a renewal"
        )
        return CheckFinding("credentials", _WARNING, told)
    if not data.get(CredentialKey.SIGNING_KEY):
        told = f"Secret {CREDENTIALS_SECRET} has no {CredentialKey.SIGNING_KEY}: signatures of jobs cannot be checked"
        return CheckFinding("credentials", _WARNING, told)
    return _ok("credentials")


def webhooks(configuration: Manifest, secret: Manifest | None, now: datetime) -> CheckFinding:
    """Return a finding that says until when the API server can call the operator's webhooks.

    `configuration` is their ValidatingWebhookConfiguration, and `secret` the Secret with their certificate, None if it
    is elsewhere. Once one of their certificates has expired, every write of the operator's kinds is refused.
    """
    hooks: Any = get_path(configuration, "webhooks") or ()
    # Of several authorities one is enough, as while they are replaced.
    trusted = max((each for hook in hooks for each in _validities(hook, "clientConfig", "caBundle")), default=None)
    own = next(iter(_validities(secret, "data", "tls.crt")), None)
    ends = [(each, what) for each, what in ((own, "certificate"), (trusted, "authority")) if each is not None]
    first, what = min(ends, key=lambda end: end[0], default=(None, ""))
    if first is None:
        return CheckFinding("webhooks", _UNKNOWN, "their certificates cannot be read")
    until = first.expires
    told = f"their {what} {'expired' if until <= now else 'expires'} at {format_time(until)}"
    if until <= now:
        told += ": writes of ApplicationInstances and Operations are refused"
        return CheckFinding("webhooks", _FAILED, told, _CERTIFICATE)
    if first.overdue <= now:
        return CheckFinding("webhooks", _WARNING, told, _CERTIFICATE)
    return CheckFinding("webhooks", _OK, told)


def _validities(manifest: Manifest | None, *path: str) -> tuple[Validity, ...]:
    """Return the validity of the certificates in the field at `path`, PEM in base64."""
    try:
        return validities(b64decode(str(get_path(manifest, *path) or "")))
    except ValueError:
        return ()


def may_install(missing: Sequence[Right]) -> CheckFinding:
    """Return a finding that says, before an installation, whether the user may create every object that it installs.

    `missing` has the rights that the user lacks.
    """
    if not missing:
        return _ok("your rights")
    named = ", ".join(map(str, missing[:_MOST_NAMED]))
    return CheckFinding("your rights", _FAILED, f"you may not {named}", "use the kubeconfig of an administrator")


def _ok(point: str) -> CheckFinding:
    return CheckFinding(point, _OK)
