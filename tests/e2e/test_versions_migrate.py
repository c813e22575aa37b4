"""`versions migrate` on a cluster: killed in the middle, begun again, refused where it cannot be done (PH-8)."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from tests.support.cluster_choice import real_server
from tests.support.commands import Running, run
from tests.support.effort import unused_name
from tests.support.plain_http import until
from tests.support.server_thread import Wire, served, wall_clock, wired, wired_to
from tests.support.two_versions import TwoVersions

pytestmark = pytest.mark.slow

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COUNT = 250


@attrs.frozen
class Site:
    """A cluster with a kind whose objects are stored in `v1alpha1`; `server` is the embedded one, where it is that."""

    wire: Wire
    kubeconfig: Path
    kind: TwoVersions
    server: ApiServer | None

    def listed(self, version: str) -> list[Any]:
        """The objects in a version, once a real server has taken a changed definition in: until then it answers 429."""
        found: list[Any] = []

        def is_answered() -> bool:
            answer = self.wire.send("GET", self.kind.path(version))
            assert answer.status in (200, 429), answer.raw
            found[:] = answer.json.get("items", ())
            return answer.status == 200

        until(is_answered)
        return found

    def definition(self) -> dict[str, Any]:
        found: dict[str, Any] = self.wire.send("GET", f"{DEFINITIONS}/{self.kind.name}").json
        return found

    def change(self, **versions: dict[str, Any]) -> None:
        """Fields of the definition's versions."""
        crd = self.definition()
        for version in crd["spec"]["versions"]:
            version.update(versions.get(version["name"], {}))
        answer = self.wire.send("PUT", f"{DEFINITIONS}/{self.kind.name}", crd)
        assert answer.status == 200, answer.raw

    def store_in(self, version: str) -> None:
        other = {"v1": "v1alpha1", "v1alpha1": "v1"}[version]
        self.change(**{version: {"storage": True}, other: {"storage": False}})
        until(lambda: version in self.stored)

    @property
    def stored(self) -> list[str]:
        found: list[str] = self.definition()["status"]["storedVersions"]
        return found

    def migrate(self, *words: str) -> Any:
        return run("versions", "migrate", *words, "--kubeconfig", self.kubeconfig)


@contextmanager
def _cluster() -> Iterator[tuple[Wire, dict[str, Any], ApiServer | None]]:
    if os.environ.get("KUBEBUILDER_ASSETS"):
        found = real_server()
        with wired_to(found) as wire:
            yield wire, found.kubeconfig(), None
    else:
        server = ApiServer(now=wall_clock)
        with served(server, gc_delay=None) as url, wired(url) as wire:
            yield wire, kubeconfig(url), server


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    kind = TwoVersions(f"{unused_name('x')}.vworkspace.test")
    with _cluster() as (wire, config, server):
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        assert wire.send("POST", DEFINITIONS, kind.crd(storage="v1alpha1")).status == 201
        until(lambda: wire.send("GET", kind.path("v1")).status == 200)
        yield Site(wire, path, kind, server)
        wire.send("DELETE", f"{DEFINITIONS}/{kind.name}")


def test_a_migration_that_is_killed_and_begun_again_moves_every_object(site: Site, tmp_path: Path) -> None:
    """The status keeps the old version until the last object is moved; then it can go, and all can be read."""
    for number in range(COUNT):
        thing = site.kind.thing("v1alpha1", f"thing-{number}", tier="x")
        assert site.wire.send("POST", site.kind.path("v1alpha1"), thing).status == 201
    site.store_in("v1")
    listed = run("versions", "list", "--kubeconfig", site.kubeconfig)
    (row,) = [line.split(maxsplit=4) for line in listed.out.splitlines() if line.startswith(site.kind.name)]
    assert row[1:] == ["v1,v1alpha1", "v1", "v1alpha1,v1", f"vworkspace-operator versions migrate {site.kind.name}"]
    told = site.migrate("--dry-run", site.kind.name)
    assert told.out.strip() == (
        f"{site.kind.name}: would write {COUNT} objects in v1, and take v1alpha1 out of status.storedVersions"
    )

    words = ("versions", "migrate", site.kind.name, "--kubeconfig", site.kubeconfig)
    with Running(tmp_path / "killed", *words) as process:
        process.until(lambda: f"100 of {COUNT}" in process.out, "a part of the objects")
        process.stop(signal.SIGKILL)
    assert site.stored == ["v1alpha1", "v1"]
    if site.server is not None:
        where = (site.kind.group, "things")
        versions = {record.api_version.rpartition("/")[2] for record in site.server.store.scan(where)}
        assert versions == {"v1", "v1alpha1"}, "it was in the middle"

    ended = site.migrate()
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == f"{site.kind.name}: done; every object is stored in v1"
    assert site.stored == ["v1"]
    again = site.migrate(site.kind.name)
    assert again.out.strip() == f"{site.kind.name}: every object is stored in v1"

    crd = site.definition()
    crd["spec"]["versions"] = [version for version in crd["spec"]["versions"] if version["name"] == "v1"]
    assert site.wire.send("PUT", f"{DEFINITIONS}/{site.kind.name}", crd).status == 200
    until(lambda: site.wire.send("GET", site.kind.path("v1alpha1")).status == 404)
    items = site.listed("v1")
    assert len(items) == COUNT
    assert {item["metadata"]["generation"] for item in items} == {1}, "nothing was changed"


def test_what_cannot_be_migrated_is_refused_and_named(site: Site) -> None:
    site.store_in("v1")
    site.change(v1={"served": False})
    until(lambda: site.wire.send("GET", site.kind.path("v1")).status == 404)
    for words in ((site.kind.name,), ()):
        refused = site.migrate(*words)
        assert refused.status == 1
        assert "the storage version v1 is not served" in refused.err
    (one,) = [
        entry
        for entry in json.loads(run("versions", "list", "-o", "json", "--kubeconfig", site.kubeconfig).out)
        if entry["definition"] == site.kind.name
    ]
    assert one["toDo"].startswith("serve v1:")
    assert site.stored == ["v1alpha1", "v1"]
    absent = site.migrate("absent.vworkspace.test")
    assert (absent.status, absent.err.strip()) == (
        1,
        "error: absent.vworkspace.test: there is no such definition; `versions list` shows them",
    )
