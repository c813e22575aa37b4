"""Reads: one object, a page of a list, or a watch."""

from kubelab.model.calls import RequestTarget
from kubelab.model.failure import not_found
from kubelab.model.records import decode, encode
from kubelab.model.replies import ObjectPage, Reply
from kubelab.model.scale import scale_of
from kubelab.storage.listing import ListOptions, page_of, plan_list
from kubelab.storage.selection import selection_of
from kubelab.storage.store import Store
from kubelab.storage.streams import WatchStreams
from kubelab.storage.watch_stream import WatchStream


class StoreReader:
    """Reads of the store. Every method may raise ApiFailure."""

    def __init__(self, store: Store, streams: WatchStreams) -> None:
        self._store = store
        self._streams = streams

    def get(self, target: RequestTarget) -> Reply:
        """Return one object; through `/scale` its Scale, through other subresources the whole object."""
        record = self._store.get(target.resource.storage, target.key)
        if record is None:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        raw = target.resource.render(record)
        if target.subresource == "scale":
            raw = encode(scale_of(target.resource.definition, decode(raw)))
        return Reply(200, raw)

    def page(self, target: RequestTarget, options: ListOptions) -> ObjectPage:
        """Return one page of a list (W-01 to W-06)."""
        resource = target.resource
        selection = selection_of(target, options)
        plan = plan_list(options, self._store.version, self._store.floor)
        if plan.version is None:
            records = self._store.scan(resource.storage, target.namespace, plan.after)
        else:
            records = iter(self._store.past(resource.storage, plan.version, target.namespace, plan.after))
        selected = selection.of(records)
        version = self._store.version if plan.version is None else plan.version
        selective = bool(options.label_selector or options.field_selector)
        page = page_of(selected, plan, version, selective)
        resource.require(page.records)
        return ObjectPage(resource, page)

    def watch(self, target: RequestTarget, options: ListOptions) -> WatchStream:
        """Open a watch (W-10 to W-18)."""
        return self._streams.open(target.resource, selection_of(target, options), options)
