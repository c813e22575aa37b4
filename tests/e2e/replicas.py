"""Replicas of the operator as processes, each behind a proxy of its own, and the audit log that tells what they did.

Replicas are told apart by their users; the log is in the order in which the server acted.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import msgspec
import yaml

from tests.e2e.commands import Running, call
from tests.e2e.middle import Middle
from tests.e2e.world import CLUSTER, NS, instance
from vworkspace_fake.apiserver.audit import AuditEntry

ROOT = Path(__file__).resolve().parents[2]
ADMIN, AGENT = "admin-t0ken-0123456789", "agent-t0ken-0123456789"
USERS = {"replica-a": "token-of-a-0123456789", "replica-b": "token-of-b-0123456789"}
DURATION = 4.0
TIMES = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=400ms",
)
OBJECTS = 12
INSTANCES = f"apis/apps.vworkspace.io/v1alpha1/namespaces/{NS}/applicationinstances"

_entries = msgspec.json.Decoder(AuditEntry).decode


@attrs.frozen
class Site:
    """An API server whose log is read, and a control plane."""

    folder: Path
    url: str
    control: str
    log: Path

    def entries(self, since: int = 0) -> list[AuditEntry]:
        """The audit log from a line on; the line that is being written is left out."""
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return [_entries(line) for line in lines[since:]]

    def position(self) -> int:
        """How long the log is."""
        return len(self.entries())

    def apply(self, number: int, version: str) -> None:
        """Somebody asks for an instance."""
        name = f"app-{number}"
        manifest = instance(version)
        labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
        manifest["metadata"] = {"name": name, "namespace": NS, "labels": labels}
        manifest["spec"]["release"] = {"name": name, "namespace": NS}
        where = f"{self.url}/{INSTANCES}/{name}?fieldManager=somebody"
        call("PATCH", where, manifest, token=ADMIN, content="application/apply-patch+yaml")

    def ready(self, version: str) -> list[str]:
        """Instances that run at a version."""
        items = call("GET", f"{self.url}/{INSTANCES}", token=ADMIN)["items"]
        return [
            one["metadata"]["name"]
            for one in items
            if one.get("status", {}).get("observedGeneration") == one["metadata"]["generation"]
            and one["spec"]["chart"]["version"] == version
            and {"Ready": "True"}.items()
            <= {condition["type"]: condition["status"] for condition in one["status"].get("conditions", ())}.items()
        ]


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """Start both servers, with a gated namespace and the operator's own."""
    users, log = folder / "users.csv", folder / "audit"
    users.write_text("".join(f"{token},{user},{user}\n" for user, token in USERS.items()), encoding="utf-8")
    words = ("--token", ADMIN, "--tokens", users, "--audit-log", log, "--kubeconfig-out", folder / "kubeconfig")
    crds = ("--crds", ROOT / "manifests" / "crds", "--simulate", "flux")
    control = ("--cluster-id", CLUSTER, "--token", AGENT, "--admin-token", ADMIN)
    with (
        Running(folder / "cluster", "cluster", *words, *crds) as api,
        Running(folder / "control", "control-plane", *control) as plane,
    ):
        found = Site(folder, api.ready(), plane.ready(), log)
        (folder / "token").write_text(AGENT, encoding="utf-8")
        for name, labels in ((NS, {"managed-by": "vworkspace"}), ("vworkspace-system", {})):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            call("POST", f"{found.url}/api/v1/namespaces", body, token=ADMIN)
        yield found


@attrs.frozen
class Replica:
    """A process, the proxy it talks through, and its name in the log."""

    user: str
    process: Running
    middle: Middle


@contextmanager
def replica(site: Site, folder: Path, user: str, lease: str, *more: str) -> Iterator[Replica]:
    """A candidate for that Lease. `more` are further options of `run`."""
    port = urlsplit(site.url).port
    assert port is not None
    with Middle(port) as middle:
        folder.mkdir(parents=True, exist_ok=True)
        kubeconfig: dict[str, Any] = yaml.safe_load((site.folder / "kubeconfig").read_text(encoding="utf-8"))
        kubeconfig["clusters"][0]["cluster"]["server"] = middle.url
        kubeconfig["current-context"] = user
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        words = ("--kubeconfig", path, "--control-plane-url", site.control, "--cluster-id", CLUSTER)
        elect = ("--leader-elect", "--leader-elect-identity", user, "--leader-elect-resource-name", lease, *TIMES)
        with Running(folder / "run", "run", *words, "--token-file", site.folder / "token", *elect, *more) as process:
            yield Replica(user, process, middle)


@contextmanager
def pair(site: Site, folder: Path, lease: str) -> Iterator[tuple[Replica, Replica]]:
    """`replica-a` leads, `replica-b` stands by with warm caches."""
    with ExitStack() as stack:
        leader = stack.enter_context(replica(site, folder / "a", "replica-a", lease))
        leader.process.until(lambda: leader.process.log("leading"), "the first to lead")
        standby = stack.enter_context(replica(site, folder / "b", "replica-b", lease))
        standby.process.until(lambda: standby.process.log("standing by"), "the second to stand by")
        for one in (leader, standby):
            one.process.until(lambda one=one: one.process.log("caches are settled"), "warm caches")  # type: ignore[misc]
        yield leader, standby


def is_lease(entry: AuditEntry) -> bool:
    return "/leases" in entry.path


def writes(entries: list[AuditEntry], user: str) -> list[AuditEntry]:
    """What a replica wrote, refused writes included, the Lease left out."""
    return [one for one in entries if one.user == user and one.verb.writes and not is_lease(one)]


def taken_at(entries: list[AuditEntry], user: str) -> int:
    """Where in the log a replica took the Lease."""
    return next(
        index
        for index, one in enumerate(entries)
        if one.user == user and is_lease(one) and one.verb.writes and one.status < 300
    )
