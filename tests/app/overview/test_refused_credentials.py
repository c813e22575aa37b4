"""A credential that the API server refuses is an error, and no cluster without objects (SEE-1)."""

import json
from pathlib import Path

import pytest

from kubelab.http.serving import kubeconfig
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from tests.support.server_thread import served, wall_clock
from vworkspace_app.__main__ import run_command


@pytest.mark.parametrize("words", [("status",), ("status", "-w"), ("status", "shop")])
def test_status_fails_where_the_credential_is_refused(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an expired token it said that no objects are shown, with exit status 0; `-w` said so for ever."""
    with served(ApiServer(now=wall_clock), tokens={"right": Caller("alice")}) as url:
        (tmp_path / "kc").write_text(json.dumps(kubeconfig(url, "wrong")), encoding="utf-8")
        assert run_command([*words, "--kubeconfig", str(tmp_path / "kc")]) == 1
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.endswith("Unauthorized: the credential in the kubeconfig is not accepted\n")
