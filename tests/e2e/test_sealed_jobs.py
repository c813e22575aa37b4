"""Jobs that a control plane signs and encrypts, through the production process (PULL-9).

Three processes as a user would run them; the keys lie in files and in the credentials Secret.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_command_processes import (
    ADMIN_TOKEN,
    GATE,
    TOKEN,
    ask,
    cluster,
    control_plane,
    make_namespace,
    operator,
    result_of,
    stopped,
)
from tests.support.commands import call, merge, one_line, run
from tests.support.e2e_world import CLUSTER, FIRST, NAME, NS, instance
from tests.support.key_pairs import KeyPairs

OWN = "vworkspace-system"
MARK = "m4rk-of-a-value"


def keys_in(folder: Path, pairs: KeyPairs) -> tuple[str, ...]:
    """Options of the control plane that name these keys."""
    assert pairs.sealing.signing_key is not None
    assert pairs.sealing.recipient_key is not None
    signing, encryption = folder / "signing.pem", folder / "encryption.pem"
    signing.write_bytes(pairs.sealing.signing_key.as_pem(private=True))
    encryption.write_bytes(pairs.sealing.recipient_key.as_pem(private=False))
    return ("--signing-key", str(signing), "--encryption-key", str(encryption))


def put_secret(url: str, control_url: str, pairs: KeyPairs) -> None:
    data = {
        "control-plane-base-url": control_url,
        "cluster-id": CLUSTER,
        "token": TOKEN,
        "signing-public-key": pairs.signing_public_key,
        "decryption-key": pairs.decryption_key,
    }
    metadata = {"name": "vworkspace-agent-credentials", "namespace": OWN}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    call("POST", f"{url}/api/v1/namespaces/{OWN}/secrets", secret)


def require_security(url: str, control_url: str) -> None:
    security = {"requireSignedPayloads": True, "requireEncryptedSecretPayloads": True}
    spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": control_url, "security": security}
    found = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "this"}, "spec": spec}
    call("POST", f"{url}/apis/ops.vworkspace.io/v1alpha1/clusters", found)


def unsealed(control_url: str, job_id: str) -> None:
    """A job that somebody slipped in: well-formed, without a signature."""
    manifest: dict[str, Any] = instance(FIRST)
    manifest["spec"]["appRef"]["catalogId"] = MARK
    raw = {
        "id": job_id,
        "kind": "apply",
        "payload": manifest,
        "idempotencyKey": f"ApplicationInstance/{NS}/{NAME}@9",
        "createdAt": "2026-01-01T00:00:00Z",
        "expiresAt": "2099-01-01T00:00:00Z",
    }
    call("POST", f"{control_url}/api/admin/jobs", {"clusterId": CLUSTER, "raw": raw}, token=ADMIN_TOKEN)


@pytest.mark.slow
def test_sealed_jobs_are_applied_and_others_are_answered_with_what_is_wrong_PULL_9(tmp_path: Path) -> None:
    pairs = KeyPairs.generate()
    with cluster(tmp_path) as api, control_plane(tmp_path, *keys_in(tmp_path, pairs)) as control:
        url, control_url = api.ready(), control.ready()
        for name, labels in ((NS, GATE), (OWN, {})):
            make_namespace(url, name, labels)
        put_secret(url, control_url, pairs)
        require_security(url, control_url)
        with operator(tmp_path, "--kubeconfig", tmp_path / "kubeconfig") as process:
            ask(control_url, "sealed", 7)
            assert process.until(lambda: result_of(control_url, "sealed"), "its result")["outcome"] == "succeeded"
            sent = call("GET", f"{control_url}/api/admin/jobs/sealed", token=ADMIN_TOKEN)["job"]
            assert ("payload" in sent, len(sent["encryptedPayload"].split("."))) == (False, 5)

            unsealed(control_url, "slipped-in")
            refused = process.until(lambda: result_of(control_url, "slipped-in"), "its result")
            assert refused["error"].startswith("JobPayloadSignatureInvalid: the job has no signature")
            assert MARK not in json.dumps(refused)

            _exchange_signing_key(url, KeyPairs.generate().signing_public_key)
            process.until(lambda: process.log("the credentials changed"), "the new key")
            ask(control_url, "old-key", 8)
            refused = process.until(lambda: result_of(control_url, "old-key"), "its result")
            assert refused["error"].startswith("JobPayloadSignatureInvalid: the signature does not match")
            ended = stopped(process)
        assert MARK not in ended.err
        assert not [line for line in pairs.decryption_key.splitlines() if line in ended.err]


def _exchange_signing_key(url: str, pem: str) -> None:
    where = f"{url}/api/v1/namespaces/{OWN}/secrets/vworkspace-agent-credentials"
    merge(where, {"data": {"signing-public-key": base64.b64encode(pem.encode()).decode()}})


@pytest.mark.slow
def test_a_key_file_of_no_use_is_one_line(tmp_path: Path) -> None:
    words = ("control-plane", "--cluster-id", "a", "--token", "b", "--admin-token", "c")
    bad = tmp_path / "bad.pem"
    bad.write_text(MARK, encoding="utf-8")

    assert one_line(run(*words, "--signing-key", bad), 1) == f"--signing-key {bad}: is no elliptic-curve key in PEM"
    told = one_line(run(*words, "--encryption-key", tmp_path / "none"), 1)
    assert told.endswith("none: cannot be read: No such file or directory")
