"""Replicas of the operator as processes, each behind a proxy of its own, and what the audit log tells of them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import yaml

from kubelab.http.serving import kubeconfig
from tests.support.audit_log import Act
from tests.support.clusters_under_test import Site
from tests.support.commands import Running
from tests.support.e2e_world import CLUSTER
from tests.support.tcp_proxy import Middle

DURATION = 4.0
TIMES = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=400ms",
)
OBJECTS = 12


@attrs.frozen
class Replica:
    """A process, the proxy it talks through, and its name in the log."""

    user: str
    process: Running
    middle: Middle


@contextmanager
def replica(
    site: Site, folder: Path, user: str, lease: str, *more: str, times: Sequence[str] = TIMES
) -> Iterator[Replica]:
    """Run a candidate for that Lease. `more` are further options of `run`; without `times` those of production hold."""
    port = urlsplit(site.url).port
    assert port is not None
    with Middle(port, site.trust, site.shown) as middle:
        path = _kubeconfig(site, folder, user, middle)
        words = ("--kubeconfig", path, "--control-plane-url", site.control, "--cluster-id", CLUSTER)
        elect = ("--leader-elect", "--leader-elect-identity", user, "--leader-elect-resource-name", lease, *times)
        with Running(folder / "run", "run", *words, "--token-file", site.folder / "token", *elect, *more) as process:
            yield Replica(user, process, middle)


def _kubeconfig(site: Site, folder: Path, user: str, middle: Middle) -> Path:
    """How a replica reaches its proxy."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = None if site.shown is None else site.shown.authority
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(middle.url, site.tokens[user], authority=authority)), encoding="utf-8")
    return path


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


def writes(acts: Sequence[Act], user: str) -> list[Act]:
    """What a replica wrote, refused writes included, the Lease left out."""
    return [act for act in acts if act.user == user and not act.is_lease]


def takeover(acts: Sequence[Act], user: str) -> tuple[Act, int]:
    """How a replica took the Lease, and where among all changes that stands."""
    return next((act, act.place) for act in acts if act.user == user and act.is_lease and act.place is not None)
