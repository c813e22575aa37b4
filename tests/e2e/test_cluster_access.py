"""`cluster` with TLS, tokens, roles and an audit log, reached as users reach it: kubectl, our adapter, curl (RUN-9)."""

import base64
import json
import shutil
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from cryptography import x509

from kubelab.http.authority import certificates_for
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE
from purekube_http import KubeApiClient, load_config
from tests.support.commands import Running, one_line, run
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

TOKEN, GUEST_TOKEN = "admin-s3cr3t-0123456789", "guest-s3cr3t-0123456789"
USERS = f'{GUEST_TOKEN},guest,u1,"guests, readers"\n\nbot-s3cr3t-0123456789,system:serviceaccount:room:bot,u2\n'


def started(folder: Path, *words: str | Path) -> tuple[Running, Path]:
    """The command and its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    return Running(folder / "cluster", "cluster", "--kubeconfig-out", kubeconfig, *words), kubeconfig


def cluster_of(kubeconfig: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    return found


def token_file(folder: Path, text: str = USERS) -> Path:
    path = folder / "users.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_tls_is_trusted_through_the_kubeconfig_and_by_nobody_else(tmp_path: Path) -> None:
    server, kubeconfig = started(tmp_path, "--tls")
    with server:
        url = server.ready()
        assert url.startswith("https://127.0.0.1:")
        assert cluster_of(kubeconfig)["server"] == url

        async def use() -> None:
            async with KubeApiClient(load_config(kubeconfig)) as api:
                assert (await api.get(ObjectRef(NAMESPACE, None, "default")))["kind"] == "Namespace"

        anyio.run(use)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_reaches_a_server_with_tls_and_a_token(tmp_path: Path) -> None:
    server, kubeconfig = started(tmp_path, "--tls", "--token", TOKEN)
    with server:
        server.ready()
        assert kubectl(kubeconfig, "get", "ns", "default", "-o", "name") == "namespace/default"
        assert "kubernetes-admin" in kubectl(kubeconfig, "auth", "whoami")


def kubectl(kubeconfig: Path, *words: str) -> str:
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_tokens_name_callers_and_roles_decide_for_them(tmp_path: Path) -> None:
    users, log = token_file(tmp_path), tmp_path / "audit"
    server, kubeconfig = started(tmp_path, "--tls", "--token", TOKEN, "--tokens", users, "--rbac", "--audit-log", log)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "read"}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"}
    readers = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}
    with server:
        url = server.ready()
        trust = ssl.create_default_context(cadata=authority_in(kubeconfig))
        roles = f"{url}/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        assert asked(trust, f"{url}/api/v1/namespaces/default/configmaps") == 401
        assert asked(trust, f"{url}/api/v1/namespaces/default/configmaps", "wrong") == 401
        assert asked(trust, f"{url}/api/v1/namespaces/default/configmaps", GUEST_TOKEN) == 403
        assert asked(trust, f"{roles}/roles", TOKEN, {**role, "rules": rules}) == 201
        binding = {**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [readers]}
        assert asked(trust, f"{roles}/rolebindings", TOKEN, binding) == 201
        assert asked(trust, f"{url}/api/v1/namespaces/default/configmaps", GUEST_TOKEN) == 200
        assert asked(trust, f"{url}/version", TOKEN) == 200
        assert asked(trust, f"{url}/apis/nothing.test/v1/things", TOKEN, role) == 404

        async def use() -> None:
            async with KubeApiClient(load_config(kubeconfig, "guest")) as api:
                assert (await api.list(CONFIG_MAP, namespace="default")).items == []
                with pytest.raises(Forbidden):
                    await api.create(CONFIG_MAP.manifest("c", "default"), kind=CONFIG_MAP, field_manager="tests")

        anyio.run(use)
    entries = [json.loads(row) for row in log.read_text(encoding="utf-8").splitlines()]
    guest = [(entry["verb"], entry["status"], entry["manager"]) for entry in entries if entry["user"] == "guest"]
    assert guest == [("list", 403, ""), ("list", 200, ""), ("list", 200, ""), ("create", 403, "tests")]
    unmanaged_objects = [(entry["verb"], entry["status"]) for entry in entries if not entry["user"]]
    assert unmanaged_objects == [("get", 401), ("get", 401)]
    told = [(entry["method"], entry["path"], entry["status"]) for entry in entries]
    assert ("GET", "/version", 200) in told
    assert ("POST", "/apis/nothing.test/v1/things", 404) in told
    assert sorted(entry["at"] for entry in entries) == [entry["at"] for entry in entries]
    assert entries[0]["path"] == "/api/v1/namespaces/default/configmaps"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    shown = server.out + server.err + log.read_text(encoding="utf-8")
    assert TOKEN not in shown
    assert GUEST_TOKEN not in shown


def authority_in(kubeconfig: Path) -> str:
    return base64.b64decode(cluster_of(kubeconfig)["certificate-authority-data"]).decode()


def asked(trust: ssl.SSLContext, url: str, token: str = "", body: Any = None) -> int:
    """The status of one request."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", ": holds no token"),
        ("only-a-token\n", ":1: give token,user,uid"),
        pytest.param(",user,uid\n", ":1: give token,user,uid", marks=pytest.mark.slow),
        pytest.param("t,a,1\nt,b,2\n", ":2: the token is there twice", marks=pytest.mark.slow),
    ],
)
def test_a_token_file_that_is_none_is_told_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    path = token_file(tmp_path, text)
    assert one_line(run("cluster", "--tokens", path), 1).startswith(f"--tokens {path}{why}")


@pytest.mark.slow
def test_options_that_cannot_work_are_told_in_one_line(tmp_path: Path) -> None:
    absent = tmp_path / "absent" / "file"
    assert "--rbac needs tokens" in one_line(run("cluster", "--rbac"), 2)
    without_tls = run("cluster", "--kubeconfig-out", tmp_path / "kc", "--token", TOKEN)
    assert one_line(without_tls, 2).startswith("--kubeconfig-out needs --tls beside tokens: ")
    assert not (tmp_path / "kc").exists()
    assert one_line(run("cluster", "--tokens", absent), 1).startswith(f"--tokens {absent}: cannot be read")
    assert one_line(run("cluster", "--audit-log", absent), 1).startswith(f"--audit-log {absent}: cannot be written")


def test_a_certificate_is_for_the_names_that_were_asked_for() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = certificates_for(("localhost", "127.0.0.1", "::1"), now)
    certificate = x509.load_pem_x509_certificate(made.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert sorted(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1", "::1"]
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(made.authority))
    assert isinstance(made.server_context(), ssl.SSLContext)
    assert "PRIVATE" not in repr(made)
