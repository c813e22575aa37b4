"""An examination: an API server, a proxy in front of it, an operator that connects through the proxy, and checks.

Checks share one process of the operator and run at the same time, each in its own namespaces, except those that disturb
the process or the whole cluster.
"""

import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

import anyio
import attrs
import yaml
from anyio.abc import TaskGroup

from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.http.serving import kubeconfig
from purekube.apimachinery.errors import NotFound, OperatorError, unwrap_group
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import PatchType, Propagation
from purekube_http import KubeApiClient, load_config
from purekube_http.forwarding import Forwarder
from purekube_run.controller.lookups import find
from purekube_run.examination.audit import Audit, RecordedRequest, Where
from purekube_run.examination.leavings import Leavings
from purekube_run.examination.operator_process import OperatorCommand, OperatorProcess
from purekube_run.examination.patience import first_true, no_wait
from purekube_run.examination.proxy import Proxy, ProxyFault
from purekube_run.examination.verdicts import Broken, Check, Finding, NotTried, Verdict
from purekube_run.process.command_line import CommandError

T = TypeVar("T")
C = TypeVar("C", bound="Case")

HUMAN: Final = "kubectl-edit"
"""The field manager of the user whom the examiner plays."""
_BESIDE: Final = 6
_STARTS: Final = 60.0
_REMOVAL: Final = 20.0
"""The maximum number of seconds for removing what is left in a cluster that lasts."""


