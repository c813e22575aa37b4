"""The webhook configurations, and the certificate if cert-manager issues it (RUN-6, RUN-7).

Match conditions exempt requests that are never refused: for an object being deleted, and updates that change neither
spec nor labels. So a finalizer can be removed even while no replica of the operator is up.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.definitions import OPERATOR_BOX
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import TLS_SECRET, InstallOptions, meta
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.webhook.paths import APPLIED_BOX_PATH, DEFAULT_PATH, GATED_PATH, UNGATED_PATH

SERVICE: Final = f"{NAME}-webhook"

_GROUP: Final = "admissionregistration.k8s.io/v1"
_ISSUER: Final = f"{NAME}-selfsigned"
_LABELS: Final = "(has({0}.metadata.labels) ? {0}.metadata.labels : {{}})"
_CONDITIONS: Final = (
    {"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"},
    {
        "name": "says-something-new",
        "expression": "oldObject == null || !has(object.spec) || !has(oldObject.spec)"
        f" || object.spec != oldObject.spec || {_LABELS.format('object')} != {_LABELS.format('oldObject')}",
    },
)


def configurations(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the configuration of the defaulting webhook, and that of the two validating webhooks.

    One of those is for managed namespaces, the other for all other namespaces.
    """
    gated = {"key": NAMESPACE_GATE, "operator": "In", "values": [NAMESPACE_GATE_VALUE]}
    ungated = {**gated, "operator": "NotIn"}
    yield _configuration(
        "MutatingWebhookConfiguration",
        # Without the default, the schema refuses the object and says what is missing.
        [_webhook("default", DEFAULT_PATH, options, failurePolicy="Ignore", reinvocationPolicy="IfNeeded")],
        options,
    )
    yield _configuration(
        "ValidatingWebhookConfiguration",
        [
            _webhook("gated", GATED_PATH, options, namespaceSelector={"matchExpressions": [gated]}),
            _webhook("ungated", UNGATED_PATH, options, namespaceSelector={"matchExpressions": [ungated]}),
        ],
        options,
    )
    if options.applied_boxes:
        yield applied_configuration(options)


def applied_configuration(options: InstallOptions) -> dict[str, Any]:
    """Return the configuration of the webhook that validates OperatorBoxes."""
    hook = operator_box_webhook(_client(APPLIED_BOX_PATH, options))
    return _configuration("ValidatingWebhookConfiguration", [hook], options, f"{NAME}-boxes")


def operator_box_webhook(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the webhook that validates OperatorBoxes, at the `clientConfig` `client`.

    It fails open: without it the status of the box has the same problems, and nothing of the box takes effect.
    """
    rule = {
        "apiGroups": [OPERATOR_BOX.group],
        "apiVersions": [OPERATOR_BOX.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [OPERATOR_BOX.plural],
        "scope": "Cluster",
    }
    return {
        "name": f"operatorboxes.{OPERATOR_BOX.group}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": dict(client),
        "failurePolicy": "Ignore",
        "matchConditions": [dict(condition) for condition in _CONDITIONS],
        "matchPolicy": "Equivalent",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }


def _configuration(
    kind: str, webhooks: list[dict[str, Any]], options: InstallOptions, name: str = NAME
) -> dict[str, Any]:
    metadata = meta(name)
    if options.cert_manager:
        metadata["annotations"] = {"cert-manager.io/inject-ca-from": f"{options.namespace}/{SERVICE}"}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "webhooks": webhooks}


def _webhook(name: str, path: str, options: InstallOptions, **more: Any) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [kind.plural],
            "scope": "Namespaced",
        }
        for kind in (APPLICATION_INSTANCE, OPERATION)
    ]
    return {
        "name": f"{name}.{NAME}.vworkspace.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(path, options),
        "failurePolicy": "Fail",
        "matchConditions": [dict(condition) for condition in _CONDITIONS],
        "matchPolicy": "Equivalent",
        "objectSelector": {"matchLabels": {MANAGED_BY: MANAGED_BY_VALUE}},
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **more,
    }


def _client(path: str, options: InstallOptions) -> dict[str, Any]:
    client: dict[str, Any] = {
        "service": {"name": SERVICE, "namespace": options.namespace, "path": path, "port": 443},
    }
    if options.webhook_ca:
        client["caBundle"] = b64encode(options.webhook_ca).decode()
    return client


def certificate(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield cert-manager's Issuer, and the Certificate of the webhooks' Service."""
    yield from certificate_of(meta(_ISSUER, options.namespace), meta(SERVICE, options.namespace), TLS_SECRET)


def certificate_of(issuer: dict[str, Any], service: dict[str, Any], secret: str) -> Iterator[dict[str, Any]]:
    """Yield a self-signed Issuer and the Certificate of a Service. `issuer` and `service` are their metadata.

    `secret` is the name of the Secret into which the certificate is written.
    """
    group, host = "cert-manager.io/v1", f"{service['name']}.{service['namespace']}.svc"
    yield {"apiVersion": group, "kind": "Issuer", "metadata": issuer, "spec": {"selfSigned": {}}}
    yield {
        "apiVersion": group,
        "kind": "Certificate",
        "metadata": service,
        "spec": {
            "secretName": secret,
            "dnsNames": [host, f"{host}.cluster.local"],
            "issuerRef": {"name": issuer["name"], "kind": "Issuer"},
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        },
    }
