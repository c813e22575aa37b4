"""The sealed example of docs/pull-mode.md is taken by its cluster, alone, and says what the text says (PULL-9)."""

import json
import re
from pathlib import Path

from vworkspace_core.jobs.payload_security import Security, decrypted, opened, signed_content
from vworkspace_core.jobs.result import JobResult
from vworkspace_odoo import JosePayloads

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "pull-mode.md").read_text(encoding="utf-8")
RFC_8037_A2 = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
RFC_7518_C = {
    "kty": "EC",
    "crv": "P-256",
    "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ",
    "y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck",
    "d": "VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw",
}
SECURITY = Security(require_signed=True, opener=JosePayloads(json.dumps(RFC_8037_A2), json.dumps(RFC_7518_C)))


def example(label: str) -> str:
    """The fenced block of that label."""
    (found,) = re.findall(rf"```\w+ {label}\n(.*?)\n```", TEXT, re.DOTALL)
    return str(found)


def test_the_sealed_example_holds_the_same_payload() -> None:
    job = json.loads(example("sealed"))

    clear = opened(job, SECURITY, "prod-1")

    assert isinstance(clear, dict)
    kind = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance"}
    assert clear["payload"] == {**kind, "namespace": "demo", "name": "shop"}
    assert isinstance(opened(job, SECURITY, "prod-2"), JobResult)
    assert clear == decrypted(job, SECURITY)
    assert signed_content(job, "prod-1").keys() == {
        "cluster",
        "expiresAt",
        "idempotencyKey",
        "kind",
        "encryptedPayload",
    }
