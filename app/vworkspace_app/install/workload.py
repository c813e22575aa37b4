"""Namespace, service account, Deployment and disruption budget."""

from collections.abc import Iterator
from typing import Any, Final

from vworkspace_app.install.options import (
    HEALTH_PORT,
    INSTANCE_LABELS,
    NAME,
    TLS_FOLDER,
    TLS_SECRET,
    WEBHOOK_PORT,
    InstallOptions,
    meta,
)
from vworkspace_app.install.profiles import profile_flags

_USER: Final = 65532
"""The uid that the image runs as."""

_GRACE_SECONDS: Final = 45
"""More than `--grace-period`, so that the operator ends by itself and hands its Lease over."""


def namespace_of(options: InstallOptions) -> dict[str, Any]:
    """The operator's own namespace, where only pods of the restricted profile may run."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    metadata = meta(options.namespace)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**metadata, "labels": {**metadata["labels"], **enforced}},
    }


def workload(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """What runs, and as whom."""
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(NAME, options.namespace)}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(NAME, options.namespace),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": INSTANCE_LABELS},
            "template": {"metadata": {"labels": meta(NAME)["labels"]}, "spec": _pod(options)},
        },
    }
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(NAME, options.namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": INSTANCE_LABELS}},
    }


def flags(options: InstallOptions) -> list[str]:
    """The arguments of the container."""
    arguments = ["run", f"--namespace={options.namespace}", "--leader-elect", f"--listen=0.0.0.0:{HEALTH_PORT}"]
    if not options.agent:
        arguments += ["--no-agent", f"--cluster-id={options.cluster_id}"]
    if options.velero_namespace:
        arguments.append(f"--velero-namespace={options.velero_namespace}")
    if options.webhooks:
        arguments += [f"--webhook-listen=0.0.0.0:{WEBHOOK_PORT}", f"--webhook-certificates={TLS_FOLDER}"]
    if options.release_account != InstallOptions().release_account:
        arguments.append(f"--service-account={options.release_account}")
    return [*arguments, *profile_flags(options.profile, options.settings, agent=options.agent)]


def _pod(options: InstallOptions) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart()]}},
        "containers": [_container(options)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
    if options.webhooks:
        spec["volumes"].append({"name": "webhook-tls", "secret": {"secretName": TLS_SECRET}})
    return spec


def _apart() -> dict[str, Any]:
    """Replicas on different nodes, where there are several."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": INSTANCE_LABELS}}
    return {"weight": 100, "podAffinityTerm": term}


def _container(options: InstallOptions) -> dict[str, Any]:
    ports = [{"name": "metrics", "containerPort": HEALTH_PORT, "protocol": "TCP"}]
    # TLS libraries take the control plane's client certificate from a file only.
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]
    container: dict[str, Any] = {
        "name": "operator",
        "image": options.image,
        **({"imagePullPolicy": options.pull_policy} if options.pull_policy else {}),
        "args": flags(options),
        "ports": ports,
        "livenessProbe": _probe("/healthz", initialDelaySeconds=15, periodSeconds=20, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if options.webhooks:
        ports.append({"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
        mounts.append({"name": "webhook-tls", "mountPath": TLS_FOLDER, "readOnly": True})
    return {**container, "volumeMounts": mounts}


def _probe(path: str, **more: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 3, **more}
