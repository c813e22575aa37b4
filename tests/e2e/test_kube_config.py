"""Where the cluster is and who we are: every problem is one clear error that says what to do and shows no token."""

import asyncio
import base64
import datetime
import gzip
import ipaddress
import json
import os
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lightkube.core.exceptions import ConfigError

from purekube.apimachinery.errors import Permanent, Unauthorized, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from purekube_http import KubeApiClient, load_config
from purekube_http.authorization import ExecPlugin
from purekube_http.forwarding import Forwarder, NoAnswer
from tests.support.patience import PATIENCE
from tests.support.scripted_server import Request, Wire, answer, reply, status, wire

TOKEN = "sekret-t0ken"
RELEASE = ObjectRef(HELM_RELEASE, "n", "a")
FOUND = {
    **HELM_RELEASE.manifest("a", "n"),
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
}
LISTED = {
    "apiVersion": HELM_RELEASE.api_version,
    "kind": "HelmReleaseList",
    "metadata": {"resourceVersion": "7"},
    "items": [],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def outside_any_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def document(**changes: Any) -> dict[str, Any]:
    """A kubeconfig with one of everything, and these changes at the top."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "main", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "main", "user": {"token": TOKEN}}],
        "contexts": [{"name": "main", "context": {"cluster": "main", "user": "main", "namespace": "n"}}],
        **changes,
    }


def user(**fields: Any) -> dict[str, Any]:
    return document(users=[{"name": "main", "user": fields}])


def written(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def test_a_file_that_is_given_is_used(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, document()))

    assert loaded.cluster.server == "http://127.0.0.1:1"
    assert loaded.namespace == "n"


def test_KUBECONFIG_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path, document())))

    assert load_config().context_name == "main"


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    contexts = [{"name": name, "context": {"cluster": "main", "user": "main"}} for name in ("main", "other")]

    assert load_config(written(tmp_path, document(contexts=contexts)), "other").context_name == "other"


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", TOKEN), ("namespace", "operators"), ("ca.crt", "")):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    loaded = load_config(service_account=tmp_path)

    assert loaded.cluster.server == "https://[fd00::1]:443"
    assert loaded.user is not None
    assert loaded.user.token_file == str(tmp_path / "token")


def test_KUBECONFIG_wins_over_the_service_account_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in kubectl and controller-runtime: a job of a CI runs in one cluster, and means another."""
    for name, content in (("token", TOKEN), ("namespace", "operators"), ("ca.crt", "")):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path, document())))

    assert load_config(service_account=tmp_path).cluster.server == "http://127.0.0.1:1"


def test_no_configuration_at_all_says_what_to_do() -> None:
    with pytest.raises(Permanent, match=r"no usable cluster configuration.*--kubeconfig FILE"):
        load_config()