@attrs.define(eq=False)
class Examination:
    """The environment that all checks share: the API server, the proxy, and the processes of the examined operator.

    A check waits up to `patience` seconds for an effect of the operator. The operator counts as started once it watches
    the kind `primary`.
    """

    api: KubeApiClient
    group: TaskGroup
    proxy: Proxy
    command: OperatorCommand
    primary: Kind
    folder: Path
    patience: float
    values: Mapping[str, str] = attrs.field(factory=dict)
    has: frozenset[str] = frozenset()
    """The needs that this examination meets, by the names in `Check.needs`. Checks with other needs are not tried."""
    played: Mapping[str, Any] = attrs.field(factory=dict)
    """The inputs that the examiner provides to all checks, by name, such as the sample, or fakes of other services."""
    keep: bool = False
    processes: list[OperatorProcess] = attrs.field(factory=list)
    cleaning: int = 0
    """The number of finished checks whose namespaces are still being deleted."""
    leavings: Leavings = attrs.field(init=False)
    """The namespaces and cluster-scoped objects that the examiner has created."""
    _starting: anyio.Lock = attrs.field(factory=anyio.Lock)

    def __attrs_post_init__(self) -> None:
        self.leavings = Leavings(self.api)

    @property
    def audit(self) -> Audit:
        """The record of all requests that the operator's processes sent through the proxy."""
        return self.proxy.audit

    @property
    def operator(self) -> OperatorProcess:
        """The operator process that started last."""
        return self.processes[-1]

    # --- the operator ------------------------------------------------------------------------------------------------

    async def start(self, command: OperatorCommand | None = None) -> OperatorProcess:
        """Start a process of the operator, whose requests go through the proxy, and wait until it watches the kind
        `primary`.

        `command` starts it, by default the command of the examination.
        """
        number, since = len(self.processes) + 1, self.audit.number
        url = await self.group.start(self.proxy.serve, number)
        path = self.folder / f"kubeconfig-{number}"
        path.write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
        words = (command or self.command).words({**self.values, "kubeconfig": str(path)})
        log = self.folder / f"operator-{number}.log"
        process = OperatorProcess(number, words, {"KUBECONFIG": str(path)}, log)
        self.processes.append(process)
        self.proxy.on_kill = self._killed
        await self.watching(process, since)
        return process

    async def watching(self, process: OperatorProcess, since: int) -> None:
        """Wait until the process opens a watch of the kind `primary`, after the request with the number `since`.

        Raises DidNotStart if the process ends, or does not open the watch in time.
        """
        kind = self.primary

        def watches(call: RecordedRequest) -> bool:
            return call.process == process.number and call.verb == "watch" and call.is_of(kind) and call.status == 200

        async def opened() -> RecordedRequest | None:
            if process.status is not None:
                raise DidNotStart(f"the operator ended with status {process.status}:\n{process.last_lines}")
            return await self.audit.until(watches, 0.2, since)

        began = anyio.current_time()
        if await first_true(opened, _STARTS) is None:
            waited = anyio.current_time() - began
            raise DidNotStart(f"the operator watches no {kind.plural} after {round(waited)} s:\n{process.last_lines}")

    def end(self) -> None:
        """Kill every process of the operator."""
        for process in self.processes:
            process.kill()

    async def restart(self) -> OperatorProcess:
        """Kill the operator's last process if it still runs, and start a new process."""
        self._killed(self.operator.number)
        return await self.start()

    def _killed(self, number: int) -> None:
        for process in self.processes:
            if process.number == number:
                process.kill()
                self.proxy.hang_up(number)

    # --- checks ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        checks: Sequence[Check[C]],
        case: "Callable[[Examination, Check[C]], C]",
        on_finding: Callable[[Finding], None],
    ) -> list[Finding]:
        """Run `checks`, and return their findings in the same order.

        For each check, `case` returns a new run, which is opened (`async with`) and passed to the check's function.
        `on_finding` is called with each finding as soon as its check ends.
        """
        findings: dict[Check[C], Finding] = {}
        limit = anyio.Semaphore(_BESIDE)

        async def run_one(check: Check[C]) -> None:
            async with limit:
                findings[check] = await self._finding(check, case)
                on_finding(findings[check])

        async with anyio.create_task_group() as group:
            for check in [check for check in checks if not check.alone]:
                group.start_soon(run_one, check)
        for check in [check for check in checks if check.alone]:
            await run_one(check)
        await first_true(no_wait(lambda: not self.cleaning), self.patience)
        return [findings[check] for check in checks]

    async def _finding(self, check: Check[C], case: "Callable[[Examination, Check[C]], C]") -> Finding:
        began = self.audit.seconds
        message, evidence = "", tuple[str, ...]()
        try:
            message, evidence = await self._examined(check, case)
            verdict = Verdict.PASS
        except Broken as broken:
            verdict, message, evidence = Verdict.FAIL, broken.message, broken.evidence
        except NotTried as reason:
            verdict, message = Verdict.NOT_TRIED, str(reason)
        seconds = self.audit.seconds - began
        return Finding(check.clause, check.sentence, verdict, message, evidence, seconds, check.name)

    async def _run_operator(self) -> None:
        """Start a process of the operator if the last one has ended. Raises NotTried if it does not start.

        Checks that begin at the same time start one process together.
        """
        async with self._starting:
            if self.operator.status is None:
                return
            try:
                await self.restart()
            except DidNotStart as error:
                raise NotTried(f"the operator does not start again: {error}") from error

    async def _examined(
        self, check: Check[C], case: "Callable[[Examination, Check[C]], C]"
    ) -> tuple[str, tuple[str, ...]]:
        if missing := sorted(check.needs - self.has):
            raise NotTried(f"needs {', '.join(missing)}")
        await self._run_operator()
        try:
            async with AsyncExitStack() as stack:
                running = case(self, check)
                stack.push_async_exit(running.__aexit__)  # also for what a run that cannot begin has created
                await running.__aenter__()
                await check.body(running)
                return "", tuple(running.evidence)
        except DidNotStart as error:
            raise Broken(f"the operator does not start again: {error}") from error
        except OperatorError as error:
            raise NotTried(f"the examiner's own request was refused: {error.message}") from error
        finally:
            if check.alone:
                self.operator.resume()


class DidNotStart(CommandError):
    """The error raised when a process of the operator ends at once, or does not open its watch in time."""


