"""All versions of one custom kind, and the conversion of its objects between them."""

from collections.abc import Mapping
from typing import Any

import attrs

from kubelab.model.conversion import Conversions, ConversionWebhook
from kubelab.model.failure import internal
from kubelab.ssa.ownership import UntypedError
from purekube.schema.node import Schema
from purekube.schema.prune import apply_defaults, drop_nulls, prune

Manifest = Mapping[str, Any]


@attrs.frozen(eq=False)
class KindVersions:
    """The schemas of every declared version by apiVersion, served or not; objects are stored in `storage`.

    Without a `webhook` a conversion changes nothing except the apiVersion.
    """

    schemas: Mapping[str, Schema] = attrs.field(repr=False)
    storage: str
    webhook: ConversionWebhook | None
    conversions: Conversions = attrs.field(repr=False)

    def convert(self, manifest: Manifest, api_version: str) -> Manifest:
        """Return `manifest` in another version, without fields unknown there. Raises ApiFailure, ConversionNeeded."""
        if manifest["apiVersion"] == api_version:
            return manifest
        pruned, _ = self._known(manifest, api_version)
        known: Manifest = drop_nulls(self.schemas[api_version], pruned)
        return known

    def typed(self, manifest: Manifest, api_version: str) -> Manifest:
        """Convert for comparing ownership: as `convert`, but raise UntypedError for fields unknown in `api_version`."""
        if manifest["apiVersion"] == api_version:
            return manifest
        known, unknown = self._known(manifest, api_version)
        if unknown:
            raise UntypedError(f".{unknown[0]}: field not declared in schema")
        return known

    def _known(self, manifest: Manifest, api_version: str) -> tuple[Manifest, tuple[str, ...]]:
        given = manifest["apiVersion"]
        for version, word in ((api_version, "to"), (given, "from")):
            if version not in self.schemas:
                raise internal(f"request to convert CR {word} an invalid group/version: {version}")
        if self.webhook is None or len(manifest) == 2:  # kube-apiserver sends no empty object to the webhook
            converted: Manifest = {**manifest, "apiVersion": api_version}
        else:
            converted = self.conversions.convert(self.webhook, manifest, api_version)
        return prune(self.schemas[api_version], dict(converted))

    def read(self, stored: Manifest, api_version: str) -> Manifest:
        """Return a stored object in a version, with the defaults of the version in which it is stored."""
        schema = self.schemas.get(stored["apiVersion"])
        return self.convert(stored if schema is None else apply_defaults(schema, dict(stored)), api_version)

    def written(self, manifest: Manifest) -> Manifest:
        """Return an object in the version in which it is stored."""
        return self.convert(manifest, self.storage)
