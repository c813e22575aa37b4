"""The measured operators as processes, this one and one written with kopf, and the cluster that each runs on."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from bench import writes
from bench.reaching import Access
from purekube_kit.kube_apiserver import OPERATOR_USER

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
KOPF_OPERATOR = ROOT / "bench" / "kopf_operator.py"
CLUSTER, TOKEN = "cluster-bench", "bench-agent-token-0123456789"


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Program:
    """A started operator."""

    name: str
    process: "subprocess.Popen[bytes]"

    def processor_seconds(self) -> float:
        return processor_seconds(self.process.pid)

    def peak_megabytes(self) -> float:
        rows = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return int(next(row for row in rows if row.startswith("VmHWM")).split()[1]) / 1024

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@attrs.frozen
class Stage:
    """A cluster, and a control plane without jobs."""

    access: Access
    control_url: str
    folder: Path
    process: int
    """The process id of the API server, or of the process that started it."""

    @property
    def audit(self) -> Path:
        return self.folder / "audit"

    def server_processor_seconds(self) -> float:
        """Return the processor time of the API server: kube-apiserver without its etcd, or the embedded one."""
        return processor_seconds(process_named("kube-apiserver", self.process) or self.process)

    def writes(self, *, but: str) -> int:
        """Return the number of the operator's writes so far; see `bench.writes`."""
        return writes.count(self.audit.read_bytes(), user=OPERATOR_USER, but=but)


def process_named(name: str, parent: int | None = None) -> int:
    """Return the process of that name that a process (this one by default) started, or 0."""
    of = parent or os.getpid()
    for pid in Path(f"/proc/{of}/task/{of}/children").read_text(encoding="ascii").split():
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == name:
            return int(pid)
    return 0


@contextmanager
def stage(*words: str) -> Iterator[Stage]:
    """Run a new cluster; `words` are further arguments of `bench.stage`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-bench-")))
        command = [sys.executable, "-m", "bench.stage", str(folder / "audit"), *words]
        cluster, announced = _started(stack, command)
        access = Access(**json.loads(announced))
        control = ["--cluster-id", CLUSTER, "--token", TOKEN, "--admin-token", "admin-" + TOKEN]
        _, served = _started(stack, [str(BIN / "vworkspace-operator"), "control-plane", *control])
        (folder / "token").write_text(TOKEN, encoding="utf-8")
        text = json.dumps(access.kubeconfig(access.operator))
        (folder / "kubeconfig").write_text(text, encoding="utf-8")
        yield Stage(access, served.split()[1], folder, cluster.pid)


def _started(stack: ExitStack, command: Sequence[str]) -> "tuple[subprocess.Popen[str], str]":
    """Start a process; return it and the first line that it prints."""
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
    stack.callback(_ended, process)
    assert process.stdout is not None
    return process, process.stdout.readline()


def _ended(process: "subprocess.Popen[str]") -> None:
    """Terminate a process, which lets it stop the processes that it started; kill it after 20 s."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def ours(on: Stage) -> Program:
    words = ["run", "--kubeconfig", str(on.folder / "kubeconfig"), "--control-plane-url", on.control_url]
    words += ["--cluster-id", CLUSTER, "--token-file", str(on.folder / "token")]
    return program("ours", [str(BIN / "vworkspace-operator"), *words], on)


def kopfs(on: Stage) -> Program:
    words = ["run", "--standalone", "--all-namespaces", str(KOPF_OPERATOR)]
    return program("kopf", [str(BIN / "kopf"), *words], on)


def program(name: str, command: Sequence[str], on: Stage) -> Program:
    log = (on.folder / f"{name}.log").open("ab")
    environment = {**os.environ, "KUBECONFIG": str(on.folder / "kubeconfig")}
    return Program(name, subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROOT))


Start: TypeAlias = Callable[[Stage], Program]


@contextmanager
def started(start: Start, on: Stage) -> Iterator[Program]:
    running = start(on)
    try:
        yield running
    finally:
        running.stop()
