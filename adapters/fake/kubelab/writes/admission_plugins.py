"""Admission plugins: functions inside the server that review writes of one kind, as the kind's webhooks would.

Plugins are for a cluster in memory, where no webhook can be called; a server over HTTP calls plugins before webhooks.
"""

from collections.abc import Callable, Iterable

import attrs

from kubelab.admission.webhooks import denial, patch_of
from kubelab.writes.writer import ObjectWriter, Prepared
from purekube.apimachinery.manifest import Kind, Manifest


@attrs.frozen
class AdmissionPlugin:
    """A function in the server that reviews every create and update of a kind, as an admission webhook would.

    `review` takes an AdmissionReview v1, with objects in the version of `kind`, and returns its answer. The answer may
    contain a patch.
    """

    name: str
    kind: Kind
    review: Callable[[Manifest], Manifest] = attrs.field(repr=False)


def admitted(prepared: Prepared, plugins: Iterable[AdmissionPlugin], writer: ObjectWriter) -> Prepared:
    """Return the write after every plugin for its kind has agreed. Raises ApiFailure if a plugin denies the write.

    `writer` applies the plugins' patches to the object. Warnings of the plugins are added to those of the write.
    """
    for plugin in plugins:
        resource = prepared.call.target.resource
        if (resource.group, resource.plural) != (plugin.kind.group, plugin.kind.plural):
            continue
        request = prepared.request().in_version(plugin.kind.version)
        response = plugin.review(request.review(plugin.name, "v1"))["response"]
        if (refusal := denial(plugin.name, response)) is not None:
            raise refusal
        if (patch := patch_of(response)) is not None:
            prepared = writer.mutated(prepared, patch, plugin.kind.version)
        if warnings := response.get("warnings"):
            outcome = attrs.evolve(prepared.outcome, warnings=(*prepared.outcome.warnings, *warnings))
            prepared = attrs.evolve(prepared, outcome=outcome)
    return prepared
