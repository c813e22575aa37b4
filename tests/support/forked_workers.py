"""Worker processes of a test run, forked from the process that has collected the tests (`--workers`).

A worker that starts an interpreter of its own imports every test module and collects twelve thousand tests again. A
fork shares what is loaded. Workers take chunks of neighbouring tests, so that each module's fixtures are set up once or
twice, and smaller chunks towards the end, so that none is left alone with many.
"""

import atexit
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import attrs
import pytest

_FORK: Final = multiprocessing.get_context("fork")
_LARGEST: Final = 48
"""Tests in one chunk: far less than a worker's share, so that shares of unequal cost even out."""


@attrs.define(eq=False)
class _Worker:
    """A fork, as its parent sees it: `pending` begins with the test that it runs."""

    process: Any
    connection: Connection
    pending: deque[int] = attrs.field(factory=deque)


@attrs.define(eq=False)
class ForkedWorkers:
    """The plugin of the parent: gives out tests and reports what workers say."""

    count: int
    _waiting: deque[int] = attrs.field(factory=deque)
    _workers: list[_Worker] = attrs.field(factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests in workers; leave a run without tests, or with modules that fail to import, to pytest."""
        if session.config.option.collectonly or session.testsfailed or len(session.items) < 2:
            return None
        assert threading.active_count() == 1, f"a fork loses these threads: {threading.enumerate()}"
        reporter: Any = session.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False
        _make_temporary_folder(session.config)
        self._waiting.extend(range(len(session.items)))
        try:
            self._run(session)
        finally:
            for worker in self._workers:
                worker.process.terminate()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _run(self, session: pytest.Session) -> None:
        for number in range(min(self.count, len(session.items))):
            self._start(session, number)
        while self._workers:
            ready = wait([worker.connection for worker in self._workers])
            for worker in [worker for worker in self._workers if worker.connection in ready]:
                self._serve(session, worker)

    def _start(self, session: pytest.Session, number: int) -> None:
        connection, theirs = _FORK.Pipe()
        of_parent = [connection, *(worker.connection for worker in self._workers)]
        process = _FORK.Process(target=_work, args=(session, theirs, number, of_parent))
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, connection))

    def _serve(self, session: pytest.Session, worker: _Worker) -> None:
        """Answer one message of a worker: reports of a test, or, without any, the request for a chunk."""
        try:
            reports = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._end(session, worker)
            return
        if reports:
            _log(session, worker.pending.popleft(), reports)
            return
        chunk = [] if session.shouldfail or session.shouldstop else self._chunk(session)
        worker.pending.extend(chunk)
        worker.connection.send(chunk)

    def _chunk(self, session: pytest.Session) -> list[int]:
        share = len(self._waiting) // (4 * self.count)
        size = 1 if session.config.option.maxfail else max(1, min(share, _LARGEST))
        return [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]

    def _end(self, session: pytest.Session, worker: _Worker) -> None:
        """Take a worker away; where it died within a test, fail that test and let another worker go on."""
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join()
        if not worker.pending:
            if worker.process.exitcode:
                session.shouldfail = f"a worker process ended with exit status {worker.process.exitcode}"
            return
        index = worker.pending.popleft()
        _log(session, index, [_died(session.items[index], worker.process.exitcode)])
        self._waiting.extendleft(reversed(worker.pending))
        self._start(session, index)


def _make_temporary_folder(config: pytest.Config) -> None:
    """Make the folder of `tmp_path`, which the first to ask for it would empty for the others."""
    factory: Any = getattr(config, "_tmp_path_factory", None)
    if factory is not None:
        factory.getbasetemp()


def _log(session: pytest.Session, index: int, reports: list[Any]) -> None:
    hook, item = session.config.hook, session.items[index]
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _died(item: pytest.Item, status: int) -> pytest.TestReport:
    said = f"the worker process ended within this test, with exit status {status}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")


@attrs.define(eq=False)
class _Reports:
    """The plugin of a worker: collects the reports of one test."""

    config: pytest.Config
    reports: list[pytest.TestReport] = attrs.field(factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a report."""
        self.reports.append(report)


def _work(session: pytest.Session, connection: Connection, number: int, of_parent: Sequence[Connection]) -> None:
    """Run tests until the parent has no more; then end as an interpreter does, which a fork would not.

    The parent's ends are closed here, or a worker would not notice that the parent has died.
    """
    for inherited in of_parent:
        inherited.close()
    os.environ["TESTS_WORKER"] = f"w{number}"
    try:
        _run_tests(session, connection)
    except (KeyboardInterrupt, EOFError, ConnectionError):  # the parent ends, or has ended
        pass
    finally:
        atexit._run_exitfuncs()


def _run_tests(session: pytest.Session, connection: Connection) -> None:
    manager, hook = session.config.pluginmanager, session.config.hook
    _capture_alone(manager)
    manager.unregister(name="terminalreporter")
    collected = _Reports(session.config)
    manager.register(collected)
    indices = _indices(connection)
    item = next(indices, None)
    while item is not None:
        following = next(indices, None)
        nextitem = None if following is None else session.items[following]
        hook.pytest_runtest_protocol(item=session.items[item], nextitem=nextitem)
        connection.send(collected.reports)
        collected.reports = []
        item = following


def _capture_alone(manager: pytest.PytestPluginManager) -> None:
    """Capture output in a file of this process: forks share the position in the parent's."""
    capture: Any = manager.getplugin("capturemanager")
    if capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()


def _indices(connection: Connection) -> Iterator[int]:
    """Yield the tests to run, asking for the next chunk when one is used up."""
    while True:
        connection.send([])
        chunk = connection.recv()
        if not chunk:
            return
        yield from chunk
