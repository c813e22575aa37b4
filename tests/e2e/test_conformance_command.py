"""`conformance control-plane` as owners of a control plane run it: with the admin API, without it, without pytest."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from purekube_run.process.command_line import CommandError
from tests.support.commands import Ended, Running, call, one_line, run
from vworkspace_app.commands.conformance import control_plane as conformance
from vworkspace_app.commands.conformance.controller import examine_controller

pytestmark = pytest.mark.slow

CLUSTER, TOKEN, ADMIN = "cluster-try", "try-token", "admin-token"
SHIM = """
import json, sys, urllib.request
request = urllib.request.Request(
    sys.argv[1] + "/api/admin/jobs", sys.stdin.buffer.read(), {"Authorization": "Bearer " + sys.argv[2]})
print(json.load(urllib.request.urlopen(request))["id"])
"""


@attrs.frozen
class Place:
    """A control plane that somebody else runs, and files with its tokens."""

    url: str
    folder: Path

    def examine(self, *words: str | Path, cold: bool = False) -> Ended:
        return run("conformance", "control-plane", "--url", self.url, *words, home=self.folder, cold=cold)

    @property
    def account(self) -> tuple[str | Path, ...]:
        return ("--cluster-id", CLUSTER, "--token-file", self.folder / "token")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("conformance")
    for name, text in (("token", TOKEN), ("admin", ADMIN), ("shim.py", SHIM)):
        (folder / name).write_text(text, encoding="utf-8")
    words = ("--cluster-id", CLUSTER, "--token", TOKEN, "--admin-token", ADMIN)
    with Running(folder / "server", "control-plane", *words) as server:
        yield Place(server.ready(), folder)


def counts(ended: Ended) -> dict[str, int]:
    """How the checks ended, from pytest's last line."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", ended.out)}


def test_with_the_admin_api_every_check_runs_and_passes(place: Place) -> None:
    ended = place.examine("--admin-token-file", place.folder / "admin")

    assert ended.status == 0, ended.out
    assert counts(ended).keys() == {"passed"}
    assert counts(ended)["passed"] >= 30


def test_with_a_token_alone_the_rest_is_skipped_and_says_what_it_takes(place: Place) -> None:
    ended = place.examine(*place.account)

    assert ended.status == 0, ended.out
    assert counts(ended)["passed"] >= 8
    assert counts(ended)["skipped"] >= 20
    assert "needs jobs to examine: give --enqueue-command, or --admin-token-file" in ended.out
    assert TOKEN not in ended.out


def test_a_command_of_the_owner_s_provides_jobs(place: Place) -> None:
    command = f"{sys.executable} {place.folder / 'shim.py'} {place.url} {ADMIN}"
    ended = place.examine(*place.account, "--enqueue-command", command, "--only", "result or status or whole")

    assert ended.status == 0, ended.out
    assert counts(ended)["passed"] >= 10


def test_a_command_that_prints_no_id_fails_the_checks_and_is_named(place: Place) -> None:
    ended = place.examine(*place.account, "--enqueue-command", "echo oops >&2; exit 3", "--only", "whole")

    assert ended.status == 1
    assert "--enqueue-command must print the job's id alone; status 3: oops" in ended.out


def test_a_control_plane_that_breaks_a_promise_fails(place: Place) -> None:
    call("POST", f"{place.url}/api/admin/faults", {"call": "ack", "status": 500}, token=ADMIN)

    ended = place.examine("--admin-token-file", place.folder / "admin", "--only", "statuses_are_taken")

    assert ended.status == 1
    assert counts(ended) == {"failed": 1}


def test_what_is_missing_is_said_in_one_line(place: Place) -> None:
    assert "give --cluster-id and --token-file, or --admin-token-file" in one_line(place.examine(cold=True), 2)
    nowhere = place.examine("--admin-token-file", place.folder / "nowhere")
    assert "--admin-token-file" in one_line(nowhere, 1)


def test_without_pytest_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "find_spec", lambda _: None)

    with pytest.raises(CommandError, match=r"pip install 'vworkspace-operator\[operator,conformance\]'"):
        conformance.examine_control_plane(
            url="http://127.0.0.1:1",
            cluster_id="",
            token_file=None,
            admin_token_file=None,
            enqueue_command="",
            ca_file=None,
            only="",
        )


def test_the_examples_in_the_help_can_be_copied() -> None:
    assert "--edited website-2.yaml \\\n          --crds crd.yaml" in str(examine_controller.__doc__)


def test_a_kind_that_the_api_server_does_not_serve_is_told_with_what_to_give(tmp_path: Path) -> None:
    sample = tmp_path / "shop.yaml"
    sample.write_text("{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}}", encoding="utf-8")
    with pytest.raises(CommandError, match=r"does not serve Shop of example\.com/v1; give --crds"):
        examine_controller(operator="true", sample=sample)
