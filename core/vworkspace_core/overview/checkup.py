"""Whether everything is there that the operator needs, point by point, each with what to do (SEE-1, U8)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs

from vworkspace_core.api.advice import advice_for
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.installation import CREDENTIALS_SECRET, PRINTED, Installation
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.reasons import ClusterConditionType
from vworkspace_core.api.remedies import account_remedy, crds_remedy, installing, remedy, velero_is_elsewhere
from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.errors import Right
from vworkspace_core.apimachinery.manifest import Kind, Manifest, canonical_json, get_path
from vworkspace_core.apimachinery.resources import CLUSTER
from vworkspace_core.clusters.controllers import ENGINE_KINDS, FLUX_KINDS
from vworkspace_core.credentials.secret import CredentialKey
from vworkspace_core.overview.remedy import commands_in
from vworkspace_core.overview.replicas import AtWork

_INSTALL: Final = "install it as docs/install.md says; check what an operator outside the cluster writes to its log"
_REGISTER: Final = (
    "have the control plane give a registration token, and run `vworkspace-operator register` as docs/install.md says"
)

_BESIDE: Final = {"snapshot": (known.VOLUME_SNAPSHOT_CLASS, known.VOLUME_SNAPSHOT_CONTENT)}
"""Kinds that an engine reads once in a while, and watches none of."""
ENGINES: Final[Mapping[str, tuple[Kind, ...]]] = {
    name: (*kinds, *_BESIDE.get(name, ())) for name, kinds in ENGINE_KINDS.items() if kinds and name != "helm"
}
"""Kinds that an Operation needs only when it names the engine; that of Helm is Flux, which has to be there anyway."""

_MOST_NAMED: Final = 5


class Verdict(StrEnum):
    """How one point came out."""

    OK = "ok"
    WARNING = "warning"
    """It works, but for what is named."""
    FAILED = "failed"
    """It does not work until that is mended."""
    OPTIONAL = "optional"
    """It is not there, and only who asks for it misses it."""
    UNKNOWN = "unknown"
    """Whoever asks may not see it."""


@attrs.frozen
class Finding:
    """One point. `remedy` is a command or a sentence, empty where nothing is to be done."""

    point: str
    verdict: Verdict
    told: str = ""
    remedy: str = ""


_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})")
_NEEDED: Final = (
    ((1, 28), "the webhooks need 1.28: install without them; the operator judges by the same rules"),
    ((1, 25), "rules of CRDs need 1.25: an object that breaks one is stored, and says ValidationFailed"),
)
"""What an older API server lacks; the oldest that is named says most, and comes last."""


def api_server(version: str) -> Finding:
    """Whether it is new enough for everything that is installed."""
    match = _VERSION.match(version)
    if match is None:
        return Finding("API server", Verdict.UNKNOWN, f"it calls its version {version[:40]!r}")
    lacking = [told for needed, told in _NEEDED if (int(match[1]), int(match[2])) < needed]
    if not lacking:
        return Finding("API server", Verdict.OK, version)
    return Finding("API server", Verdict.WARNING, f"{version}: {'; '.join(lacking)}")


Definitions = Mapping[str, Manifest | None]
"""CRDs by name; None for one that is not there."""


def own_definitions(found: Definitions, installation: Installation = PRINTED) -> Iterator[Finding]:
    """Whether our CRDs are there, and are those of this version."""
    for wanted in crd_manifests():
        name, kind = str(wanted["metadata"]["name"]), str(wanted["spec"]["names"]["kind"])
        live = found.get(name)
        if live is None:
            yield Finding(f"CRD {kind}", Verdict.FAILED, f"{name} is not installed", crds_remedy(installation))
        elif _schema(live) != _schema(wanted):
            told = f"{name} is of another version than this command"
            yield Finding(f"CRD {kind}", Verdict.WARNING, told, crds_remedy(installation))
        else:
            yield Finding(f"CRD {kind}", Verdict.OK)


def _schema(definition: Manifest) -> bytes:
    versions = get_path(definition, "spec", "versions") or ()
    return canonical_json({str(get_path(each, "name")): get_path(each, "schema") for each in versions})


def controllers(found: Definitions) -> Iterator[Finding]:
    """Flux has to be there; an engine is needed only by Operations that name it."""
    missing = [kind.crd_name for kind in FLUX_KINDS if not is_served(found, kind)]
    told = f"not installed in this cluster: {', '.join(missing)}"
    yield Finding("Flux", Verdict.FAILED, told, installing(missing)) if missing else _ok("Flux")
    for engine, kinds in ENGINES.items():
        absent = [kind.crd_name for kind in kinds if not is_served(found, kind)]
        told = f"not installed, and only Operations that name it ask for it: {', '.join(absent)}"
        point = f"engine {engine}"
        yield Finding(point, Verdict.OPTIONAL, told, installing(absent)) if absent else _ok(point)


def is_served(found: Definitions, kind: Kind) -> bool:
    """Whether the definition is there and serves the version that we use."""
    versions = get_path(found.get(kind.crd_name), "spec", "versions") or ()
    return any(get_path(each, "name") == kind.version and get_path(each, "served") is True for each in versions)


def velero_is_absent(point: str, namespace: str) -> Finding:
    """Velero comes before the rights in its namespace, which is not there."""
    told, _, help_ = velero_is_elsewhere(namespace).partition(". To fix: ")
    return Finding(point, Verdict.FAILED, told, help_)


def rights(point: str, asked: int, missing: Sequence[Right] | None, installation: Installation = PRINTED) -> Finding:
    """Whether the operator's account may do what is printed; None: whoever asks may not ask that."""
    if missing is None:
        told = "you may not ask for the rights of others (create subjectaccessreviews)"
        return Finding(point, Verdict.UNKNOWN, told, "ask an administrator to run this")
    if not missing:
        return Finding(point, Verdict.OK, f"{asked} rights")
    named = ", ".join(str(right) for right in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return Finding(point, Verdict.FAILED, f"the operator may not {named}{more}", remedy(missing[0], installation))


def accounts(namespace: str, missing: Sequence[str], installation: Installation = PRINTED) -> Finding:
    """Whether a gated namespace has the accounts that releases and Operations run as."""
    point = f"accounts in {namespace}"
    if not missing:
        return _ok(point)
    told = f"no service account {' and '.join(missing)}"
    return Finding(point, Verdict.FAILED, told, account_remedy(namespace, missing[0], installation))


def gate(namespaces: Sequence[str]) -> Finding:
    """Whether any namespace is open to the operator."""
    if namespaces:
        return Finding("namespaces", Verdict.OK, f"{len(namespaces)} open to the operator")
    told = "none is open to the operator, so it acts in none"
    return Finding("namespaces", Verdict.WARNING, told, "label those it is to act in: managed-by=vworkspace")


def operator(
    deployment: Manifest | None,
    shards: Sequence[AtWork],
    namespace: str = PRINTED.namespace,
    *,
    has_heartbeat: bool = False,
) -> Finding:
    """Whether an operator runs on every shard, as the Leases tell; without one, as its Deployment does.

    What was not installed here and takes no Lease shows by its heartbeat. Where none runs there may be no pod that has
    a log: why there is none, its Events and its Deployment's tell.
    """
    if not shards and deployment is None and has_heartbeat:
        return Finding("operator", Verdict.OK, "a replica is at work, without a Lease")
    why = f"kubectl describe deployments,replicasets,pods -n {namespace} -l app.kubernetes.io/name={FIELD_MANAGER}"
    idle = [str(each.shard) for each in shards if not each.holder]
    available = get_path(deployment, "status", "availableReplicas") or 0
    if (shards and not idle) or (len(shards) < 2 and isinstance(available, int) and available > 0):
        told = f"{len(shards)} shards are at work" if len(shards) > 1 else "a replica is at work"
        return Finding("operator", Verdict.OK, told)
    if len(shards) > 1:
        told = f"no replica works on shard {', '.join(idle)}: its namespaces wait"
        return Finding("operator", Verdict.FAILED, told, why)
    if deployment is None:
        return Finding("operator", Verdict.FAILED, "it is not installed, and nothing holds its Lease", _INSTALL)
    told = "it is installed, and none of its replicas is at work"
    return Finding("operator", Verdict.FAILED, told, why)


_ABOUT_THE_CONNECTION: Final = (
    (ClusterConditionType.CONNECTED, "control plane", Verdict.FAILED),
    (ClusterConditionType.AUTHENTICATED, "token", Verdict.FAILED),
    (ClusterConditionType.CONTROLLERS_HEALTHY, "what the operator sees", Verdict.WARNING),
    (ClusterConditionType.HARDENED, "tenants", Verdict.WARNING),
)


def connection(cluster: Manifest | None) -> Iterator[Finding]:
    """What the operator itself told of the control plane, its token and the clocks."""
    if cluster is None:
        told = "no Cluster object is there: the operator makes one when it first runs"
        yield Finding("control plane", Verdict.UNKNOWN, told)
        return
    by_type = {str(get_path(each, "type")): each for each in get_path(cluster, "status", "conditions") or ()}
    for type_, point, verdict in _ABOUT_THE_CONNECTION:
        if (condition := by_type.get(type_)) is not None:
            yield _of_condition(point, condition, verdict)
    if get_path(by_type.get(ClusterConditionType.CLOCK_SKEW), "status") == "True":
        message = str(get_path(by_type[ClusterConditionType.CLOCK_SKEW], "message"))
        yield Finding("clocks", Verdict.FAILED, message, "set the clock of the one that is wrong")
    else:
        yield _ok("clocks")


def _of_condition(point: str, condition: Manifest, verdict: Verdict) -> Finding:
    reason, message = (str(get_path(condition, field) or "") for field in ("reason", "message"))
    if get_path(condition, "status") == "True" or reason == "NoAgent":
        return Finding(point, Verdict.OK, message if reason == "NoAgent" else "")
    advice = advice_for(CLUSTER.kind, reason)
    if advice is None:
        return Finding(point, verdict, f"{reason}: {message}")
    commands = commands_in(message) if advice.names_command else ()
    return Finding(point, verdict, f"{reason}: {message}", commands[0] if commands else advice.text)


def credential(secret: Manifest | None) -> Finding:
    """Whether the Secret of the control plane's credential has what it needs; nothing of it is shown."""
    if secret is None:
        told = f"no Secret {CREDENTIALS_SECRET}: without one only `run --no-agent` does anything"
        return Finding("credentials", Verdict.FAILED, told, _REGISTER)
    needed = (CredentialKey.URL, CredentialKey.CLUSTER_ID, CredentialKey.TOKEN)
    data: Any = get_path(secret, "data") or {}
    if absent := [key.value for key in needed if not data.get(key)]:
        return Finding(
            "credentials", Verdict.FAILED, f"Secret {CREDENTIALS_SECRET} lacks {', '.join(absent)}", _REGISTER
        )
    if not data.get(CredentialKey.SIGNING_KEY):
        told = f"Secret {CREDENTIALS_SECRET} has no {CredentialKey.SIGNING_KEY}: signatures of jobs cannot be checked"
        return Finding("credentials", Verdict.WARNING, told)
    return _ok("credentials")


def may_install(missing: Sequence[Right]) -> Finding:
    """Before installing: whether whoever asks may create what is to be installed."""
    if not missing:
        return _ok("your rights")
    named = ", ".join(map(str, missing[:_MOST_NAMED]))
    return Finding("your rights", Verdict.FAILED, f"you may not {named}", "use the kubeconfig of an administrator")


def _ok(point: str) -> Finding:
    return Finding(point, Verdict.OK)
