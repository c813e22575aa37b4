"""The components of a cluster, each with its programs, kinds and commands."""

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tools.cluster.processes import Command

LOOPBACK: Final = "127.0.0.1"
BUCKET: Final = "backups"
"""The bucket of the object storage."""
STAGES: Final = Path(__file__).resolve().parent / "stages.yaml"


@attrs.frozen
class Site:
    """The context of a component's commands: programs, a folder for its files, the kubeconfig, free ports."""

    programs: Path
    folder: Path
    kubeconfig: Path
    port: Callable[[], int]
    trusted: Path
    """The certificate authorities that controllers trust, including the registries' own."""
    storage: str
    """The address of the object storage, if a component has one."""


@attrs.frozen
class Component:
    """A component of a cluster that can be chosen by its name.

    `crds` are files of CRDs, as (pin, module, pattern in its folder); `namespaces` and `objects` are created before it
    starts.
    """

    name: str
    pins: Sequence[str]
    commands: Callable[[Site], Iterator[Command]]
    crds: Sequence[tuple[str, str, str]] = ()
    namespaces: Sequence[str] = ()
    objects: Sequence[Mapping[str, Any]] = ()


def answers(url: str, *, authority: str = "", token: str = "") -> bool:
    """Report whether an address answers 200; without an authority any certificate is accepted."""
    trust = ssl.create_default_context(cadata=authority) if authority else ssl._create_unverified_context()
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=trust if url.startswith("https") else None) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def _examined(site: Site) -> Iterator[Command]:
    """Start nothing: `conformance controller` starts the program."""
    yield from ()


