"""The conversion webhook of a box's kind, as it is registered in the kind's CRD (PH-8, PH-10).

An applied box is an OperatorBox object in the cluster; the operator applies the CRD of its kind itself. The webhook
that converts is served by the same processes as the webhook that validates OperatorBoxes. So its address and CA bundle
are those of the ValidatingWebhookConfiguration that is installed for OperatorBoxes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Kind, Manifest, get_path, metadata

VALIDATING_CONFIGURATION: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
CONVERT_PATH: Final = "/convert"
"""The URL path of the conversion webhook, for kinds with several versions."""
APPLIED_BOX_PATH: Final = "/operatorboxes/validate"
"""The URL path of the validating webhook for OperatorBoxes, the boxes that are applied to the cluster."""

_INJECTED: Final = ("cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret")
"""The annotations that make cert-manager write a CA bundle into webhook configurations and CRDs."""


@attrs.frozen
class ConversionWebhook:
    """The registration of a conversion webhook in a CRD.

    `client` is the `clientConfig`: the URL or Service, and the CA bundle unless cert-manager writes it. `annotations`
    are the annotations that make cert-manager write the CA bundle into the CRD.
    """

    client: Mapping[str, Any]
    annotations: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of_box_reviews(cls, configurations: Iterable[Manifest]) -> "ConversionWebhook | None":
        """Return the conversion webhook of the server that also validates OperatorBoxes.

        `configurations` are ValidatingWebhookConfigurations. Return None if none of them has such a webhook.
        """
        return next((found for each in configurations for found in _registered(each)), None)

    def registered_in(self, crd: Manifest) -> Manifest:
        """Return a copy of `crd` that sends conversions between the versions of its kind to this webhook."""
        meta = dict(metadata(crd))
        if self.annotations:
            meta["annotations"] = {**(meta.get("annotations") or {}), **self.annotations}
        webhook = {"clientConfig": dict(self.client), "conversionReviewVersions": ["v1"]}
        conversion = {"strategy": "Webhook", "webhook": webhook}
        return {**crd, "metadata": meta, "spec": {**crd["spec"], "conversion": conversion}}

    def converts(self, crd: Manifest) -> bool:
        """Report whether the live CRD sends its conversions to this webhook. Its CA bundle is not compared."""
        live = get_path(crd, "spec", "conversion", "webhook", "clientConfig")
        return _address(live) == _address(self.client)


def _registered(configuration: Manifest) -> Iterator[ConversionWebhook]:
    """Yield the conversion webhook of each server at which `configuration` has OperatorBoxes validated."""
    annotations = metadata(configuration).get("annotations") or {}
    injected = {name: str(annotations[name]) for name in _INJECTED if name in annotations}
    for hook in configuration.get("webhooks") or ():
        client = _converting(hook.get("clientConfig") or {})
        if client is not None and any(_reviews_boxes(rule) for rule in hook.get("rules") or ()):
            trusted = {} if injected else {name: client[name] for name in ("caBundle",) if name in client}
            yield ConversionWebhook({**_address(client), **trusted}, injected)


def _reviews_boxes(rule: Mapping[str, Any]) -> bool:
    return OPERATOR_BOX.group in (rule.get("apiGroups") or ()) and OPERATOR_BOX.plural in (rule.get("resources") or ())


def _converting(client: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the `clientConfig` of the conversion webhook on the server to which `client` points.

    Return None if `client` is not the `clientConfig` of the webhook that validates OperatorBoxes.
    """
    service, url = client.get("service"), str(client.get("url") or "")
    if isinstance(service, Mapping) and service.get("path") == APPLIED_BOX_PATH:
        return {**client, "service": {**service, "path": CONVERT_PATH}}
    if url.endswith(APPLIED_BOX_PATH):
        return {**client, "url": url.removesuffix(APPLIED_BOX_PATH) + CONVERT_PATH}
    return None


def _address(client: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the URL or Service of a `clientConfig`, with the port that the API server would fill in."""
    service = (client or {}).get("service")
    if isinstance(service, Mapping):
        return {"service": {"port": 443, **service}}
    return {"url": (client or {}).get("url")}