class Case:
    """One run of a check of an operator, which the check's function gets as its argument.

    The run has a namespace of its own. Its methods change objects as a user would, and return the requests that the
    operator sent since the run began, or with `since` only those after the request with that number.
    """

    labels: ClassVar[Mapping[str, str]] = {}
    """The labels of the namespace that is created for each run."""
    held: Sequence[Kind] = ()
    """The kinds of namespaced objects on which finalizers of the operator may be left when it no longer runs."""

    def __init__(self, examination: Examination, check: Check[Any]) -> None:
        self.examination = examination
        self.check = check
        self.api = examination.api
        self.audit = examination.audit
        self.proxy = examination.proxy
        self.namespace = f"examined-{secrets.token_hex(3)}"
        self.since = self.audit.number
        self.evidence: list[str] = []
        self._namespaces: list[ObjectRef] = []

    async def __aenter__(self) -> Self:
        await self.make_namespace(self.namespace, self.labels)
        return self

    async def __aexit__(self, *error: Any) -> None:
        if not self.examination.keep:
            self.examination.cleaning += 1
            self.examination.group.start_soon(self._clean)

    async def _clean(self) -> None:
        """Delete the namespaces of the check. Other checks may run meanwhile."""
        try:
            for ref in self._namespaces:
                await self.examination.leavings.delete(ref)
            with suppress(OperatorError):  # the end of the examination tries again
                await self.clean()
        finally:
            self.examination.cleaning -= 1

    async def clean(self) -> None:
        """Delete what the check has left outside its namespaces, which are deleted anyway. By default there is nothing.

        A subclass overrides this method if there is something to delete.
        """

    @property
    def patience(self) -> float:
        """The seconds within which the operator must show an effect."""
        return self.examination.patience

    @property
    def quiet(self) -> float:
        """The seconds for which a check waits before it concludes that something does not happen."""
        return min(3.0, self.patience / 4)

    # --- acting ------------------------------------------------------------------------------------------------------

    async def make_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a namespace, which is deleted after the check unless the examination's option `keep` is set. `labels`
        are its labels.
        """
        made = NAMESPACE.manifest(name, metadata={"labels": dict(labels)})
        live = await self.api.create(made, kind=NAMESPACE, field_manager=HUMAN)
        self._namespaces.append(self.examination.leavings.add(live, NAMESPACE))
        for kind in self.held:
            self.examination.leavings.holds(kind, name)

    async def apply(self, manifest: Manifest, kind: Kind, manager: str = "gitops") -> ObjectRef:
        """Apply an object with force, as a GitOps tool does, and return its reference.

        `manager` is the field manager.
        """
        await self.api.apply(manifest, kind=kind, field_manager=manager, force=True)
        return ref_of(manifest, kind)

    async def edit(self, ref: ObjectRef, change: Any, subresource: str = "", manager: str = HUMAN) -> Manifest:
        """Edit an object, or its `subresource` if one is named, by the merge patch `change`, and return the resulting
        object.

        `manager` is the field manager, by default that of a user.
        """
        return await self.api.patch(
            ref, change, patch_type=PatchType.MERGE, field_manager=manager, subresource=subresource
        )

    async def delete(self, ref: ObjectRef, propagation: Propagation = Propagation.BACKGROUND) -> None:
        """Delete an object as a user does. Do nothing if the object does not exist.

        `propagation` says whether its dependents are deleted before it, after it, or not at all.
        """
        with suppress(NotFound):
            await self.api.delete(ref, propagation=propagation)

    # --- looking -----------------------------------------------------------------------------------------------------

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """Return an object as it is now, or None if it does not exist."""
        return await find(self.api, ref)

    def of(self, ref: ObjectRef, test: Callable[[Manifest], T]) -> Callable[[], Awaitable[T]]:
        """Return a function that reads an object, and returns what `test` says of it: `{}` if it does not exist."""

        async def look() -> T:
            return test(await self.get(ref) or {})

        return look

    async def objects(self, kind: Kind, namespace: str | None = None) -> Sequence[Manifest]:
        """Return the objects of a kind in `namespace`, by default in the namespace of the check."""
        where = (namespace or self.namespace) if kind.namespaced else None
        try:
            return (await self.api.list(kind, namespace=where)).items
        except OperatorError:
            return ()

    async def seen(self, look: Callable[[], Awaitable[T | None]], seconds: float | None = None) -> T | None:
        """Call `look` repeatedly until its result is true, and return that result, or None after `seconds`.

        The default for `seconds` is `patience`. On a busy machine the wait is longer.
        """
        return await first_true(look, self.patience if seconds is None else seconds)

    async def until(self, what: str, look: Callable[[], Awaitable[T | None]], seconds: float | None = None) -> T:
        """Call `look` repeatedly until its result is true, and return that result.

        Raises Broken after `seconds`, by default `patience`; the message names the expected effect `what`.
        """
        began = anyio.current_time()
        if (result := await self.seen(look, seconds)) is None:
            waited = anyio.current_time() - began
            raise Broken(f"{what}: not within {round(waited)} s", *await self.evidence_now(), *self._ends())
        assert result is not None
        return result

    def _ends(self) -> list[str]:
        process = self.examination.operator
        if process.status is None:
            return []
        return [f"the operator's process ended with status {process.status}: {process.last_lines}"]

    async def required(self, what: str, look: Callable[[], Awaitable[T | None]], seconds: float | None = None) -> T:
        """Call `look` repeatedly until its result is true, and return that result.

        Raises NotTried after `seconds`, by default `patience`; the message names the missing precondition `what`.
        """
        if (result := await self.seen(look, seconds)) is None:
            raise NotTried(f"its stimulus did not come about: {what}")
        assert result is not None
        return result

    async def gone(self, ref: ObjectRef, what: str, seconds: float | None = None) -> None:
        """Wait until an object no longer exists.

        Raises Broken if it stays; the message names the expected effect `what`.
        """
        await self.until(what, partial(self.is_gone, ref), seconds)

    async def is_gone(self, ref: ObjectRef) -> bool:
        """Report whether an object does not exist now."""
        return await self.get(ref) is None

    async def met(self, fault: ProxyFault, what: str) -> None:
        """Wait until the proxy has applied `fault` to a request.

        Raises NotTried if that takes too long; the message names the missing precondition `what`.
        """
        await self.required(what, no_wait(lambda: bool(fault.hits)))

    async def evidence_now(self) -> list[str]:
        """Return lines of evidence for a wait that timed out: none by default. A subclass may override this method."""
        return []

    # --- requests ----------------------------------------------------------------------------------------------------

    def calls(self, test: Where = lambda call: True, since: int | None = None) -> list[RecordedRequest]:
        """Return the operator's requests in the check's namespace for which `test` returns True."""
        number = self.since if since is None else since
        return list(self.audit.where(lambda call: call.path.namespace == self.namespace and test(call), number))

    def writes(self, since: int | None = None) -> list[RecordedRequest]:
        """Return the operator's writes in the namespace of the check, including writes that were refused."""
        return self.calls(lambda call: call.writes, since)

    async def settled(self) -> int:
        """Wait until the operator has written nothing for `quiet` seconds.

        Return the number of the last request that was recorded before these seconds began. Raises Broken if the
        operator keeps writing.
        """

        async def at_rest() -> tuple[int] | None:
            number, before = self.audit.number, len(self.writes())
            await anyio.sleep(self.quiet)
            return (number,) if len(self.writes()) == before else None

        if (rest := await first_true(at_rest, 3 * self.patience + self.quiet)) is None:
            raise Broken(f"still writing after {3 * self.patience:g} s", *self.writes()[-3:])
        return rest[0]


