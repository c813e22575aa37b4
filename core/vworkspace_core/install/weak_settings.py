"""Settings that are too weak for a cluster with several tenants, as sentences for the Cluster's status (RUN-12)."""

from collections.abc import Iterator

from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.approvals.claims import are_lowered
from vworkspace_core.operations.settings import OperationSettings


def weak_settings_of(
    decisions: Settings, operations: OperationSettings, required_bindings: frozenset[str]
) -> Iterator[str]:
    """Yield a sentence for each setting that is too weak for a cluster with several tenants, with its consequence.

    `decisions` are the settings for instances, `operations` those for Operations. `required_bindings` are the fields,
    such as the namespace, that an approval must have so that it is valid for one Operation only.
    """
    if not decisions.default_service_account and decisions.allow_unimpersonated_releases:
        yield "--allow-unimpersonated-releases: charts are installed with Flux's own rights"
    if not operations.allowed_images:
        yield "--allowed-images is empty: Operations may run any image"
    if are_lowered(required_bindings):
        yield "--required-claim-bindings lacks ns or params: an approval can be used for something else"
    if decisions.admission.allow_http:
        yield "--allow-http: charts may come over plain http://"