def _kubernetes(site: Site) -> Iterator[Command]:
    yield _control_plane(
        site,
        "kube-controller-manager",
        f"--service-account-private-key-file={site.folder / 'accounts.key'}",
        f"--root-ca-file={site.folder / 'authority.crt'}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )
    yield _control_plane(site, "kube-scheduler")


def _control_plane(site: Site, name: str, *flags: str) -> Command:
    port = site.port()
    arguments = [
        str(site.programs / name),
        f"--kubeconfig={site.kubeconfig}",
        *flags,
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={site.folder / name}",
    ]
    return Command(name, arguments, lambda: answers(f"https://{LOOPBACK}:{port}/healthz"))


def _kwok(site: Site) -> Iterator[Command]:
    port = site.port()
    yield Command(
        "kwok",
        [
            str(site.programs / "kwok"),
            f"--kubeconfig={site.kubeconfig}",
            f"--config={STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            "--cidr=10.1.0.0/16",
            f"--server-address={LOOPBACK}:{port}",
        ],
        lambda: answers(f"http://{LOOPBACK}:{port}/healthz"),
    )


def _flux(site: Site) -> Iterator[Command]:
    storage = site.port()
    served = f"{LOOPBACK}:{storage}"
    source = (
        f"--storage-path={_made(site.folder / 'artifacts')}",
        f"--storage-addr={served}",
        f"--storage-adv-addr={served}",
    )
    yield _flux_controller(site, "source-controller", *source)
    yield _flux_controller(site, "helm-controller")


def _flux_controller(site: Site, name: str, *flags: str) -> Command:
    health, metrics = site.port(), site.port()
    return Command(
        name,
        [
            str(site.programs / name),
            "--watch-all-namespaces=true",
            "--log-level=debug",
            f"--health-addr={LOOPBACK}:{health}",
            f"--metrics-addr={LOOPBACK}:{metrics}",
            *flags,
        ],
        lambda: answers(f"http://{LOOPBACK}:{health}/readyz"),
        {
            "KUBECONFIG": str(site.kubeconfig),
            "RUNTIME_NAMESPACE": "flux-system",
            "SSL_CERT_FILE": str(site.trusted),
            "HOME": str(_made(site.folder / name)),
            "TMPDIR": str(_made(site.folder / name)),
        },
    )


def _argo(site: Site) -> Iterator[Command]:
    yield Command(
        "workflow-controller",
        [
            str(site.programs / "argo-workflows"),
            f"--kubeconfig={site.kubeconfig}",
            "--namespace=argo",
            "--executor-image=registry.example.com/argoexec:1",
        ],
        lambda: answers(f"http://{LOOPBACK}:6060/healthz"),
        {"LEADER_ELECTION_DISABLE": "true"},
    )


def _snapshots(site: Site) -> Iterator[Command]:
    port = site.port()
    yield Command(
        "snapshot-controller",
        [
            str(site.programs / "snapshot-controller"),
            f"--kubeconfig={site.kubeconfig}",
            f"--http-endpoint={LOOPBACK}:{port}",
        ],
        lambda: answers(f"http://{LOOPBACK}:{port}/metrics"),
    )


def _volsync(site: Site) -> Iterator[Command]:
    health, metrics = site.port(), site.port()
    yield Command(
        "volsync",
        [
            str(site.programs / "volsync"),
            f"--kubeconfig={site.kubeconfig}",
            f"--health-probe-bind-address={LOOPBACK}:{health}",
            f"--metrics-bind-address={LOOPBACK}:{metrics}",
        ],
        lambda: answers(f"http://{LOOPBACK}:{health}/readyz"),
    )


def _velero(site: Site) -> Iterator[Command]:
    """Run the server with its plugin for S3, and an object storage with one bucket that forgets when it ends."""
    metrics, profiler, plugins = site.port(), site.port(), _made(site.folder / "velero-plugins")
    plugin = plugins / "velero-plugin-for-aws"
    plugin.symlink_to(site.programs / plugin.name)
    yield Command(
        "gofakes3",
        [str(site.programs / "gofakes3"), "-backend=memory", f"-initialbucket={BUCKET}", f"-host={site.storage}"],
        lambda: answers(f"http://{site.storage}/{BUCKET}"),
    )
    yield Command(
        "velero",
        [
            str(site.programs / "velero"),
            "server",
            f"--kubeconfig={site.kubeconfig}",
            f"--plugin-dir={plugins}",
            "--garbage-collection-frequency=1s",
            f"--metrics-address={LOOPBACK}:{metrics}",
            f"--profiler-address={LOOPBACK}:{profiler}",
        ],
        lambda: answers(f"http://{LOOPBACK}:{metrics}/metrics"),
        {"HOME": str(_made(site.folder / "velero")), "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"},
    )


def _cert_manager(site: Site) -> Iterator[Command]:
    health = site.port()
    yield Command(
        "cert-manager",
        [str(site.programs / "cert-manager"), f"--health-probe-bind-address={LOOPBACK}:{health}"],
        lambda: answers(f"http://{LOOPBACK}:{health}/readyz"),
        {"KUBECONFIG": str(site.kubeconfig)},
    )


def _kro(site: Site) -> Iterator[Command]:
    health, metrics = site.port(), site.port()
    yield Command(
        "kro",
        [
            str(site.programs / "kro"),
            f"--kubeconfig={site.kubeconfig}",
            f"--health-probe-bind-address={LOOPBACK}:{health}",
            f"--metrics-bind-address={LOOPBACK}:{metrics}",
        ],
        lambda: answers(f"http://{LOOPBACK}:{health}/readyz"),
    )


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _deployment(name: str, namespace: str) -> Mapping[str, Any]:
    """Return the Deployment of a controller that runs outside the cluster: it has no pods."""
    labels = {"app": name}
    containers = [{"name": name, "image": f"registry.example.com/{name}:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


_BASES: Final = "config/crd/bases/*.yaml"
COMPONENTS: Final[Mapping[str, Component]] = {
    component.name: component
    for component in (
        Component("kubernetes", ("etcd", "kubernetes"), _kubernetes),
        Component("kwok", ("kwok",), _kwok),
        Component(
            "flux",
            ("source-controller", "helm-controller", "registry"),
            _flux,
            (
                ("source-controller", "github.com/fluxcd/source-controller", _BASES),
                ("helm-controller", "github.com/fluxcd/helm-controller", _BASES),
            ),
            ("flux-system",),
        ),
        Component(
            "argo",
            ("argo-workflows",),
            _argo,
            (
                (
                    "argo-workflows",
                    "github.com/argoproj/argo-workflows/v3",
                    "manifests/base/crds/minimal/argoproj.io_*.yaml",
                ),
            ),
            ("argo",),
            (
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "workflow-controller-configmap", "namespace": "argo"},
                },
            ),
        ),
        Component(
            "snapshots",
            ("snapshot-controller",),
            _snapshots,
            (
                (
                    "snapshot-controller",
                    "github.com/kubernetes-csi/external-snapshotter/client/v8",
                    "config/crd/*snapshot.storage.k8s.io_*.yaml",
                ),
            ),
        ),
        Component("volsync", ("volsync",), _volsync, (("volsync", "github.com/backube/volsync", _BASES),)),
        Component(
            "velero",
            ("velero", "velero-plugin-for-aws", "gofakes3"),
            _velero,
            (("velero", "github.com/vmware-tanzu/velero", "config/crd/*/bases/*.yaml"),),
            ("velero",),
            (_deployment("velero", "velero"),),  # a restore reads the server's own
        ),
        Component(
            "cert-manager",
            ("cert-manager",),
            _cert_manager,
            (("cert-manager", "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml"),),
        ),
        Component("kro", ("kro",), _kro, (("kro", "github.com/kubernetes-sigs/kro", "helm/crds/*.yaml"),)),
        Component("controller-runtime", ("controller-runtime",), _examined),
    )
}
ALWAYS: Final = ("kubernetes", "kwok")
CHOICE: Final = tuple(name for name in COMPONENTS if name not in ALWAYS)
USUAL: Final = ("flux", "argo", "snapshots")
"""The components that `make cluster` runs by default; building the others takes long."""
TESTED: Final = ("flux", "argo", "snapshots", "volsync", "velero", "cert-manager", "kro", "controller-runtime")
"""The components with tests: `make test-cluster` runs the first, and those of the others that are built already."""
