"""The migration from client-side to server-side apply: the manager `kubectl` and its last-applied annotation.

Client-side `kubectl apply` keeps the configuration that it applied last in an annotation. A server-side apply by the
manager `kubectl` may take over these fields without conflict, and updates the annotation.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from kubelab.model.calls import WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.ssa.apply import apply
from kubelab.ssa.compare import compare
from kubelab.ssa.conform import misfits
from kubelab.ssa.fieldset import EMPTY, FieldSet, difference
from kubelab.ssa.ownership import Clash, conflict
from kubelab.ssa.typed import field_set
from purekube.apimachinery.manifest import LAST_APPLIED, Manifest


def apply_as(definition: ServedKind, live: Manifest | None, config: Manifest, write: WriteRequest) -> dict[str, Any]:
    """Return the object after the manager of `write` applied `config` to `live` server-side.

    The arguments and errors are those of `kubelab.ssa.apply.apply`. The manager `kubectl` has no conflict about fields
    that client-side apply wrote: it takes them over. It also updates the last-applied annotation if the object has one.
    """
    # managedfields: lastappliedmanager.go, Apply compares the name literally; another name opts out of the migration.
    if write.manager != "kubectl":
        return apply(definition, live, config, write)
    try:
        out = apply(definition, live, config, write)
    except Clash as clash:
        allowed = _written_before(definition, live)
        left = {key: rest for key, fields in clash.clashes.items() if (rest := difference(fields, allowed))}
        # managedfields: lastappliedmanager.go, conflictsDifference: the error names only the fields that client-side
        # apply did not write.
        if left:
            raise conflict(left) from clash
        out = apply(definition, live, config, attrs.evolve(write, force=True))
    return _annotated(out, config)


def _written_before(definition: ServedKind, live: Manifest | None) -> FieldSet:
    """Return the fields of the last-applied configuration that `live` still has with the same values."""
    text = _annotations(live or {}).get(LAST_APPLIED)
    if live is None or not text:
        return EMPTY
    try:
        last = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return EMPTY
    # managedfields: lastappliedmanager.go, allowedConflictsFromLastApplied: an annotation that cannot be used is no
    # error, it merely allows no conflict. Field names of another version would be meaningless here.
    if not isinstance(last, dict) or last.get("apiVersion") != definition.api_version:
        return EMPTY
    if misfits(definition.schema, last):
        return EMPTY
    changes = compare(definition.schema, last, live)
    owned = field_set(definition.schema, last)
    # A field that has changed since is not `kubectl`'s any more, although client-side apply set it.
    for changed in (changes.modified, changes.added, changes.removed):
        owned = difference(owned, changed)
    return owned


def _annotated(manifest: dict[str, Any], config: Manifest) -> dict[str, Any]:
    """Return `manifest` with `config` in its annotation `kubectl.kubernetes.io/last-applied-configuration`.

    If `manifest` does not have this annotation yet, it is returned unchanged.
    """
    annotations = _annotations(manifest)
    if not annotations.get(LAST_APPLIED):
        return manifest
    meta = config.get("metadata") or {}
    plain = {key: value for key, value in _annotations(config).items() if key != LAST_APPLIED}
    shown = {**config, "metadata": {**meta, "annotations": plain}} if "annotations" in meta else config
    # Go's JSON encoder sorts the keys of maps and ends the document with a line feed (managedfields:
    # lastappliedupdater.go, buildLastApplied).
    text = msgspec.json.encode(shown, order="sorted").decode() + "\n"
    changed = {**annotations, LAST_APPLIED: text}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": changed}}


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    meta = manifest.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}
