"""The manifests of webhook configurations, and of their certificate if cert-manager issues it (RUN-6, RUN-7).

Match conditions exempt requests that are never refused: writes of an object being deleted, and updates that change
neither spec nor labels. So a finalizer can be removed even while no replica of the operator is up. What boxes add is in
`extension_manifests`, whose imports `manifests` can do without.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Kind
from purekube.boxes.webhooks.conversion_webhook import APPLIED_BOX_PATH
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import TLS_SECRET, InstallOptions, WebhookTrust, meta
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.webhook.admission import DEFAULT_PATH, GATED_PATH, UNGATED_PATH

SERVICE: Final = f"{NAME}-webhook"
_GROUP: Final = "admissionregistration.k8s.io/v1"
_ISSUER: Final = f"{NAME}-selfsigned"
_LABELS: Final = "(has({0}.metadata.labels) ? {0}.metadata.labels : {{}})"
MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
STAYS: Final = {"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}
"""The match condition that exempts an object being deleted."""
_SAYS_SOMETHING_NEW: Final = {
    "name": "says-something-new",
    "expression": "oldObject == null || !has(object.spec) || !has(oldObject.spec)"
    f" || object.spec != oldObject.spec || {_LABELS.format('object')} != {_LABELS.format('oldObject')}",
}


def configurations(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield a MutatingWebhookConfiguration for the defaulting webhook, and a ValidatingWebhookConfiguration.

    The latter has one webhook for managed namespaces, and one for all other namespaces. If the operator runs applied
    boxes, the configuration of their webhook follows.
    """
    gated = {"key": NAMESPACE_GATE, "operator": "In", "values": [NAMESPACE_GATE_VALUE]}
    ungated = {**gated, "operator": "NotIn"}
    # Without the default, the schema refuses the object and says what is missing.
    defaulting = _own("default", DEFAULT_PATH, options, failurePolicy="Ignore", reinvocationPolicy="IfNeeded")
    validating = [
        _own("gated", GATED_PATH, options, namespaceSelector={"matchExpressions": [gated]}),
        _own("ungated", UNGATED_PATH, options, namespaceSelector={"matchExpressions": [ungated]}),
    ]
    yield configuration(MUTATING, meta(NAME), [defaulting], SERVICE, options.trust)
    yield configuration(VALIDATING, meta(NAME), validating, SERVICE, options.trust)
    if options.applied_boxes:
        yield applied_configuration(options)


def applied_configuration(options: InstallOptions) -> dict[str, Any]:
    """Return the configuration of the webhook that validates OperatorBoxes."""
    hook = operator_box_webhook(client_config(SERVICE, APPLIED_BOX_PATH, options.trust))
    return configuration(VALIDATING, meta(f"{NAME}-boxes"), [hook], SERVICE, options.trust)


def operator_box_webhook(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the webhook that validates OperatorBoxes; `client` is its `clientConfig`.

    It fails open: if it does not answer, an invalid box is stored, but its status reports the same problems, and it has
    no effect.
    """
    name, conditions = f"operatorboxes.{OPERATOR_BOX.group}", (STAYS, _SAYS_SOMETHING_NEW)
    return webhook(name, [OPERATOR_BOX], client, conditions, failurePolicy="Ignore")


def configuration(
    kind: str, metadata: Mapping[str, Any], webhooks: Sequence[Mapping[str, Any]], service: str, trust: WebhookTrust
) -> dict[str, Any]:
    """Return a webhook configuration of this `kind`, such as ValidatingWebhookConfiguration, with these webhooks.

    They are served by the Service `service`. If `trust` selects cert-manager, an annotation asks cert-manager to add
    the Service's authority.
    """
    whole = {**metadata, **injected_authority(service, trust)}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": whole, "webhooks": [*webhooks]}


def injected_authority(service: str, trust: WebhookTrust) -> dict[str, Any]:
    """Return metadata to add to a webhook configuration or CRD: `{"annotations": …}`, or `{}` without cert-manager.

    The annotation asks cert-manager to write the authority of the certificate of the Service `service` into the object,
    so that the API server trusts the webhook. `trust` has the Service's namespace, and says whether cert-manager is
    used.
    """
    injected = {"cert-manager.io/inject-ca-from": f"{trust.namespace}/{service}"}
    return {"annotations": injected} if trust.cert_manager else {}


def client_config(service: str, path: str, trust: WebhookTrust) -> dict[str, Any]:
    """Return the `clientConfig` by which the API server calls the webhook at the path `path` of a Service.

    `trust` has the Service's namespace, and the authority (PEM) to trust if cert-manager does not add it.
    """
    where = {"name": service, "namespace": trust.namespace, "path": path, "port": 443}
    return {"service": where, **({"caBundle": b64encode(trust.webhook_ca).decode()} if trust.webhook_ca else {})}


def webhook(
    name: str, kinds: Iterable[Kind], client: Mapping[str, Any], conditions: Iterable[Mapping[str, str]], **more: Any
) -> dict[str, Any]:
    """Return a webhook of a webhook configuration, which reviews creates and updates of `kinds`.

    `client` is its `clientConfig`, `conditions` are its match conditions, and `more` adds or replaces fields of it.
    Before the review, an object in another API version is converted to the version of its kind in `kinds`.
    """
    rules = [
        {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [kind.plural],
            "scope": "Namespaced" if kind.namespaced else "Cluster",
        }
        for kind in kinds
    ]
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": dict(client),
        "failurePolicy": "Fail",
        "matchConditions": [dict(condition) for condition in conditions],
        "matchPolicy": "Equivalent",
        "rules": rules,
        # Otherwise the API server refuses a dry run, such as that of `kubectl diff`.
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **more,
    }


def _own(name: str, path: str, options: InstallOptions, **more: Any) -> dict[str, Any]:
    selected = {"objectSelector": {"matchLabels": {MANAGED_BY: MANAGED_BY_VALUE}}}
    return webhook(
        f"{name}.{NAME}.vworkspace.io",
        (APPLICATION_INSTANCE, OPERATION),
        client_config(SERVICE, path, options.trust),
        (STAYS, _SAYS_SOMETHING_NEW),
        **selected,
        **more,
    )


def certificate(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield cert-manager's Issuer, and the Certificate for the Service of the webhooks."""
    yield from certificate_of(meta(_ISSUER, options.namespace), meta(SERVICE, options.namespace), TLS_SECRET)


def certificate_of(issuer: dict[str, Any], service: dict[str, Any], secret: str) -> Iterator[dict[str, Any]]:
    """Yield a self-signed Issuer and the Certificate of a Service. `issuer` and `service` are their metadata.

    `secret` is the name of the Secret into which cert-manager writes the certificate.
    """
    # The API server verifies this name (apiserver: pkg/util/webhook/client.go).
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
            # cert-manager before 1.18 keeps the key at a renewal unless the policy is Always.
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        },
    }
