"""The objects that make an API server call the webhooks of a box: Service, certificate, configurations (PH-8).

A box is an operator that a YAML file declares. The webhooks fail closed: if no webhook answers, a write is refused,
because its object would be stored without checks and defaults. Without conversion an object cannot be read at all. An
object being deleted is exempt, so that its finalizer can be removed while no replica is up.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.names import bounded_name
from purekube.boxes.box import Box
from purekube.boxes.webhooks.conversion_webhook import APPLIED_BOX_PATH, CONVERT_PATH, ConversionWebhook
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import reviewers
from vworkspace_app.install.options import WebhookTrust
from vworkspace_app.install.webhook_manifests import (
    MUTATING,
    STAYS,
    VALIDATING,
    certificate_of,
    client_config,
    configuration,
    injected_authority,
    operator_box_webhook,
    webhook,
)
from vworkspace_core.webhook.admission import default_path, kind_review_path, validate_path

NOBODY: Final = WebhookTrust("")
"""A `WebhookTrust` without a certificate authority: no webhook can be registered with it."""


def tls_secret(name: str) -> str:
    """Return the name of the Secret with the webhook certificate of the installation `name`."""
    return f"{name}-webhook-tls"


def webhook_parts(box: Box, meta: Mapping[str, Any], trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Yield the Service, the certificate and the webhook configurations that a box needs.

    `meta` is the metadata of the Deployment that serves the webhooks; its name is the name of the installation. `trust`
    says by which authority the API server trusts the webhooks.
    """
    name = str(meta["name"])
    duties, title = WebhookDuties.of(box), f"{box.name}.boxes.vworkspace.io"
    selected = {"namespaceSelector": dict(box.namespaces)} if box.namespaces else {}
    both = ((MUTATING, default_path(box.name), duties.fields), (VALIDATING, validate_path(box.name), duties.rules))
    hooks = {
        kind: [webhook(title, [box.kind], client_config(_service(name), path, trust), [STAYS], **selected)]
        for kind, path, needed in both
        if needed
    }
    yield from _served(name, meta, hooks, trust)


def review_webhooks(
    name: str, kinds: Iterable[Resource[Any, Any]], meta: Mapping[str, Any], trust: WebhookTrust
) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and webhook configurations for kinds whose conversion or review is written in
    Python.

    `name` is the name of the installation whose process serves the webhooks. `meta` is the metadata of that process's
    workload. `trust` says by which authority the API server trusts the webhooks.
    """
    hooks: dict[str, list[dict[str, Any]]] = {MUTATING: [], VALIDATING: []}
    for one in kinds:
        crd = one.kind.crd_name
        for reviewer in reviewers(one):
            client = client_config(_service(name), kind_review_path(crd, mutates=reviewer.mutates), trust)
            hooks[MUTATING if reviewer.mutates else VALIDATING].append(webhook(crd, [one.kind], client, [STAYS]))
    yield from _served(name, meta, hooks, trust)


def applied_webhook_parts(name: str, meta: Mapping[str, Any], trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and configuration of the webhook that validates OperatorBoxes.

    `meta` is the metadata of the installation `name`, which runs applied boxes (those in the cluster as OperatorBoxes).
    `trust` says by which authority the API server trusts the webhook.
    """
    hook = operator_box_webhook(client_config(_service(name), APPLIED_BOX_PATH, trust))
    yield from _served(name, meta, {VALIDATING: [hook]}, trust)


def _served(
    name: str, meta: Mapping[str, Any], hooks: Mapping[str, list[dict[str, Any]]], trust: WebhookTrust
) -> Iterator[dict[str, Any]]:
    """Yield the Service of the webhooks, its Certificate if `trust` selects cert-manager, and the configurations.

    The Service is called `<name>-webhook`, shortened if that is too long for a Service. `meta` is the metadata of the
    workload that serves the webhooks. `hooks` are the webhooks by the kind of their configuration.
    """
    labels = meta["labels"]
    service = {"name": _service(name), "namespace": trust.namespace, "labels": labels}
    selector = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
    ports = [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"selector": selector, "ports": ports}}
    if trust.cert_manager:
        yield from certificate_of({**service, "name": f"{name}-selfsigned"}, service, tls_secret(name))
    cluster_wide = {"name": meta["name"], "labels": labels}
    for kind, of_kind in hooks.items():
        if of_kind:
            yield configuration(kind, cluster_wide, of_kind, _service(name), trust)


def with_conversion(crd: Manifest, name: str, trust: WebhookTrust) -> Manifest:
    """Return the CRD with its conversion webhook set to the one that the installation `name` serves.

    `trust` has the Service's namespace, and the authority by which the API server trusts the webhook.
    """
    client = client_config(_service(name), CONVERT_PATH, trust)
    annotations = injected_authority(_service(name), trust).get("annotations", {})
    return ConversionWebhook(client, annotations).registered_in(crd)


def _service(name: str) -> str:
    return bounded_name(f"{name}-webhook")
