"""The objects that make an API server call the webhooks of a box: Service, certificate, configurations (PH-8).

They fail closed: without the webhook a rule is not enforced, a field that is not defaulted is missing for the box's
expressions, and an object that is not converted cannot be read at all. An object being deleted is exempt, so that a
finalizer can be removed while no replica is up.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.boxes.box import Box
from purekube.boxes.kind_webhooks import WebhookDuties
from purekube.reconcilers import Resource
from vworkspace_app.install.options import TLS_FOLDER, WEBHOOK_PORT
from vworkspace_app.install.webhook_manifests import certificate_of, operator_box_webhook
from vworkspace_core.webhook.paths import (
    APPLIED_BOX_PATH,
    CONVERT_PATH,
    default_path,
    kind_default_path,
    kind_validate_path,
    validate_path,
)

_GROUP = "admissionregistration.k8s.io/v1"
_MUTATING, _VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


class TrustedBy(Protocol):
    """The namespace in which the webhooks run, and the reason why the API server trusts their certificate."""

    @property
    def namespace(self) -> str: ...

    @property
    def webhook_ca(self) -> bytes: ...

    @property
    def cert_manager(self) -> bool: ...


@attrs.frozen
class WebhookTrust:
    """The trust in webhooks as options give it: the PEM of an authority, or a certificate by cert-manager."""

    namespace: str
    webhook_ca: bytes = attrs.field(default=b"", repr=False)
    cert_manager: bool = False

    @property
    def is_given(self) -> bool:
        """Report whether the options give one of the two, without which the API server trusts no webhook."""
        return bool(self.webhook_ca) or self.cert_manager


NOBODY: Final = WebhookTrust("")
"""A `WebhookTrust` without a certificate authority: no webhook can be registered with it."""


def tls_secret(name: str) -> str:
    """Return the name of the Secret with the webhook certificate of the installation `name`."""
    return f"{name}-webhook-tls"


def webhook_parts(box: Box, meta: Mapping[str, Any], trust: TrustedBy) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and webhook configurations that a box needs.

    `meta` is the metadata of the box's installation.
    """
    labels, name = meta["labels"], str(meta["name"])
    yield from webhook_service(name, meta, trust)
    duties, title = WebhookDuties.of(box), f"{box.name}.boxes.vworkspace.io"
    selected = {"namespaceSelector": dict(box.namespaces)} if box.namespaces else {}
    for kind, path, needed in (
        (_MUTATING, default_path(box.name), bool(duties.fields)),
        (_VALIDATING, validate_path(box.name), bool(duties.rules)),
    ):
        if needed:
            hook = {**_webhook(title, box.kind, _client(name, path, trust)), **selected}
            yield _configuration(kind, name, labels, [hook], trust)


def review_webhooks(
    name: str, kinds: Iterable[Resource[Any, Any]], meta: Mapping[str, Any], trust: TrustedBy
) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and webhook configurations of kinds that are converted or reviewed in Python.

    The Service is called by `name`, the other objects as in `meta`, the metadata of the workload.
    """
    yield from webhook_service(name, meta, trust)
    hooks: dict[str, list[dict[str, Any]]] = {_MUTATING: [], _VALIDATING: []}
    for one in kinds:
        crd, reviews = one.kind.crd_name, one.reviews
        for configuration, path, needed in (
            (_MUTATING, kind_default_path(crd), reviews.default),
            (_VALIDATING, kind_validate_path(crd), reviews.validate),
        ):
            if needed is not None:
                hooks[configuration].append(_webhook(crd, one.kind, _client(name, path, trust)))
    for configuration, of_kinds in hooks.items():
        if of_kinds:
            yield _configuration(configuration, str(meta["name"]), meta["labels"], of_kinds, trust, served_as=name)


def applied_webhook_parts(name: str, meta: Mapping[str, Any], trust: TrustedBy) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and webhook configuration with which OperatorBoxes are validated.

    `meta` is the metadata of the installation `name`, which runs applied boxes.
    """
    yield from webhook_service(name, meta, trust)
    hook = operator_box_webhook(_client(name, APPLIED_BOX_PATH, trust))
    yield _configuration(_VALIDATING, name, meta["labels"], [hook], trust)


def webhook_service(name: str, meta: Mapping[str, Any], trust: TrustedBy) -> Iterator[dict[str, Any]]:
    """Yield the Service of the webhooks, to which CRDs refer by `name`, and with cert-manager its certificate.

    `meta` is the metadata of the workload that serves the webhooks.
    """
    labels = meta["labels"]
    service = {"name": _service(name), "namespace": trust.namespace, "labels": labels}
    selector = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
    ports = [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"selector": selector, "ports": ports}}
    if trust.cert_manager:
        yield from certificate_of({**service, "name": f"{name}-selfsigned"}, service, tls_secret(name))


def serve_webhooks(runs: dict[str, Any], spec: dict[str, Any], name: str) -> None:
    """Make a pod serve the webhooks installed as `name`: modify its container `runs` and its spec `spec` in place."""
    runs["args"] += [f"--webhook-listen=0.0.0.0:{WEBHOOK_PORT}", f"--webhook-certificates={TLS_FOLDER}"]
    runs["ports"].append({"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
    runs["volumeMounts"].append({"name": "webhook-tls", "mountPath": TLS_FOLDER, "readOnly": True})
    spec["volumes"].append({"name": "webhook-tls", "secret": {"secretName": tls_secret(name)}})


def with_conversion(crd: Manifest, name: str, trust: TrustedBy) -> dict[str, Any]:
    """Return the CRD with a conversion webhook: the one that is installed as `name`."""
    meta = dict(crd["metadata"])
    if trust.cert_manager:
        meta["annotations"] = {**(meta.get("annotations") or {}), **_annotations(name, trust)["annotations"]}
    webhook = {"clientConfig": _client(name, CONVERT_PATH, trust), "conversionReviewVersions": ["v1"]}
    spec = {**crd["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}
    return {**crd, "metadata": meta, "spec": spec}


def _service(name: str) -> str:
    return f"{name}-webhook"


def _annotations(name: str, trust: TrustedBy) -> dict[str, Any]:
    injected = {"cert-manager.io/inject-ca-from": f"{trust.namespace}/{_service(name)}"}
    return {"annotations": injected} if trust.cert_manager else {}


def _client(name: str, path: str, trust: TrustedBy) -> dict[str, Any]:
    service = {"name": _service(name), "namespace": trust.namespace, "path": path, "port": 443}
    return {"service": service, **({"caBundle": b64encode(trust.webhook_ca).decode()} if trust.webhook_ca else {})}


def _configuration(
    kind: str,
    name: str,
    labels: Mapping[str, str],
    webhooks: Sequence[Mapping[str, Any]],
    trust: TrustedBy,
    *,
    served_as: str = "",
) -> dict[str, Any]:
    """Return a webhook configuration. The webhooks are installed as `served_as`, by default as `name`."""
    metadata = {"name": name, "labels": labels, **_annotations(served_as or name, trust)}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "webhooks": [*webhooks]}


def _webhook(name: str, kind: Kind, client: Mapping[str, Any]) -> dict[str, Any]:
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
        "scope": "Namespaced" if kind.namespaced else "Cluster",
    }
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}],
        # A write in another version is reviewed in the storage version, which the rules read.
        "matchPolicy": "Equivalent",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
