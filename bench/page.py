"""The page with 2,000 instances: bytes, time to answer and to paint, and its cost for the operator.

python -m bench.page [--instances 2000]

`run` as a standby process over HTTP on the embedded API server, with full caches, with the page and without it. Memory
is the process's resident memory; processor time is its own. Times by the clock are medians.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.machine import describe, line
from kubelab.cluster.access import write_kubeconfig
from kubelab.cluster.definitions import install
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.resources import LEASE, NAMESPACE
from purekube.apimachinery.timestamps import microtime
from purekube.ports import PatchType
from tests.support.browser import browser, missing
from tests.support.commands import free_port
from tests.support.page_site import Follower, degraded, get, instance, instance_ref, ready
from tests.support.server_thread import served
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

ROUNDS: Final = 20
FOLLOWERS: Final = 10
CHANGES: Final = 200
NAMESPACES: Final = 20
LAST_SEEN: Final = 180
"""The last change that is visible on the first page, whose rows are sorted by namespace."""
OWN: Final = "vworkspace-system"
TICKS: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print every number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=2000)
    instances = parser.parse_args().instances
    print(describe())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = fleet(instances)
        write_kubeconfig(kubeconfig := folder / "kubeconfig", stack.enter_context(served(server)))
        with operator(kubeconfig, "none") as (_, process):
            without = resident(process)
        with operator(kubeconfig, "open") as (url, process):
            print(f"memory of `run` with {instances} instances cached, without a page: {without:.1f} MB")
            print(f"  more with one that nobody has looked at: {resident(process) - without:.1f} MB")
            answers(url, process)
            print(f"  more once it is looked at: {resident(process) - without:.1f} MB")
            follow(url, process, server)
            print(f"  more after {FOLLOWERS} followed {CHANGES} changes: {resident(process) - without:.1f} MB; aim: 20")
            if missing():
                print(missing())
            else:
                paints(url)


def fleet(instances: int) -> ApiServer:
    """Return an API server with `instances` instances, and a Lease with another holder."""
    server = ApiServer(now=lambda: datetime.now(UTC))
    install(server, [*crd_manifests(), *flux_crds()])
    api = InProcessKube(server)
    for name in (OWN, *(f"team-{number:02}" for number in range(NAMESPACES))):
        run_sync(api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="bench"))
    lease = {
        "holderIdentity": "somebody-else",
        "leaseDurationSeconds": 86400,
        "renewTime": microtime(datetime.now(UTC)),
    }
    manifest = {**LEASE.manifest("vworkspace-operator", OWN), "spec": lease}
    run_sync(api.create(manifest, kind=LEASE, field_manager="somebody"))
    for number in range(instances):
        name, namespace = f"app-{number:04}", f"team-{number % NAMESPACES:02}"
        run_sync(api.create(instance(name, namespace), kind=APPLICATION_INSTANCE, field_manager="bench"))
        tell(api, number, degraded("no such image") if number % 100 == 7 else ready())
    return server


def tell(api: InProcessKube, number: int, status: Any) -> None:
    """Write the status of one instance."""
    ref = instance_ref(f"app-{number:04}", f"team-{number % NAMESPACES:02}")
    asked = api.patch(
        ref, {"status": status}, patch_type=PatchType.MERGE, field_manager="operator", subresource="status"
    )
    run_sync(asked)


@contextmanager
def operator(kubeconfig: Path, page: str) -> Iterator[tuple[str, int]]:
    """Run `run` as a standby process; yield its address and id once its caches are full."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "vworkspace_app", "run", "--kubeconfig", str(kubeconfig), "--no-agent"]
    command += ["--cluster-id", "c", "--listen", address, "--leader-elect", "--page", page, "--log-level", "error"]
    process = subprocess.Popen(command)
    try:
        wait(lambda: _answers(f"http://{address}"))
        time.sleep(2.0)  # the remaining work of the start
        yield f"http://{address}", process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return get(url, "/readyz").status == 200
    except OSError:
        return False


def wait(holds: Callable[[], bool]) -> None:
    """Wait until `holds` returns true."""
    while not holds():
        time.sleep(0.05)


def resident(process: int) -> float:
    """Return the resident megabytes of a process."""
    with open(f"/proc/{process}/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor(process: int) -> float:
    """Return the seconds of processor time of a process so far."""
    with open(f"/proc/{process}/stat", encoding="ascii") as text:
        fields = text.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def answers(url: str, process: int) -> None:
    """Measure the server's time to answer, and the size of its answers."""
    before, began = processor(process), time.perf_counter()
    page = get(url, "/")
    first = time.perf_counter() - began
    print(f"first look, a row made of each: {first * 1000:.0f} ms, {processor(process) - before:.2f} s of processor")
    print(f"the fleet's first page: {len(page.text.encode()) / 1000:.1f} kB; aim: 150")
    assets = sum(
        len(get(url, f"/assets/{name}").text.encode()) for name in ("page.css", "page.js", "theme.js", "icon.svg")
    )
    print(f"what it loads, once: {assets / 1000:.1f} kB")
    instance_page = f"/object/{APPLICATION_INSTANCE.crd_name}/team-00/app-0000"
    for path in ("/", "/?state=Degraded", "/?q=app-19", instance_page, "/timeline", "/operator"):
        before, times = processor(process), list[float]()
        for _ in range(ROUNDS):
            began = time.perf_counter()
            assert get(url, path).status == 200
            times.append((time.perf_counter() - began) * 1000)
        print(
            line(f"{path}: answered", times, "ms")
            + f"; {(processor(process) - before) / ROUNDS * 1000:.0f} ms of processor"
        )


def follow(url: str, process: int, server: ApiServer) -> None:
    """Measure the cost of changes while ten clients follow."""
    followers = [Follower(url, "/") for _ in range(FOLLOWERS)]
    received = sum(len(str(follower.next().data)) for follower in followers)
    before = processor(process)
    time.sleep(5.0)
    print(f"{FOLLOWERS} follow, nothing changes: {(processor(process) - before) / 5 * 100:.1f} % of a processor")
    before, api = processor(process), InProcessKube(server)
    for number in range(CHANGES):
        tell(api, number, ready(message=f"change {number}"))
        time.sleep(0.02)
    for follower in followers:
        received += len(str(follower.until(lambda event: f"change {LAST_SEEN}" in str(event.data)).data))
    print(f"{CHANGES} changes told to {FOLLOWERS}: {processor(process) - before:.2f} s of processor")
    for follower in followers:
        follower.close()


def paints(url: str) -> None:
    """Measure the paint times in Chromium."""
    script = """const [page] = performance.getEntriesByType('navigation');
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        return [paint ? paint.startTime : 0, page.domContentLoadedEventEnd]"""
    first, listed = list[float](), list[float]()
    with browser() as window:
        for _ in range(ROUNDS):
            window.get(url)
            time.sleep(0.2)
            painted, loaded = window.execute_script(script)
            first.append(painted)
            listed.append(loaded)
    print(line("first contentful paint", first, "ms", "under 200"))
    print(line("all rows of the page in the document", listed, "ms", "under 1000"))


if __name__ == "__main__":
    main()
