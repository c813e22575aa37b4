"""The record of deletions with `--cascade=orphan`, which the deleted objects themselves show only for a moment."""

from collections.abc import Iterable

import attrs

from purekube.apimachinery.structuring import read_meta
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.ownership import is_orphaning
from purekube_run.controller.informer import InformerRunner


@attrs.define(eq=False)
class OrphaningDeletions:
    """The uids of objects that are being deleted with `--cascade=orphan`, from the events of informers.

    The garbage collector may remove the finalizer that shows it before a worker sees the object.
    """

    _uids: set[str] = attrs.field(factory=set, init=False)

    def follow(self, informers: Iterable[InformerRunner]) -> None:
        """Record such deletions of the objects that `informers` watch."""
        for informer in informers:
            informer.subscribe(self._changed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def _changed(self, change: CacheChange) -> None:
        if not self._uids and b'"orphan"' not in change.raw:
            return  # without decoding the object
        meta = read_meta(change.object)
        if change.type is ChangeType.DELETED:
            self._uids.discard(meta.uid)
        elif is_orphaning(meta):
            self._uids.add(meta.uid)
