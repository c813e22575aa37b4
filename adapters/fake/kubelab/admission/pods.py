"""The admission of new pods by other objects: LimitRanges, and their PriorityClass, RuntimeClass and ServiceAccount.

These are admission plugins of kube-apiserver, which see a pod after its defaults and before its validation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kubelab.admission.limit_ranges import LimitRanges
from kubelab.model.failure import ApiFailure, forbidden
from kubelab.model.records import GroupResource
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import Manifest

PODS: Final[GroupResource] = ("", "pods")
_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")
_RUNTIMES: Final = ("node.k8s.io", "runtimeclasses")
ACCOUNTS: Final[GroupResource] = ("", "serviceaccounts")
# kubernetes: apis/scheduling/v1/helpers.go: every kube-apiserver creates these two.
_SYSTEM_CLASSES: Final = {
    name: {"metadata": {"name": name}, "value": value}
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
}
_DEFAULT_CLASS: Final = {"value": 0}
_MIRROR: Final = "kubernetes.io/config.mirror"
_VOLUME: Final = "kube-api-access-"
_PLACE: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

Fields = Mapping[str, Any]


class PodAdmission:
    """The part of the in-memory API server that completes new pods from other objects, or refuses them.

    With `accounts`, a pod without a service account gets the account `default`, and its containers a token of the
    account, as by the plugin ServiceAccount. `name` returns a new name that begins with its argument.
    """

    def __init__(self, store: Store, name: Callable[[str], str], *, accounts: bool) -> None:
        self._store = store
        self._limits = LimitRanges(store)
        self._name = name
        self._accounts = accounts

    def admit(self, pod: Manifest) -> Manifest:
        """Return a new pod with what LimitRanges, its classes and its account add.

        Raises ApiFailure 403 if a class or the account is not there.
        """
        pod = self._limits.complete(pod)
        spec = dict(pod["spec"])
        self._check_runtime(pod, spec)
        if self._accounts and _MIRROR not in (pod["metadata"].get("annotations") or {}):
            spec = self._with_account(pod, spec)
        return {**pod, "spec": self._with_priority(pod, spec)}

    def _check_runtime(self, pod: Manifest, spec: Fields) -> None:
        runtime, overhead = spec.get("runtimeClassName"), None
        if runtime:
            record = self._store.get(_RUNTIMES, ("", runtime))
            if record is None:
                raise _refused(pod, f'pod rejected: RuntimeClass "{runtime}" not found')
            overhead = record.shared().get("overhead")
        if spec.get("overhead") and not overhead:
            raise _refused(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

    # --- priority ----------------------------------------------------------------------------------------------------

    def _with_priority(self, pod: Manifest, spec: dict[str, Any]) -> dict[str, Any]:
        # kubernetes: plugin/pkg/admission/priority/admission.go, admitPod.
        found = self._class(pod, spec.get("priorityClassName"))
        priority, policy = found["value"], found.get("preemptionPolicy", "PreemptLowerPriority")
        computed = "must not be provided in pod spec; priority admission controller computed"
        if (given := spec.get("priority")) not in (None, priority):
            why = f"the integer value of priority ({given}) {computed} {priority} from the given PriorityClass name"
            raise _refused(pod, why)
        if (given := spec.get("preemptionPolicy")) not in (None, policy):
            why = (
                f"the string value of PreemptionPolicy ({given}) {computed} {policy} from the given PriorityClass name"
            )
            raise _refused(pod, why)
        named = {"priorityClassName": found["metadata"]["name"]} if "metadata" in found else {}
        return {**spec, **named, "priority": priority, "preemptionPolicy": policy}

    def _class(self, pod: Manifest, name: str | None) -> Fields:
        """Return the PriorityClass with this name or, without one, the global default."""
        if not name:
            classes = [record.shared() for record in self._store.scan(_CLASSES)]
            defaults = [each for each in classes if each.get("globalDefault")]
            return min(defaults, key=lambda each: int(each["value"])) if defaults else _DEFAULT_CLASS
        record = self._store.get(_CLASSES, ("", name))
        found = _SYSTEM_CLASSES.get(name) if record is None else record.shared()
        if found is None:
            raise _refused(pod, f"no PriorityClass with name {name} was found")
        return found

    # --- the service account -----------------------------------------------------------------------------------------

    def _with_account(self, pod: Manifest, spec: dict[str, Any]) -> dict[str, Any]:
        # kubernetes: plugin/pkg/admission/serviceaccount/admission.go, Admit.
        name, namespace = spec.get("serviceAccountName") or "default", pod["metadata"].get("namespace", "")
        record = self._store.get(ACCOUNTS, (namespace, name))
        if record is None:
            missing = f'serviceaccount "{name}" not found'
            raise _refused(pod, f"error looking up service account {namespace}/{name}: {missing}")
        account = record.shared()
        out = {**spec, "serviceAccountName": name, "serviceAccount": name}
        mounts = next(
            (
                each["automountServiceAccountToken"]
                for each in (spec, account)
                if each.get("automountServiceAccountToken") is not None
            ),
            True,
        )
        if mounts:
            out = self._with_token(out)
        if not out.get("imagePullSecrets") and account.get("imagePullSecrets"):
            out["imagePullSecrets"] = list(account["imagePullSecrets"])
        return out

    def _with_token(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a pod's spec whose containers have the token of its account at the usual place."""
        volumes: Sequence[Fields] = spec.get("volumes") or ()
        own = next((each["name"] for each in volumes if each.get("name", "").startswith(_VOLUME)), None)
        mount = {"name": own or self._name(_VOLUME), "readOnly": True, "mountPath": _PLACE}
        out, mounted = dict(spec), False
        for key in ("initContainers", "containers"):
            containers = []
            for container in spec.get(key) or ():
                present = container.get("volumeMounts") or []
                if all(each.get("mountPath") != _PLACE for each in present):
                    container, mounted = {**container, "volumeMounts": [*present, mount]}, True
                containers.append(container)
            if containers:
                out[key] = containers
        if mounted and own is None:
            out["volumes"] = [*volumes, {"name": mount["name"], "projected": _TOKEN}]
        return out


# A token whose time is over is still valid for a year where it is mounted so: 3607 seconds are the mark of it.
_TOKEN: Final = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ],
}


def _refused(pod: Manifest, why: str) -> ApiFailure:
    # apiserver: admission/errors.go, extractResourceName: to what completes a new object, it has no generated name yet.
    meta = pod["metadata"]
    name, prefix = meta.get("name", ""), meta.get("generateName", "")
    is_generated = prefix and name.startswith(prefix[:58]) and len(name) == len(prefix[:58]) + 5
    return forbidden("", "pods", prefix if is_generated else name, why)
