"""The answers to gets, lists and watches, read from the store.

After each write, its change is passed to the open watches of the resource, in the order of the writes.
"""

from collections.abc import Callable

from kubelab.model.calls import ObjectPage, Reply, RequestTarget
from kubelab.model.failure import expired, not_found
from kubelab.model.records import GroupResource, Record, StoredChange, decode, encode
from kubelab.model.resources import ServedResource
from kubelab.model.scale import scale_of
from kubelab.storage.listing import (
    ListOptions,
    Selection,
    check_watch_options,
    from_the_future,
    page_of,
    parsed_version,
    plan_list,
    watch_version,
)
from kubelab.storage.selectors import parse_fields, parse_labels
from kubelab.storage.store import Store
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.manifest import get_path


class WatchStreams:
    """All open watches by resource. This class opens them and passes the store's changes to them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[GroupResource, list[WatchStream]] = {}
        store.observe(self._dispatch)

    def open(self, resource: ServedResource, selection: Selection, options: ListOptions) -> WatchStream:
        """Open a watch of the objects of `resource` in `selection`, and return its stream of events (W-10 to W-15).

        Raises ApiFailure for options that kube-apiserver refuses.
        """
        check_watch_options(options)
        version = watch_version(options)
        # apimachinery: apis/meta/internalversion/defaults.go, SetListOptionsDefaults: the old form of a watch means
        # initial events (KEP-3157).
        initial = options.send_initial_events if options.send_initial_events is not None else version is None
        stream = WatchStream(
            after=self._store.version if initial or version is None else version,
            matches=selection.matches,
            render=resource.render,
            type_meta=resource.type_meta,
            bookmarks=options.allow_bookmarks,
            later=resource.converts,
        )
        if initial:
            # The watch cache learns that a version is not reached only after the response has begun (measured, W-14).
            # Without initial events a future version is no error: changes up to it are skipped silently (W-15).
            if version is not None and version > self._store.version:
                stream.fail(from_the_future(version, self._store.version))
                return stream
            self._start(stream, resource, selection)
        # 200 and an ERROR event of 410, not the status 410 that older servers answer (W-11).
        elif version is not None and version < self._store.floor:
            stream.fail(expired(f"too old resource version: {version} ({self._store.floor})"))
            return stream
        elif version is not None:
            self._replay(stream, resource, version)
        self._open.setdefault(resource.storage, []).append(stream)
        return stream

    def each(self, act: Callable[[WatchStream], None], where: GroupResource | None = None) -> None:
        """Call `act` on every open watch of one resource or, if `where` is None, of all resources."""
        for place in [where] if where is not None else list(self._open):
            for stream in list(self._open.get(place, ())):
                act(stream)

    def end(self, where: GroupResource | None = None) -> None:
        """End the watches of one resource, or of all resources, cleanly (W-19, W-20)."""
        self.each(WatchStream.end, where)

    def bookmark(self) -> None:
        """Send a bookmark for the current resourceVersion to every open watch that requested bookmarks."""
        self.each(lambda stream: stream.bookmark(self._store.version))

    def _start(self, stream: WatchStream, resource: ServedResource, selection: Selection) -> None:
        for record in self._store.scan(resource.storage, selection.namespace):
            stream.start_with(record)
        # kube-apiserver 1.36 sends this bookmark to watches without `sendInitialEvents`, too (W-13).
        stream.bookmark(self._store.version, initial_events_end=True)

    def _replay(self, stream: WatchStream, resource: ServedResource, version: int) -> None:
        for change in self._store.since(resource.storage, version):
            stream.offer(change)

    def _dispatch(self, where: GroupResource, change: StoredChange) -> None:
        streams = self._open.get(where)
        if not streams:
            return
        if any(stream.ended for stream in streams):
            streams[:] = [stream for stream in streams if not stream.ended]
        for stream in list(streams):
            stream.offer(change)


def selection_of(target: RequestTarget, options: ListOptions) -> Selection:
    """Return the namespace of `target` and the selectors in `options` as one Selection.

    It is for a list, a watch or the delete of a collection. Raises ApiFailure 400 for a selector that is malformed or
    that the resource does not support.
    """
    resource = target.resource
    return Selection(
        namespace=target.namespace,
        labels=parse_labels(options.label_selector),
        fields=parse_fields(options.field_selector, lambda path: _selectable(resource, path)),
        read_field=lambda record, path: _field(resource, record, path),
    )


def _selectable(resource: ServedResource, path: str) -> bool:
    # Only namespaced resources have metadata.namespace as a selector (apiextensions: objectMetaFieldsSet; measured on
    # namespaces).
    return path == "metadata.name" or path in resource.fields or (path == "metadata.namespace" and resource.namespaced)


def _field(resource: ServedResource, record: Record, path: str) -> str:
    if path == "metadata.name":
        return record.key[1]
    if path == "metadata.namespace":
        return record.key[0]
    # Field selectors name fields of the requested version, so the object is converted before it is matched.
    value = get_path(resource.live(record), *path.split("."))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_object(store: Store, target: RequestTarget, resource_version: str = "") -> Reply:
    """Return one object. Through `/scale` return its Scale, through any other subresource the full object.

    `resource_version` is the oldest state that the client accepts; empty means that it accepts any. Raises ApiFailure
    504 if the server has not reached it, and 500 if it is no number.
    """
    # A restarted client asks so for no older state than it knew; apiserver: storage/etcd3/store.go, Get checks this
    # before it says that an object is missing.
    if (version := parsed_version(resource_version)) > store.version:
        raise from_the_future(version, store.version)
    record = store.get(target.resource.storage, target.key)
    if record is None:
        raise not_found(target.resource.group, target.resource.plural, target.name)
    raw = target.resource.render(record)
    if target.subresource == "scale":
        raw = encode(scale_of(target.resource.definition, decode(raw)))
    return Reply(200, raw)


def read_page(store: Store, target: RequestTarget, options: ListOptions) -> ObjectPage:
    """Return one page of the list of the objects in `target` that `options` select (W-01 to W-06)."""
    resource = target.resource
    selection = selection_of(target, options)
    plan = plan_list(options, store.version, store.floor)
    if plan.version is None:
        records = store.scan(resource.storage, target.namespace, plan.after)
    else:
        records = iter(store.past(resource.storage, plan.version, target.namespace, plan.after))
    selected = selection.of(records)
    version = store.version if plan.version is None else plan.version
    selective = bool(options.label_selector or options.field_selector)
    page = page_of(selected, plan, version, selective)
    resource.require(page.records)
    return ObjectPage(resource, page)
