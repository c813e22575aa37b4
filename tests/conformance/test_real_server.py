"""Starting a real server, proved with stand-ins for the two executables where the real ones are not there (RUN-8)."""

import os
import ssl
import sys
import urllib.request
from pathlib import Path

import pytest

from purekube_kit.kube_apiserver import Assets, CannotStart, apiserver_command, assets_of, etcd_command, started
from tests.support.patience import PATIENCE

SERVES = """#!{python}
import http.server, os, signal, ssl, sys
flags = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = open(flags["token-auth-file"]).read().split(",")[0] if "secure-port" in flags else ""
        known = not token or self.headers.get("authorization") == "Bearer " + token
        self.send_response(200 if known else 401)
        self.end_headers()
if "service-account-key-file" in flags:
    assert "BEGIN EC PRIVATE KEY" in open(flags["service-account-key-file"]).read(), "no RSA or ECDSA public keys"
secure = "secure-port" in flags
port = flags["secure-port"] if secure else flags["listen-client-urls"].rpartition(":")[2]
server = http.server.HTTPServer(("127.0.0.1", int(port)), Answer)
if secure:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags["tls-cert-file"], flags["tls-private-key-file"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
else:
    os.makedirs(flags["data-dir"])
open(os.path.join({folder!r}, os.path.basename(sys.argv[0]) + ".pid"), "w").write(str(os.getpid()))
server.serve_forever()
"""
ENDS = "#!/bin/sh\necho 'flag provided but not defined' >&2\nexit 3\n"
HANGS = "#!/bin/sh\nexec sleep 600\n"


def stand_ins(folder: Path, etcd: str = SERVES, apiserver: str = SERVES) -> Assets:
    for name, text in (("etcd", etcd), ("kube-apiserver", apiserver)):
        path = folder / name
        path.write_text(text.replace("{python}", sys.executable).replace("{folder!r}", repr(str(folder))))
        path.chmod(0o755)
    assets = assets_of({"KUBEBUILDER_ASSETS": str(folder)})
    assert isinstance(assets, Assets)
    return assets


def alive(folder: Path) -> list[str]:
    """Which stand-ins run."""
    return [name for name in ("etcd", "kube-apiserver") if (folder / f"{name}.pid").exists() and _lives(folder, name)]


def _lives(folder: Path, name: str) -> bool:
    try:
        os.kill(int((folder / f"{name}.pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_where_the_executables_are_missing_the_reason_says_what_to_set(tmp_path: Path) -> None:
    assert "KUBEBUILDER_ASSETS is not set" in str(assets_of({}))
    assert str(assets_of({"KUBEBUILDER_ASSETS": str(tmp_path)})).endswith("holds no etcd and no kube-apiserver")
    (tmp_path / "etcd").touch()
    assert str(assets_of({"KUBEBUILDER_ASSETS": str(tmp_path)})).endswith("holds no kube-apiserver")


def test_everything_listens_on_loopback_only() -> None:
    assets, folder = Assets(Path("/a/etcd"), Path("/a/kube-apiserver")), Path("/d")
    commands = [etcd_command(assets, folder, 1, 2), apiserver_command(assets, folder, 3, 1)]
    assert [command[0] for command in commands] == ["/a/etcd", "/a/kube-apiserver"]
    addresses = [word for command in commands for word in command if "http://" in word or "-address=" in word]
    assert addresses
    assert all("127.0.0.1" in word for word in addresses)
    assert not {"--anonymous-auth=true", "--authorization-mode=AlwaysAllow"} & set(commands[1])


def test_both_start_answer_are_stopped_and_leave_nothing(tmp_path: Path) -> None:
    with started(stand_ins(tmp_path)) as server:
        assert alive(tmp_path) == ["etcd", "kube-apiserver"]
        user = server.kubeconfig()["users"][0]["user"]
        request = urllib.request.Request(f"{server.url}/readyz", headers={"authorization": f"Bearer {user['token']}"})
        trust = ssl.create_default_context(cadata=server.authority.decode())
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
            assert answer.status == 200
        folder = _folder_of(tmp_path)
        assert (folder / "server.key").stat().st_mode & 0o077 == 0
    assert alive(tmp_path) == []
    assert not folder.exists()
    assert server.token not in repr(server)


def _folder_of(stand_ins_in: Path) -> Path:
    """Where the running stand-in for kube-apiserver was told to find its certificate."""
    words = Path(f"/proc/{(stand_ins_in / 'kube-apiserver.pid').read_text()}/cmdline").read_text().split("\0")
    return Path(next(word.partition("=")[2] for word in words if word.startswith("--cert-dir=")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("etcd", "apiserver", "why"),
    [
        (ENDS, SERVES, "etcd ended with status 3:\nflag provided but not defined"),
        (SERVES, ENDS, "kube-apiserver ended with status 3:\nflag provided but not defined"),
        (HANGS, SERVES, "etcd does not answer after 1 s"),
        (SERVES, HANGS, "kube-apiserver does not answer after"),
    ],
)
def test_one_that_does_not_come_up_is_named_with_its_last_words(
    etcd: str, apiserver: str, why: str, tmp_path: Path
) -> None:
    patience = {name: 1.0 for name, does in (("etcd", etcd), ("kube-apiserver", apiserver)) if does == HANGS}
    with pytest.raises(CannotStart) as caught, started(stand_ins(tmp_path, etcd, apiserver), patience=patience):
        pytest.fail("it came up")
    assert str(caught.value).startswith(why)
    assert alive(tmp_path) == []
