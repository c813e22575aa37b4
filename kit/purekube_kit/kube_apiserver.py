"""A kube-apiserver with its etcd, without controllers, on loopback ports (RUN-8).

`KUBEBUILDER_ASSETS` names a folder that setup-envtest created, with the executables `etcd` and `kube-apiserver`.
Everything else is created here: certificates, a token for the administrator, and data in a folder that is removed at
the end.
"""

import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates
from kubelab.http.serving import kubeconfig

LOOPBACK: Final = "127.0.0.1"
OPERATOR_USER: Final = "system:serviceaccount:vworkspace-system:vworkspace-operator"
"""The user of the operator's requests. It has only the rights that roles grant it."""
GRACE: Final = 10.0
"""The seconds in which a process has to end after SIGTERM, before it is killed."""
PATIENCE: Final = 240.0
"""The seconds in which a started process has to answer: far more than it needs, even on a busy machine."""


class CannotStart(Exception):
    """The error if etcd or kube-apiserver does not start. Its message has the program and the end of its log."""


@attrs.frozen
class Assets:
    """The paths of the two programs, etcd and kube-apiserver."""

    etcd: Path
    apiserver: Path


@attrs.frozen
class RealServer:
    """The address and credentials of a running kube-apiserver.

    `token` is the administrator's, and `operator_token` that of the operator's user. `authority` is the certificate by
    which clients verify the server.
    """

    url: str
    token: str = attrs.field(repr=False)
    operator_token: str = attrs.field(repr=False)
    authority: bytes

    def kubeconfig(self) -> dict[str, Any]:
        """Return the administrator's kubeconfig."""
        return kubeconfig(self.url, self.token, authority=self.authority)


def assets_of(environment: Mapping[str, str]) -> Assets | str:
    """Return the paths of etcd and kube-apiserver in `KUBEBUILDER_ASSETS`.

    If one is missing, return the reason as a string.
    """
    folder = environment.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        return "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver"
    assets = Assets(Path(folder) / "etcd", Path(folder) / "kube-apiserver")
    missing = [path.name for path in (assets.etcd, assets.apiserver) if not path.is_file()]
    return f"KUBEBUILDER_ASSETS={folder} holds no {' and no '.join(missing)}" if missing else assets


def etcd_command(assets: Assets, data: Path, client: int, peer: int) -> list[str]:
    """Return the command that runs a single etcd member, which does not sync its data to disk.

    `data` is the folder of its data; `client` and `peer` are its ports.
    """
    serves, joins = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
    return [
        str(assets.etcd),
        f"--data-dir={data}",
        f"--listen-client-urls={serves}",
        f"--advertise-client-urls={serves}",
        f"--listen-peer-urls={joins}",
        f"--initial-advertise-peer-urls={joins}",
        f"--initial-cluster=default={joins}",
        "--unsafe-no-fsync",
        # etcd's 2 GB are full after that many revisions, and kube-apiserver compacts them every 5 minutes only.
        f"--quota-backend-bytes={8 * 1024**3}",
    ]


def apiserver_command(assets: Assets, folder: Path, port: int, etcd: int) -> list[str]:
    """Return the command that runs a kube-apiserver with RBAC, without features that need controllers.

    `folder` has the files that `write_credentials` writes. `port` is the server's port, and `etcd` the port of its
    etcd. Service accounts get no tokens, and endpoints no addresses.
    """
    return [
        str(assets.apiserver),
        f"--etcd-servers=http://{LOOPBACK}:{etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://localhost/",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # The plugin refuses pods until a controller has created the account `default`.
        "--disable-admission-plugins=ServiceAccount",
        # The Service `kubernetes` may have no endpoint in the loopback range, which is the only address here.
        "--endpoint-reconciler-type=none",
        # Otherwise the validation of pods refuses privileged containers.
        "--allow-privileged=true",
    ]


def audit_flags(log: Path, policy: str) -> list[str]:
    """Return flags of kube-apiserver for an audit log in the file `log`, after writing the audit policy.

    `policy` is YAML, which is written to a file in the same folder. The log may grow to a terabyte: without a size
    kube-apiserver begins a new file after 100 MB, and a reader of this one misses the rest.
    """
    beside = log.with_name("policy.yaml")
    beside.write_text(policy, encoding="utf-8")
    return [f"--audit-log-path={log}", f"--audit-policy-file={beside}", "--audit-log-maxsize=1000000"]


@contextmanager
def started(assets: Assets, *flags: str, patience: Mapping[str, float] = {}) -> Iterator[RealServer]:
    """Run etcd and kube-apiserver while the block runs, then stop them and remove their data.

    `flags` are added to kube-apiserver's. `patience` maps a program's name to the seconds in which it must answer.
    Raises CannotStart if a program ends early or does not answer in time.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-envtest-")))
        made = certificates_for(("localhost", LOOPBACK), datetime.now(UTC))
        token, operator = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        write_credentials(folder, made, token, operator)
        client, peer, port = free_ports(3)
        etcd = stack.enter_context(_process(etcd_command(assets, folder / "etcd", client, peer), folder))
        _wait(etcd, lambda: _answers(f"http://{LOOPBACK}:{client}/health"), patience.get("etcd", PATIENCE))
        server = stack.enter_context(_process([*apiserver_command(assets, folder, port, client), *flags], folder))
        url, trust = f"https://{LOOPBACK}:{port}", ssl.create_default_context(cadata=made.authority.decode())
        _wait(server, lambda: _answers(f"{url}/readyz", trust, token), patience.get("kube-apiserver", PATIENCE))
        yield RealServer(url, token, operator, made.authority)


@attrs.frozen
class _Running:
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


@contextmanager
def _process(command: Sequence[str], folder: Path) -> Iterator[_Running]:
    name = Path(command[0]).name
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield _Running(name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(running: _Running, is_ready: Callable[[], bool], patience: float) -> None:
    limit = time.monotonic() + patience
    while not is_ready():
        status = running.process.poll()
        if status is not None:
            raise CannotStart(f"{running.name} ended with status {status}:\n{running.tail()}")
        if time.monotonic() > limit:
            raise CannotStart(f"{running.name} does not answer after {patience:g} s:\n{running.tail()}")
        time.sleep(0.1)


def _answers(url: str, trust: ssl.SSLContext | None = None, token: str = "") -> bool:
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def write_credentials(folder: Path, made: Certificates, token: str, operator: str) -> None:
    """Write the files in `folder` that `apiserver_command` passes to kube-apiserver.

    They are the certificate `made` and its key, a new key for the tokens of service accounts, and a list of two users
    with their bearer tokens: the administrator with `token`, and the operator with `operator`.
    """
    # The groups of every service account (apiserver: authentication/serviceaccount/util.go, MakeGroupNames).
    groups = ",".join(("system:serviceaccounts", f"system:serviceaccounts:{OPERATOR_USER.split(':')[2]}"))
    users = f'{token},admin,admin,"system:masters"\n{operator},{OPERATOR_USER},operator,"{groups}"\n'
    for name, content in (
        ("server.crt", made.certificate),
        ("server.key", made.key),
        ("accounts.key", _account_key()),
        ("tokens.csv", users.encode()),
    ):
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)


def _account_key() -> bytes:
    """Return a new key for tokens of service accounts, as traditional PEM. kube-apiserver cannot read it as PKCS#8."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def free_ports(count: int) -> list[int]:
    """Return `count` different TCP ports of the loopback address that are free at this moment."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
