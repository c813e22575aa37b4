"""A cluster of real controllers that runs for the duration of a `with` block."""

import base64
import json
import secrets
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from purekube_kit.kube_apiserver import (
    Assets,
    apiserver_command,
    audit_flags,
    etcd_command,
    free_ports,
    write_credentials,
)
from tools.cluster.build import Say, build, module_folder
from tools.cluster.components import ALWAYS, COMPONENTS, LOOPBACK, Component, Site, answers
from tools.cluster.front import Addresses, serving
from tools.cluster.pins import Pin, read_pins
from tools.cluster.processes import Command, Processes

VARIABLE: Final = "E2E_CLUSTER_FOLDER"
"""The environment variable with the folder of a running cluster, for tests."""
NODES: Final = 2
_SERVED: Final = 120.0
"""The seconds until CRDs are served."""


@attrs.frozen
class Cluster:
    """The paths and addresses of a running cluster, also stored in `cluster.json` of its folder."""

    folder: Path
    kubeconfig: Path
    operator_kubeconfig: Path
    registries: Addresses | None
    components: tuple[str, ...]
    versions: Mapping[str, str]
    """The version of each pin."""
    oldest: bool
    """The choice of the oldest promised versions instead of the newest."""
    storage: str
    """The address of the object storage, which runs with velero."""

    @classmethod
    def load(cls, folder: Path) -> "Cluster":
        """Return the cluster that runs with this folder."""
        held = json.loads((folder / "cluster.json").read_text(encoding="utf-8"))
        registries = Addresses(**held["registries"]) if held["registries"] else None
        places = (folder, folder / "kubeconfig", folder / "operator.kubeconfig")
        return cls(*places, registries, tuple(held["components"]), held["versions"], held["oldest"], held["storage"])

    def process(self, name: str) -> int:
        """Return the current id of a process: a killed process is restarted with another."""
        return int(json.loads((self.folder / "processes.json").read_text(encoding="utf-8"))[name])

    def log(self, name: str) -> str:
        """Return the whole log of a process."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def pins_of(wanted: Sequence[str], *, oldest: bool = False) -> dict[str, Pin]:
    """Return the pins whose programs a cluster with these components runs, by the name of the tool."""
    pins = read_pins(oldest=oldest)
    return {name: pins[name] for component in (*ALWAYS, *wanted) for name in COMPONENTS[component].pins}


@contextmanager
def running(
    wanted: Sequence[str],
    say: Say,
    *,
    keep: bool = False,
    audit: str = "",
    oldest: bool = False,
    embedded: bool = False,
) -> Iterator[Cluster]:
    """Start a cluster with the chosen components of `CHOICE`, and stop it after the block.

    Raises CannotBuild, CannotStart.

    `keep` preserves its folder, with data and logs; `audit` is kube-apiserver's policy for `audit.log`; `oldest` runs
    the oldest promised versions; `embedded` runs the controllers on the embedded API server.
    """
    components = [COMPONENTS[name] for name in (*ALWAYS, *wanted)]
    pins = pins_of(wanted, oldest=oldest)
    programs = build(pins.values(), say)
    with ExitStack() as stack:
        folder = _folder(stack, keep)
        processes = Processes(folder)
        stack.callback(processes.end)
        began = time.monotonic()
        if embedded:
            _start_embedded(processes, folder)
        else:
            _start_api(processes, programs, folder, audit)
        storage = f"{LOOPBACK}:{_port()}"
        site = Site(programs, folder, folder / "kubeconfig", _port, folder / "trusted.crt", storage)
        registries = _registries(stack, processes, site) if "flux" in wanted else None
        _install(components, pins, programs, folder)
        for component in components:
            for command in component.commands(site):
                processes.start(command)
        held = {
            "registries": registries and attrs.asdict(registries),
            "components": list(wanted),
            "versions": {name: pin.version for name, pin in pins.items()},
            "oldest": oldest,
            "storage": storage,
        }
        (folder / "cluster.json").write_text(json.dumps(held, indent=1), encoding="utf-8")
        say(f"the cluster is up after {time.monotonic() - began:.0f} s: {', '.join((*ALWAYS, *wanted))}")
        yield Cluster.load(folder)


def _folder(stack: ExitStack, keep: bool) -> Path:
    if keep:
        return Path(tempfile.mkdtemp(prefix="vworkspace-cluster-"))
    return Path(
        stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-cluster-", ignore_cleanup_errors=True))
    )


def _port() -> int:
    return free_ports(1)[0]


def _start_api(processes: Processes, programs: Path, folder: Path, audit: str) -> None:
    """Start etcd and kube-apiserver, and write the kubeconfigs of an administrator and of the operator."""
    certificates = certificates_for(("localhost", LOOPBACK), datetime.now(UTC))
    token, operator = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
    write_credentials(folder, certificates, token, operator)
    (folder / "authority.crt").write_bytes(certificates.authority)
    assets = Assets(programs / "etcd", programs / "kube-apiserver")
    client, peer, port = free_ports(3)
    health = f"http://{LOOPBACK}:{client}/health"
    processes.start(Command("etcd", etcd_command(assets, folder / "etcd", client, peer), lambda: answers(health)))
    url, authority = f"https://{LOOPBACK}:{port}", certificates.authority
    flags = [flag for flag in apiserver_command(assets, folder, port, client) if "admission-plugins" not in flag]
    if audit:
        flags += audit_flags(folder / "audit.log", audit)
    ready = lambda: answers(f"{url}/readyz", authority=authority.decode(), token=token)  # noqa: E731
    processes.start(Command("kube-apiserver", flags, ready))
    _write_private(folder / "kubeconfig", kubeconfig(url, token, authority=authority))
    _write_private(folder / "operator.kubeconfig", kubeconfig(url, operator, authority=authority))


def _start_embedded(processes: Processes, folder: Path) -> None:
    """Start the embedded API server, and write the kubeconfigs of an administrator and of the operator."""
    admin, operator, (port,) = folder / "kubeconfig", secrets.token_urlsafe(16), free_ports(1)
    write_credentials(folder, certificates_for((LOOPBACK,), datetime.now(UTC)), secrets.token_urlsafe(16), operator)
    serve = [sys.executable, "-m", "kubelab", "serve", f"--port={port}", "--tls", f"--kubeconfig-out={admin}"]
    access = [
        f"--token={secrets.token_urlsafe(16)}",
        f"--tokens={folder / 'tokens.csv'}",
        "--rbac",
        "--service-accounts",
    ]
    log = f"--audit-log={folder / 'audit.log'}"
    processes.start(Command("kubelab", [*serve, *access, log], lambda: admin.is_file() and bool(admin.read_bytes())))
    known = yaml.safe_load(admin.read_text(encoding="utf-8"))
    (folder / "authority.crt").write_bytes(
        base64.b64decode(known["clusters"][0]["cluster"]["certificate-authority-data"])
    )
    known["users"][0]["user"] = {"token": operator}
    _write_private(folder / "operator.kubeconfig", known)


def _write_private(path: Path, content: dict[str, Any]) -> None:
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


def _registries(stack: ExitStack, processes: Processes, site: Site) -> Addresses:
    port = _port()
    ready = lambda: answers(f"http://{LOOPBACK}:{port}/v2/")  # noqa: E731
    processes.start(Command("registry", [str(site.programs / "registry"), f"-port={port}"], ready))
    registries = stack.enter_context(serving(port))
    known = ssl.get_default_verify_paths().cafile
    public = Path(known).read_text(encoding="utf-8") if known and Path(known).is_file() else ""
    site.trusted.write_text(public + registries.authority, encoding="utf-8")
    return registries


def _install(components: Iterable[Component], pins: Mapping[str, Pin], programs: Path, folder: Path) -> None:
    """Apply the components' namespaces, CRDs and objects, and the nodes."""
    kubectl = [str(programs / "kubectl"), f"--kubeconfig={folder / 'kubeconfig'}"]
    files = [
        file
        for component in components
        for pin, module, pattern in component.crds
        for file in sorted(module_folder(pins[pin], module).glob(pattern))
    ]
    objects = [_namespace(name) for component in components for name in component.namespaces]
    objects += [dict(obj) for component in components for obj in component.objects]
    objects += [_node(number) for number in range(NODES)]
    _kubectl([*kubectl, "apply", "--server-side", "-f", "-"], yaml.safe_dump_all(objects))
    if files:
        _kubectl([*kubectl, "apply", "--server-side", *(f"--filename={file}" for file in files)])
        _kubectl([*kubectl, "wait", "--for=condition=Established", f"--timeout={_SERVED:.0f}s", "crd", "--all"])


def _kubectl(command: list[str], given: str = "") -> None:
    subprocess.run(command, input=given, check=True, capture_output=True, text=True)


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