@asynccontextmanager
async def open_examination(
    config: Any, command: OperatorCommand, primary: Kind, *, patience: float, keep: bool, lasts: bool = False
) -> AsyncIterator[Examination]:
    """Open an examination on the API server of `config`; all its processes and tasks end with the `async with` block.

    `command` starts the operator, which counts as started once it watches the kind `primary`. A check waits up to
    `patience` seconds for an effect. With `keep`, the folder with the operator's logs and the namespaces of checks are
    not deleted. If the cluster `lasts` longer than the examination, everything that the examiner has created in it is
    removed, even after an error or a signal.
    """
    removes = lasts and not keep
    forwarder = Forwarder(config)
    folder = Path(tempfile.mkdtemp(prefix="examination-"))
    try:
        async with KubeApiClient(config) as api, anyio.create_task_group() as group:
            proxy = Proxy(forwarder, Audit())
            examination = Examination(api, group, proxy, command, primary, folder, patience, keep=keep)
            try:
                yield examination
                if removes:
                    await examination.leavings.until_gone(patience)
            finally:
                examination.end()
                if removes:
                    with anyio.move_on_after(_REMOVAL, shield=True):
                        await examination.leavings.release(_say_released)
                group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrap_group(errors) from None
    finally:
        with anyio.CancelScope(shield=True):
            await forwarder.close()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say_released(ref: ObjectRef) -> None:
    print(f"{ref}: the examiner removed the finalizers, which the operator had left", file=sys.stderr)


@asynccontextmanager
async def cluster_for(
    kubeconfig_path: Path | None, crds: Sequence[Manifest], simulate: str = ""
) -> AsyncIterator[tuple[Any, str]]:
    """Yield the client configuration of the cluster for an examination, and the cluster's name for reports.

    Without `kubeconfig_path`, the cluster is an embedded API server that serves the kinds of `crds`. `simulate` names
    the controllers that are simulated in it, separated by commas, such as `workloads,job`.
    """
    if kubeconfig_path is not None:
        config = load_config(kubeconfig_path)
        yield config, config.cluster.server
        return
    cluster = EmbeddedCluster.start(crds, simulate)
    async with cluster.serving() as url:
        with tempfile.TemporaryDirectory(prefix="examination-") as folder:
            path = Path(folder, "kubeconfig")
            path.write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
            yield load_config(path), "embedded"
