"""All open watches: each change is offered to the watches of its resource, in order, before the writer returns."""

from collections.abc import Callable

from kubelab.model.failure import expired
from kubelab.model.records import GroupResource, StoredChange
from kubelab.model.resources import ServedResource
from kubelab.storage.listing import ListOptions, Selection, check_watch_options, from_the_future, watch_version
from kubelab.storage.store import Store
from kubelab.storage.watch_stream import WatchStream


class WatchStreams:
    """The open watches by resource: opened here, and fed with the store's changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[GroupResource, list[WatchStream]] = {}
        store.observe(self._dispatch)

    def open(self, resource: ServedResource, selection: Selection, options: ListOptions) -> WatchStream:
        """Open a watch (W-10 to W-15). Raises ApiFailure for options that kube-apiserver refuses."""
        check_watch_options(options)
        version = watch_version(options)
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
            if version is not None and version > self._store.version:
                # Without initial events a future version is no error: changes up to it are skipped silently (W-15).
                raise from_the_future(version, self._store.version)
            self._start(stream, resource, selection)
        elif version is not None and version < self._store.floor:
            stream.fail(expired(f"too old resource version: {version} ({self._store.floor})"))
            return stream
        elif version is not None:
            self._replay(stream, resource, version)
        self._open.setdefault(resource.storage, []).append(stream)
        return stream

    def each(self, act: Callable[[WatchStream], None], where: GroupResource | None = None) -> None:
        """Call `act` on every open watch, of one resource or of all."""
        for place in [where] if where is not None else list(self._open):
            for stream in list(self._open.get(place, ())):
                act(stream)

    def end(self, where: GroupResource | None = None) -> None:
        """End the watches of one resource, or all, cleanly (W-19, W-20)."""
        self.each(WatchStream.end, where)

    def bookmark(self) -> None:
        """Send every watch that allows it a bookmark for the current resourceVersion."""
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
