"""What mends an obstacle that only an administrator can take away, as commands and names to paste (U8)."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from vworkspace_core.api.labels import CAPABILITY_PREFIX, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.apimachinery.errors import OperatorError, Right, first_refusal
from vworkspace_core.apimachinery.resources import CORE_EVENT, EVENT, OWN_KINDS, POD, SECRET, VELERO_BACKUP

_BY_GROUP: Final = (
    ("toolkit.fluxcd.io", "Flux (flux install)"),
    ("velero.io", "Velero (velero install)"),
    ("argoproj.io", "Argo Workflows"),
    ("volsync.backube", "VolSync"),
    ("snapshot.storage.k8s.io", "the CSI snapshot controller with its CRDs"),
)


def gate_command(namespace: str) -> str:
    """How a namespace is given to the operator (RES-5)."""
    return f"kubectl label namespace {namespace} {NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}"


def capability_command(target: str, namespace: str, capability: str, engine: str) -> str:
    """How an application says which engine it is prepared for (RES-5)."""
    return f"kubectl annotate appinst {target} -n {namespace} {CAPABILITY_PREFIX}{capability}={engine} --overwrite"


def not_installed(definitions: Iterable[str]) -> str:
    """Which CRDs are missing, and what brings them; it goes on by itself once they are there (REC-12)."""
    missing = list(definitions)
    cure = installing(missing)
    return f"not installed in this cluster: {', '.join(missing)}" + (f": {cure}" if cure else "")


def installing(definitions: Sequence[str]) -> str:
    """What brings CRDs that are missing; empty where we do not know."""
    brought = [name for group, name in _BY_GROUP if any(definition.endswith(group) for definition in definitions)]
    return f"install {' and '.join(brought)}" if brought else ""


_APPLY: Final = "| kubectl apply --server-side -f -"
_CHANGES: Final = ("create", "patch", "delete")
"""What Roles of a gated namespace are about; looking is granted in the whole cluster."""
_OWN: Final = tuple((kind.group, kind.plural) for kind in OWN_KINDS)
_EVENTS: Final = (EVENT.group, EVENT.plural)
_SECRETS: Final = (SECRET.group, SECRET.plural)
_LISTED_THERE: Final = tuple((kind.group, kind.plural) for kind in (POD, CORE_EVENT))


def remedy(right: Right) -> str:
    """The command that gives the operator the right, if anything that `manifests` prints does."""
    return f"vworkspace-operator manifests{_option(right)} {_APPLY}"


def _option(right: Right) -> str:
    """A Role is printed for each gated namespace and for Velero's, everything else once."""
    where = (right.group, right.resource)
    if not right.namespace or "/" in right.resource or where == _EVENTS:
        return ""
    if right.group == VELERO_BACKUP.group:
        return f" --velero-namespace {right.namespace}" if right.verb in (*_CHANGES, "get") else ""
    by_finalizer = where in _OWN and right.verb == "patch"
    if where in _LISTED_THERE and right.verb == "list":
        return f" --namespace {right.namespace}"
    changes = right.verb in _CHANGES and where != _SECRETS and not by_finalizer
    return f" --namespace {right.namespace}" if changes or (where == _SECRETS and right.verb == "get") else ""


def not_permitted(right: Right) -> str:
    """For people: what the operator may not do, and what gives it the right."""
    return f"the operator may not {right}. Give it the role: {remedy(right)}"


class Failed(Protocol):
    """A write that was refused."""

    @property
    def error(self) -> OperatorError:
        """Why."""
        ...


def refusal_told(failures: Iterable[Failed]) -> str:
    """What to say of the right that is missing; empty where none is."""
    error = first_refusal(failure.error for failure in failures)
    return not_permitted(error.right) if error is not None and error.right is not None else ""