EXEC_V1 = "client.authentication.k8s.io/v1"
EXEC = {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1beta2"}
BAD: list[tuple[str, Any, str]] = [
    ("not YAML", "a: [", "not a kubeconfig"),
    ("not a mapping", "[]", "not a kubeconfig"),
    ("empty", "", "not a kubeconfig"),
    ("no contexts", {"current-context": "main", "users": []}, "'main' not found"),
    (
        "no clusters",
        {key: value for key, value in document().items() if key != "clusters"},
        "'cluster main' is missing",
    ),
    ("no current context", document(**{"current-context": None}), "No current context"),
    ("an unknown context", document(**{"current-context": "gone"}), "'gone' not found"),
    ("an unknown cluster", document(clusters=[]), "'cluster main' is missing"),
    ("an unknown user", document(users=[]), "'user main' is missing"),
    ("a server that is a number", document(clusters=[{"name": "main", "cluster": {"server": 1}}]), "server"),
    ("auth-provider", user(**{"auth-provider": {"name": "gcp"}}), "auth-provider"),
    ("an exec version of the future", user(exec=EXEC), "v1beta2"),
    ("a token of two lines", user(token=f"{TOKEN}\n{TOKEN}"), "does not hold a token"),
]


@pytest.mark.parametrize(("content", "expected"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_kubeconfig_that_cannot_be_used_is_one_clear_error(tmp_path: Path, content: Any, expected: str) -> None:
    file = written(tmp_path, content)

    with pytest.raises(Permanent) as caught:
        load_config(file)

    assert expected in caught.value.message
    assert "\n" not in caught.value.message
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_file_in_another_encoding_is_one_clear_error(tmp_path: Path) -> None:
    """As `>` of a PowerShell writes it."""
    file = tmp_path / "kubeconfig"
    file.write_bytes(yaml.safe_dump(document()).encode("utf-16"))

    with pytest.raises(Permanent, match="not a kubeconfig"):
        load_config(file)


def test_what_kubectl_writes_for_no_users_is_read(tmp_path: Path) -> None:
    context = {"name": "main", "context": {"cluster": "main", "user": ""}}

    assert load_config(written(tmp_path, document(users=None, contexts=[context]))).user is not None


@pytest.mark.parametrize("other", [None, {"exec": {"command": "x"}}, {"token": 5}])
def test_an_entry_of_another_context_is_not_looked_at(tmp_path: Path, other: Any) -> None:
    content = document()
    content["users"].append({"name": "other", "user": other})
    content["clusters"].append({"name": "other", "cluster": {"server": 5}})

    assert load_config(written(tmp_path, content)).cluster.server == "http://127.0.0.1:1"


def test_several_files_in_KUBECONFIG_are_merged_and_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in kubectl: a missing file is skipped, each path is relative to the file that has it."""
    for name in ("contexts", "rest"):
        (tmp_path / name).mkdir()
    whole = document(users=[{"name": "main", "user": {"tokenFile": "token"}}])
    first = {"contexts": whole["contexts"], "clusters": [{"name": "main", "cluster": {"server": "http://first"}}]}
    files = written(tmp_path / "contexts", first), written(tmp_path / "rest", {**whole, "contexts": None})
    (tmp_path / "empty").write_text("")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, ("", tmp_path / "gone", tmp_path / "empty", *files, ""))))

    loaded = load_config()

    assert (loaded.context_name, loaded.cluster.server) == ("main", "http://first")
    assert loaded.user is not None
    assert loaded.user.token_file == str(tmp_path / "rest" / "token")


def test_KUBECONFIG_without_any_file_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/a:/no/b")

    with pytest.raises(Permanent, match=r"/no/a:/no/b not found"):
        load_config()


def test_a_relative_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, user(tokenFile="token")))

    assert loaded.user is not None
    assert loaded.user.token_file == str(tmp_path / "token")


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, document(contexts=[{"name": "main", "context": {"cluster": "main"}}])))

    KubeApiClient(loaded)  # lightkube alone fails an assertion here


@pytest.mark.parametrize("data", ["bm90IGEgY2VydGlmaWNhdGU=", "not base64"])
def test_certificates_that_cannot_be_loaded_are_named(tmp_path: Path, data: str) -> None:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": data}
    loaded = load_config(written(tmp_path, document(clusters=[{"name": "main", "cluster": cluster}])))

    with pytest.raises(Permanent, match="certificates of context main"):
        KubeApiClient(loaded)


@pytest.mark.parametrize(
    "server",
    [
        "nonsense",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "https://[::1",
        f"http://odoo:{TOKEN}@127.0.0.1:1",
    ],
)
def test_a_server_that_is_no_address_is_refused_at_the_start(tmp_path: Path, server: str) -> None:
    loaded = load_config(written(tmp_path, document(clusters=[{"name": "main", "cluster": {"server": server}}])))

    with pytest.raises(Permanent, match="server of context main is not an address: give http") as caught:
        KubeApiClient(loaded)

    assert TOKEN not in str(caught.value)


# -- exec credential plugins ---------------------------------------------------------------------------------------

PLUGIN = """#!{python}
import json, os, sys
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({{"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": {{"token": "{token}"}}}}))
"""


def plugin(tmp_path: Path, script: str) -> dict[str, Any]:
    file = tmp_path / "plugin"
    file.write_text(script)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file), "interactiveMode": "Never"}
    return user(exec=command)


def served_by(peer: Wire, content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "clusters": [{"name": "main", "cluster": {"server": peer.url}}]}


@pytest.mark.anyio
async def test_exec_credentials_v1_work_and_the_plugin_is_told_what_is_spoken(tmp_path: Path) -> None:
    content = plugin(tmp_path, PLUGIN.format(python=sys.executable, token=TOKEN))
    async with (
        wire(reply(FOUND)) as peer,
        KubeApiClient(load_config(written(tmp_path, served_by(peer, content)))) as api,
    ):
        await api.get(RELEASE)

    assert peer.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_relative_plugin_is_relative_to_the_kubeconfig_unless_PATH_finds_it(tmp_path: Path) -> None:
    for command, expected in (("./bin/plugin", str(tmp_path / "bin/plugin")), ("aws", "aws")):
        loaded = load_config(written(tmp_path, user(exec={**EXEC, "apiVersion": EXEC_V1, "command": command})))

        assert loaded.user is not None
        assert loaded.user.exec is not None
        assert loaded.user.exec.command == expected


def test_a_variable_of_a_plugin_may_be_empty(tmp_path: Path) -> None:
    loaded = load_config(
        written(tmp_path, user(exec={**EXEC, "apiVersion": EXEC_V1, "env": [{"name": "AWS_PROFILE"}]}))
    )

    assert loaded.user is not None
    assert loaded.user.exec is not None
    assert loaded.user.exec.env is not None
    assert ("AWS_PROFILE", "") in [(each.name, each.value) for each in loaded.user.exec.env]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_plugin_that_wants_to_know_the_cluster_is_told(tmp_path: Path, wanted: bool) -> None:
    (tmp_path / "ca.crt").write_bytes(b"pem")
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    content = {
        **user(exec={**EXEC, "apiVersion": EXEC_V1, "provideClusterInfo": wanted}),
        "clusters": [{"name": "main", "cluster": cluster}],
    }

    account = load_config(written(tmp_path, content)).user

    assert account is not None
    assert account.exec is not None
    info = {each.name: each.value for each in account.exec.env or ()}["KUBERNETES_EXEC_INFO"]
    about = {"server": "https://127.0.0.1:1", "certificate-authority-data": base64.b64encode(b"pem").decode()}
    assert json.loads(info)["spec"] == {"interactive": False, **({"cluster": about} if wanted else {})}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"#!/bin/sh\nprintf 'expired:\\nplease log in' >&2; echo {TOKEN}; exit 1\n", "expired: please log in"),
        (f"#!/bin/sh\necho {TOKEN}\n", "no token"),
        (f"#!/bin/sh\necho '{json.dumps({'status': {'nothing': TOKEN}})}'\n", "no token"),
        (f"#!/bin/sh\necho '{json.dumps({'status': [TOKEN]})}'\n", "no token"),
        ("#!/no/such/interpreter\n", "credential plugin"),
    ],
    ids=["fails", "says no JSON", "says no token", "says another shape", "cannot start"],
)
async def test_a_plugin_that_fails_is_named_and_what_it_said_is_not_shown(
    tmp_path: Path, script: str, expected: str
) -> None:
    content = plugin(tmp_path, script)
    async with (
        wire(reply(FOUND)) as peer,
        KubeApiClient(load_config(written(tmp_path, served_by(peer, content)))) as api,
    ):
        with pytest.raises(Unauthorized) as caught:
            await api.get(RELEASE)

    assert expected in caught.value.message
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.anyio
async def test_a_forwarded_request_whose_credential_fails_is_an_answer_that_says_why(tmp_path: Path) -> None:
    content = plugin(tmp_path, f"#!/bin/sh\nprintf 'expired:\\nlog in, token={TOKEN}' >&2; exit 1\n")
    forwarder = Forwarder(load_config(written(tmp_path, content)))

    with pytest.raises(NoAnswer, match=r"returned 1: expired: log in") as caught:
        await forwarder.open("GET", "/version", {}, b"")

    await forwarder.close()
    assert TOKEN not in str(caught.value)


@pytest.mark.anyio
async def test_a_plugin_that_is_not_installed_comes_with_the_hint_of_the_kubeconfig(tmp_path: Path) -> None:
    missing = {**EXEC, "apiVersion": EXEC_V1, "command": "/no/such/plugin", "installHint": "get it\nfrom us"}
    async with KubeApiClient(load_config(written(tmp_path, user(exec=missing)))) as api:
        with pytest.raises(Unauthorized, match=r"/no/such/plugin: No such file or directory; get it from us"):
            await api.get(RELEASE)


COUNTING = """#!{python}
import json, pathlib
count = pathlib.Path({count!r})
number = len(count.read_text()) + 1 if count.exists() else 1
count.write_text("x" * number)
print(json.dumps({{"kind": "ExecCredential", "status": {{"token": f"token-{{number}}"}}}}))
"""


@pytest.mark.anyio
async def test_a_plugin_is_asked_once_and_again_when_the_server_does_not_know_its_token(tmp_path: Path) -> None:
    content = plugin(tmp_path, COUNTING.format(python=sys.executable, count=str(tmp_path / "count")))
    refused = status(401, "Unauthorized", "expired")
    async with (
        wire(reply(FOUND)) as peer,
        KubeApiClient(load_config(written(tmp_path, served_by(peer, content)))) as api,
    ):
        await api.get(RELEASE)
        await api.get(RELEASE)
        peer.scripts.append(refused)
        await api.get(RELEASE)
        peer.scripts += [refused, refused]
        with pytest.raises(Unauthorized):
            await api.get(RELEASE)

    shown = [request.headers["authorization"].removeprefix("Bearer token-") for request in peer.requests]
    assert shown == ["1", "1", "1", "2", "2", "3"], "one more try for each refusal"


@pytest.mark.anyio
async def test_a_plugin_that_never_answers_is_stopped_and_named(tmp_path: Path) -> None:
    content = plugin(tmp_path, f"#!/bin/sh\necho $$ > {tmp_path / 'pid'}\nexec sleep 600\n")
    account = load_config(written(tmp_path, content)).user
    assert account is not None
    assert account.exec is not None
    source = ExecPlugin(account.exec, limit=2.0)

    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ConfigError, match=r"plugin gave no answer in 2 s"),
    ):
        await source.current()

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.anyio
async def test_what_a_plugin_that_waits_for_a_login_asks_for_is_not_lost(tmp_path: Path) -> None:
    content = plugin(tmp_path, "#!/bin/sh\necho 'open https://login.example and enter ABCD' >&2\nexec sleep 600\n")
    account = load_config(written(tmp_path, content)).user
    assert account is not None
    assert account.exec is not None

    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ConfigError, match=r"gave no answer in 2 s: open https://login\.example and enter ABCD"),
    ):
        await ExecPlugin(account.exec, limit=2.0).current()


@pytest.mark.anyio
async def test_requests_that_need_a_token_together_run_the_plugin_once(tmp_path: Path) -> None:
    content = plugin(tmp_path, COUNTING.format(python=sys.executable, count=str(tmp_path / "count")))

    async def knows_the_second(request: Request, writer: asyncio.StreamWriter) -> None:
        is_known = request.headers["authorization"] == "Bearer token-2"
        await (reply(FOUND) if is_known else status(401, "Unauthorized", "expired"))(request, writer)

    async with (
        wire(knows_the_second) as peer,
        KubeApiClient(load_config(written(tmp_path, served_by(peer, content)))) as api,
        anyio.create_task_group() as group,
    ):
        for _ in range(5):
            group.start_soon(api.get, RELEASE)

    assert (tmp_path / "count").read_text() == "xx", "at the first request, and after the 401"


@pytest.mark.anyio
async def test_a_name_and_a_password_are_sent_as_basic_authentication(tmp_path: Path) -> None:
    content = user(username="odoo", password="hunter2")
    async with (
        wire(reply(FOUND)) as peer,
        KubeApiClient(load_config(written(tmp_path, served_by(peer, content)))) as api,
    ):
        await api.get(RELEASE)

    assert peer.requests[0].headers["authorization"] == f"Basic {base64.b64encode(b'odoo:hunter2').decode()}"


@pytest.mark.anyio
async def test_an_answer_may_be_compressed_as_long_lists_are(tmp_path: Path) -> None:
    body = gzip.compress(json.dumps(LISTED).encode())
    compressed = answer(200, body, content_encoding="gzip")
    async with wire(compressed) as peer, KubeApiClient(load_config(written(tmp_path, served_by(peer, user())))) as api:
        page = await api.list(RELEASE.kind)

    assert "gzip" in peer.requests[0].headers["accept-encoding"]
    assert page.resource_version == "7"


# -- TLS -----------------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[Path, Path]:
    """An authority named as every cluster names its own, and a server certificate for 127.0.0.1 signed by it.

    Returns the authority's PEM file and the server's, key included.
    """
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = (
        unsigned("kubernetes", "kubernetes", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server = (
        unsigned("kube-apiserver", "kubernetes", server_key)
        .add_extension(address, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = folder / "ca.crt", folder / "server.pem"
    files[0].write_bytes(authority.public_bytes(pem))
    files[1].write_bytes(key + server.public_bytes(pem))
    return files


def unsigned(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    subject_name, issuer_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)
    )
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject_name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def tls(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_is_trusted_by_the_authority_of_the_kubeconfig_only(tmp_path: Path) -> None:
    authority, server = certificate(tmp_path)
    async with wire(reply(FOUND), tls=tls(server)) as peer:
        trusting = {"server": peer.url, "certificate-authority": authority.name}
        for cluster, trusted in ((trusting, True), ({"server": peer.url}, False)):
            content = document(clusters=[{"name": "main", "cluster": cluster}])
            async with KubeApiClient(load_config(written(tmp_path, content))) as api:
                if trusted:
                    assert await api.get(RELEASE) == FOUND
                else:
                    with pytest.raises(Unavailable, match="unable to get local issuer certificate"):
                        await api.get(RELEASE)


@pytest.mark.anyio
async def test_data_of_an_authority_wins_over_its_file(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (old, _), (new, server) = certificate(tmp_path / "old"), certificate(tmp_path / "new")
    async with wire(reply(FOUND), tls=tls(server)) as peer:
        cluster = {
            "server": peer.url,
            "certificate-authority": str(old),
            "certificate-authority-data": base64.b64encode(new.read_bytes()).decode(),
        }
        content = document(clusters=[{"name": "main", "cluster": cluster}])
        async with KubeApiClient(load_config(written(tmp_path, content))) as api:
            assert await api.get(RELEASE) == FOUND


@pytest.mark.anyio
async def test_a_certificate_that_did_not_sign_itself_may_be_trusted(tmp_path: Path) -> None:
    """As in Go: an intermediate authority, or the server's own certificate."""
    _, server = certificate(tmp_path)
    _, mark, own = server.read_bytes().partition(b"-----BEGIN CERTIFICATE")
    (tmp_path / "own.crt").write_bytes(mark + own)
    async with wire(reply(FOUND), tls=tls(server)) as peer:
        cluster = {"server": peer.url, "certificate-authority": "own.crt"}
        content = document(clusters=[{"name": "main", "cluster": cluster}])
        async with KubeApiClient(load_config(written(tmp_path, content))) as api:
            assert await api.get(RELEASE) == FOUND


@pytest.mark.anyio
async def test_an_authority_without_a_key_usage_is_trusted_where_python_is_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13, in which the image runs, is strict by default; the authorities of many clusters are older."""
    create = ssl.create_default_context

    def strict(**options: Any) -> ssl.SSLContext:
        context = create(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    authority, server = certificate(tmp_path)
    async with wire(reply(FOUND), tls=tls(server)) as peer:
        cluster = {"server": peer.url, "certificate-authority": authority.name}
        content = document(clusters=[{"name": "main", "cluster": cluster}])
        async with KubeApiClient(load_config(written(tmp_path, content))) as api:
            assert await api.get(RELEASE) == FOUND


@pytest.mark.anyio
async def test_a_new_authority_in_the_file_is_trusted_without_a_restart(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (old, _), (new, server) = certificate(tmp_path / "old"), certificate(tmp_path / "new")
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(old.read_bytes())
    async with wire(reply(FOUND), tls=tls(server)) as peer:
        cluster = {"server": peer.url, "certificate-authority": "ca.crt"}
        loaded = load_config(written(tmp_path, document(clusters=[{"name": "main", "cluster": cluster}])))
        async with KubeApiClient(loaded, credential_max_age=0.0) as api:
            with pytest.raises(Unavailable, match="certificate"):
                await api.get(RELEASE)
            trusted.write_bytes(b"-----BEGIN CERT")  # a rotation seen half-way
            with pytest.raises(Unavailable, match="certificate"):
                await api.get(RELEASE)
            trusted.write_bytes(new.read_bytes())
            assert await api.get(RELEASE) == FOUND


@pytest.mark.anyio
async def test_a_rotated_client_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (authority, server), (second, _) = certificate(tmp_path / "old"), certificate(tmp_path / "new")
    context = tls(server)
    context.verify_mode = ssl.CERT_REQUIRED
    for file in (authority, second):
        context.load_verify_locations(file)
    shown: list[int] = []

    async def note(request: Request, writer: asyncio.StreamWriter) -> None:
        shown.append(int(writer.get_extra_info("peercert")["serialNumber"], 16))
        await reply(FOUND)(request, writer)

    def rotate(name: str) -> int:
        pem = (tmp_path / name / "server.pem").read_bytes()
        key, mark, rest = pem.partition(b"-----BEGIN CERTIFICATE")
        (tmp_path / "client.crt").write_bytes(mark + rest)
        (tmp_path / "client.key").write_bytes(key)
        return x509.load_pem_x509_certificate(pem).serial_number

    first = rotate("old")
    async with wire(note, tls=context) as peer:
        clusters = [{"name": "main", "cluster": {"server": peer.url, "certificate-authority": "old/ca.crt"}}]
        content = {
            **user(**{"client-certificate": "client.crt", "client-key": "client.key"}),
            "clusters": clusters,
        }
        async with KubeApiClient(load_config(written(tmp_path, content)), credential_max_age=0.0) as api:
            await api.get(RELEASE)
            (tmp_path / "client.crt").write_bytes(b"-----BEGIN CERT")  # a rotation seen half-way
            await api.get(RELEASE)
            following = rotate("new")
            await api.get(RELEASE)
            for name in ("old", "new"):  # the connections of the certificate before the last one are closed by now
                rotate(name)
                await api.get(RELEASE)

    assert shown == [first, first, following, first, following]


@pytest.mark.anyio
async def test_a_token_is_read_again_when_it_is_old_even_without_a_401(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    async with wire(reply(FOUND)) as peer:
        loaded = load_config(written(tmp_path, served_by(peer, user(tokenFile="token"))))
        for max_age in (60.0, 0.0):
            async with KubeApiClient(loaded, credential_max_age=max_age) as api:
                (tmp_path / "token").write_text("first")
                await api.get(RELEASE)
                (tmp_path / "token").write_text("second")
                await api.get(RELEASE)

    sent = [request.headers["authorization"] for request in peer.requests]
    assert sent == ["Bearer first", "Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.anyio
@pytest.mark.parametrize("content", ["", None])
async def test_a_token_file_that_is_just_being_replaced_fails_no_request(tmp_path: Path, content: str | None) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    async with wire(reply(FOUND)) as peer:
        loaded = load_config(written(tmp_path, served_by(peer, user(tokenFile="token"))))
        async with KubeApiClient(loaded, credential_max_age=0.0) as api:
            await api.get(RELEASE)
            token.write_text(content) if content is not None else token.unlink()
            await api.get(RELEASE)
            token.write_text("second")
            await api.get(RELEASE)

    sent = [request.headers["authorization"] for request in peer.requests]
    assert sent == ["Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.anyio
async def test_a_file_that_vanished_between_loading_and_asking_is_unauthorized(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    content = user(tokenFile="token")
    async with wire(status(500, "", "")) as peer:
        loaded = load_config(written(tmp_path, served_by(peer, content)))
        (tmp_path / "token").unlink()
        async with KubeApiClient(loaded) as api:
            with pytest.raises(Unauthorized, match="token file"):
                await api.get(RELEASE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clusters": [{"name": "main", "cluster": {"server": "https://a", "proxy-url": "http://p"}}]}, "proxy-url"),
        (
            {"clusters": [{"name": "main", "cluster": {"server": "https://a", "tls-server-name": "b"}}]},
            "tls-server-name",
        ),
        ({"users": [{"name": "main", "user": {"token": TOKEN, "as": "root", "as-groups": ["g"]}}]}, "as, as-groups"),
    ],
    ids=["proxy", "server name", "impersonation"],
)
def test_what_would_be_left_out_in_silence_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Permanent, match=f"main has {said}, which is not supported; remove it") as caught:
        load_config(written(tmp_path, document(**changes)))
    assert TOKEN not in str(caught.value)


@pytest.mark.anyio
async def test_proxies_of_the_environment_are_not_for_the_api_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with wire(reply(FOUND)) as peer:
        clusters = [{"name": "main", "cluster": {"server": peer.url}}]
        async with KubeApiClient(load_config(written(tmp_path, document(clusters=clusters)))) as api:
            assert await api.get(RELEASE) == FOUND
