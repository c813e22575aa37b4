"""Signatures and encryption of payloads (PULL-9): vectors of the RFCs, hostile input, and both ends together.

The vectors are those of RFC 7515 A.3 and 8037 A.4 (signatures), 7516 A.1, 7518 C and 7520 5.4 (encryption, which
use other algorithms than ours and must be refused), and 8785 3.2 (canonical JSON).
"""

import base64
import hmac
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from joserfc import jwe, jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from purekube.apimachinery.errors import Invalid
from tests.support.effort import effort
from tests.support.jobs import CLUSTER_ID
from tests.support.jobs import instance as manifest
from tests.support.key_pairs import KeyPairs
from tests.support.work import calls_of
from vworkspace_core.jobs.payload_security import Security, Signatures, in_force, signed_content
from vworkspace_core.jobs.result import JobOutcome, Reason
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobStage, JobState, accept, record_of, restore
from vworkspace_fake.controlplane.sealing import Sealing
from vworkspace_odoo import JosePayloads
from vworkspace_odoo.jose import canonical, decrypt_compact, verify_detached
from vworkspace_odoo.keys import decryption_keys, signing_keys

PAIRS = {
    "Ed25519": KeyPairs.generate(),
    "P-256": KeyPairs.generate(signing="P-256", encryption="X25519"),
}
ED, EC = PAIRS["Ed25519"], PAIRS["P-256"]
MARK = "m4rk-of-the-payload"


def instance() -> dict[str, Any]:
    """A manifest whose content can be recognised."""
    found = manifest()
    found["spec"]["appRef"]["catalogId"] = MARK
    return found


def opener(pairs: KeyPairs) -> JosePayloads:
    return JosePayloads(pairs.signing_public_key, pairs.decryption_key)


def job(**fields: Any) -> dict[str, Any]:
    found = {
        "id": "job-1",
        "kind": "apply",
        "payload": instance() if not fields.get("encryptedPayload") else None,
        "idempotencyKey": "ApplicationInstance/org-myteam/nextcloud@1",
        "createdAt": "2026-01-01T00:00:00Z",
        "expiresAt": "2026-01-01T01:00:00Z",
    }
    return {**found, **fields}


def strict(pairs: KeyPairs, **required: bool) -> JobScope:
    return JobScope(CLUSTER_ID, security=Security(**{"require_signed": True, **required}, opener=opener(pairs)))


def taken(raw: Any, scope: JobScope) -> JobState:
    found = accept(raw, 0, scope)
    assert isinstance(found, JobState)
    return found


def refused(raw: Any, scope: JobScope, reason: Reason) -> str:
    """The error of a job that is answered at once, applies nothing and repeats nothing."""
    found = taken(raw, scope)
    assert found.task is None
    assert found.result is not None
    assert found.result.outcome is JobOutcome.FAILED
    error = found.result.error
    assert error.startswith(f"{reason}: "), error
    assert MARK not in error + repr(found) + json.dumps([found.raw, record_of(found).state])
    return error.removeprefix(f"{reason}: ")


def b64(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def rejected(call: Callable[[], Any]) -> str:
    with pytest.raises(Invalid) as caught:
        call()
    assert MARK not in str(caught.value)
    return caught.value.message


# --- the RFCs -----------------------------------------------------------------------------------------------------

RFC_7515_A3_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
RFC_7515_A3 = (
    "eyJhbGciOiJFUzI1NiJ9..DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RFC_7515_PAYLOAD = b'{"iss":"joe",\r\n "exp":1300819380,\r\n "http://example.com/is_root":true}'
RFC_8037_A4_KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
RFC_8037_A4 = (
    "eyJhbGciOiJFZERTQSJ9..hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
)
RFC_8037_PAYLOAD = b"Example of Ed25519 signing"


@pytest.mark.parametrize(
    ("key", "signature", "payload"),
    [(RFC_7515_A3_KEY, RFC_7515_A3, RFC_7515_PAYLOAD), (RFC_8037_A4_KEY, RFC_8037_A4, RFC_8037_PAYLOAD)],
    ids=["RFC 7515 A.3", "RFC 8037 A.4"],
)
def test_signatures_of_the_RFCs_hold_in_detached_form_and_for_nothing_else(
    key: Mapping[str, str], signature: str, payload: bytes
) -> None:
    keys = signing_keys(json.dumps(key))
    verify_detached(signature, payload, keys)

    whole = signature.replace("..", f".{b64(payload)}.")
    assert "detached" in rejected(lambda: verify_detached(whole, payload, keys))
    assert "does not match" in rejected(lambda: verify_detached(signature, payload + b" ", keys))
    changed = signature[:-6] + ("A" if signature[-6] != "A" else "B") + signature[-5:]
    assert "does not match" in rejected(lambda: verify_detached(changed, payload, keys))


def test_the_HMAC_example_of_the_RFC_is_refused_with_the_key_that_made_it() -> None:
    """RFC 7515 A.1: a symmetric key is no key for us, and HS256 no algorithm."""
    octets = {
        "kty": "oct",
        "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
    }
    signature = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9..dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

    assert "elliptic-curve" in rejected(lambda: signing_keys(json.dumps(octets)))
    keys = signing_keys(json.dumps(RFC_7515_A3_KEY))
    assert "algorithm" in rejected(lambda: verify_detached(signature, RFC_7515_PAYLOAD, keys))


RFC_7520_54_KEY: dict[str, str | list[str]] = {
    "kty": "EC",
    "crv": "P-384",
    "x": "YU4rRUzdmVqmRtWOs2OpDE_T5fsNIodcG8G5FWPrTPMyxpzsSOGaQLpe2FpxBmu2",
    "y": "A8-yxCHxkfBz3hKZfI1jUYMjUhsEveZ9THuwFjH2sCNdtksRJU7D5-SkgaFL1ETP",
    "d": "iTx2pk7wW-GqJkHcEkFQb2EFyYcO7RugmaW3mRrQVAOUiPommT0IdnYK2xDlZh-j",
}
RFC_7520_54 = ".".join(
    (
        "eyJhbGciOiJFQ0RILUVTK0ExMjhLVyIsImtpZCI6InBlcmVncmluLnRvb2tAdHVja2Jvcm91Z2guZXhhbXBsZSIsImVwayI6eyJrdHkiOiJF"
        "QyIsImNydiI6IlAtMzg0IiwieCI6InVCbzRrSFB3Nmtiang1bDB4b3dyZF9vWXpCbWF6LUdLRlp1NHhBRkZrYllpV2d1dEVLNml1RURzUTZ3"
        "TmROZzMiLCJ5Ijoic3AzcDVTR2haVkMyZmFYdW1JLWU5SlUyTW84S3BvWXJGRHI1eVBOVnRXNFBnRXdaT3lRVEEtSmRhWTh0YjdFMCJ9LCJl"
        "bmMiOiJBMTI4R0NNIn0",
        "0DJjBXri_kBcC46IkU5_Jk9BqaQeHdv2",
        "mH-G2zVqgztUtnW_",
        "tkZuOO9h95OgHJmkkrfLBisku8rGf6nzVxhRM3sVOhXgz5NJ76oID7lpnAi_cPWJRCjSpAaUZ5dOR3Spy7QuEkmKx8-3RCMhSYMzsXaEwDdX"
        "ta9Mn5B7cCBoJKB0IgEnj_qfo1hIi-uEkUpOZ8aLTZGHfpl05jMwbKkTe2yK3mjF6SBAsgicQDVCkcY9BLluzx1RmC3ORXaM0JaHPB93YcdS"
        "DGgpgBWMVrNU1ErkjcMqMoT_wtCex3w03XdLkjXIuEr2hWgeP-nkUZTPU9EoGSPj6fAS-bSz87RCPrxZdj_iVyC6QWcqAu07WNhjzJEPc4jV"
        "ntRJ6K53NgPQ5p99l3Z408OUqj4ioYezbS6vTPlQ",
        "WuGzxmcreYjpHGJoa17EBg",
    )
)


def test_the_ECDH_ES_example_of_RFC_7520_opens_in_the_library_and_is_refused_by_us() -> None:
    """Section 5.4 has our key agreement with smaller keys: the library computes it right, and we do not take it."""
    algorithms = ["ECDH-ES+A128KW", "A128GCM"]
    plain = jwe.decrypt_compact(RFC_7520_54, ECKey.import_key(dict(RFC_7520_54_KEY)), algorithms=algorithms).plaintext
    assert plain is not None
    assert plain.startswith(b"You can trust us to stick with you through thick and")

    keys = decryption_keys(json.dumps(RFC_7520_54_KEY))
    assert "A256GCM" in rejected(lambda: decrypt_compact(RFC_7520_54, keys))


RFC_7518_C_BOB = {
    "kty": "EC",
    "crv": "P-256",
    "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ",
    "y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck",
    "d": "VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw",
}
RFC_7518_C_HEADER = {
    "alg": "ECDH-ES",
    "enc": "A128GCM",
    "apu": "QWxpY2U",
    "apv": "Qm9i",
    "epk": {
        "kty": "EC",
        "crv": "P-256",
        "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",
        "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
    },
}


def test_direct_key_agreement_as_in_RFC_7518_C_is_refused() -> None:
    sealed = f"{b64(RFC_7518_C_HEADER)}..{b64(bytes(12))}.{b64(bytes(8))}.{b64(bytes(16))}"
    keys = decryption_keys(json.dumps(RFC_7518_C_BOB))

    assert "A256GCM" in rejected(lambda: decrypt_compact(sealed, keys))
    ours = f"{b64({**RFC_7518_C_HEADER, 'enc': 'A256GCM'})}..{b64(bytes(12))}.{b64(bytes(8))}.{b64(bytes(16))}"
    assert "algorithm" in rejected(lambda: decrypt_compact(ours, keys))


def test_RSA_as_in_RFC_7516_A_is_refused_before_anything_is_computed() -> None:
    header = {"alg": "RSA-OAEP", "enc": "A256GCM"}
    sealed = f"{b64(header)}.OKOawDo13gRp2ojaHV7LFpZcgV7T6DVZKTyKOMTYUmKoTCVJRgckCL9kiMT03JGe.48V1_ALb6US04U3b.AA.AA"

    assert "algorithm" in rejected(lambda: decrypt_compact(sealed, decryption_keys(ED.decryption_key)))


def test_canonical_JSON_is_that_of_RFC_8785() -> None:
    given = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical(given).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    in_order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(dict.fromkeys(names, 1)))) == in_order, "section 3.2.3: by UTF-16 code units"
    for wild in (2**53 + 1, float("nan"), float("inf")):
        assert "RFC 8785" in rejected(partial(canonical, {MARK: wild}))


# --- both ends together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("encrypted", [False, True], ids=["in the clear", "encrypted"])
def test_what_a_control_plane_seals_is_taken_PULL_9(name: str, encrypted: bool) -> None:
    pairs = PAIRS[name]
    seal = pairs.sealing if encrypted else Sealing(pairs.sealing.signing_key)
    sent = seal(job(), CLUSTER_ID)
    assert (MARK in json.dumps(sent)) is not encrypted

    found = taken(sent, strict(pairs))

    assert found.task == taken(job(), JobScope(CLUSTER_ID)).task
    assert found.stage is JobStage.RECORDING
    assert record_of(found).raw == sent, "the record holds what was sent: nothing decrypted"
    again = restore(record_of(found), 0, strict(pairs))
    assert (again.task, again.result) == (found.task, None)


def test_a_recorded_job_is_not_judged_again_by_keys_and_rules_of_later() -> None:
    sent = ED.sealing(job(), CLUSTER_ID)
    record = record_of(taken(sent, strict(ED)))
    later = JosePayloads(EC.signing_public_key, ED.decryption_key)

    assert (
        restore(record, 0, JobScope(CLUSTER_ID, security=Security(require_signed=True, opener=later))).task is not None
    )
    gone = restore(record, 0, strict(EC))
    assert gone.result is not None
    assert gone.result.error.startswith("JobPayloadDecryptionFailed: ")


def test_keys_may_overlap_while_they_are_exchanged() -> None:
    both = JosePayloads(
        f"{EC.signing_public_key}\n{ED.signing_public_key}", f"{ED.decryption_key}\n{EC.decryption_key}"
    )
    scope = JobScope(CLUSTER_ID, security=Security(require_signed=True, opener=both))
    for pairs in PAIRS.values():
        assert taken(pairs.sealing(job(), CLUSTER_ID), scope).task is not None


def test_a_JWK_set_names_its_keys_by_kid() -> None:
    public = [{**OKPKey.generate_key("Ed25519").as_dict(private=False), "kid": name} for name in ("a", "b")]
    signer = OKPKey.generate_key("Ed25519")
    public.append({**signer.as_dict(private=False), "kid": "c"})
    keys = signing_keys(json.dumps({"keys": public}))
    content = b"{}"

    def signed(**header: str) -> str:
        registry = jws.JWSRegistry(algorithms=["Ed25519"])
        return jws.detach_content(
            jws.serialize_compact({"alg": "Ed25519", **header}, content, signer, registry=registry)
        )

    verify_detached(signed(), content, keys)
    verify_detached(signed(kid="c"), content, keys)
    assert "does not match" in rejected(lambda: verify_detached(signed(kid="a"), content, keys))
    assert "algorithm or key" in rejected(lambda: verify_detached(signed(kid="d"), content, keys))


@pytest.mark.parametrize(
    ("by_cluster", "with_key", "told", "required"),
    [
        (False, False, Signatures.AUTO, False),
        (False, True, Signatures.AUTO, True),
        (False, True, Signatures.UNSIGNED, False),
        (True, True, Signatures.UNSIGNED, True),
        (False, False, Signatures.REQUIRED, True),
        (True, False, Signatures.AUTO, True),
    ],
)
def test_a_configured_key_means_required_unless_the_setting_says_unsigned_PULL_9(
    by_cluster: bool, with_key: bool, told: Signatures, required: bool
) -> None:
    keys = opener(ED) if with_key else JosePayloads()

    security = in_force(Security(require_signed=by_cluster), keys, told)

    assert security.require_signed is required
    scope = JobScope(CLUSTER_ID, security=security)
    if required:
        refused(job(), scope, Reason.SIGNATURE_INVALID)
    else:
        assert taken(job(), scope).result is None


def test_taking_the_signature_off_a_job_does_not_help_where_there_is_a_key_PULL_9() -> None:
    scope = JobScope(CLUSTER_ID, security=in_force(Security(), opener(ED)))
    signed = Sealing(ED.sealing.signing_key)(job(), CLUSTER_ID)

    assert taken(signed, scope).result is None
    stripped = {name: value for name, value in signed.items() if name != "signature"}
    assert "has no signature" in refused(stripped, scope, Reason.SIGNATURE_INVALID)
    unsigned = JobScope(CLUSTER_ID, security=in_force(Security(), opener(ED), Signatures.UNSIGNED))
    refused({**signed, "signature": signed["signature"][:-6] + "AAAAAA"}, unsigned, Reason.SIGNATURE_INVALID)


def test_what_is_missing_is_refused_where_it_is_required_and_only_there() -> None:
    assert "has no signature" in refused(job(), strict(ED), Reason.SIGNATURE_INVALID)
    keyless = JobScope(CLUSTER_ID, security=Security(require_signed=True, opener=JosePayloads()))
    sent = Sealing(ED.sealing.signing_key)(job(), CLUSTER_ID)
    assert "signing-public-key" in refused(sent, keyless, Reason.SIGNATURE_INVALID)
    sealed = Sealing(None, ED.sealing.recipient_key)(job(), CLUSTER_ID)
    assert "decryption-key" in refused(sealed, JobScope(CLUSTER_ID), Reason.DECRYPTION_FAILED)

    for scope in (JobScope(CLUSTER_ID), JobScope(CLUSTER_ID, security=Security(opener=JosePayloads()))):
        assert taken(sent, scope).task is not None, "nobody asked for a signature, and nobody can check it"
    assert taken(job(), JobScope(CLUSTER_ID, security=Security(opener=opener(ED)))).task is not None


@pytest.mark.parametrize("missing", ["joserfc", "rfc8785"])
def test_without_the_packages_of_signatures_nothing_signed_is_taken_and_the_reason_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sealing(ED.sealing.signing_key)(job(), CLUSTER_ID)
    sealed = Sealing(None, ED.sealing.recipient_key)(job(), CLUSTER_ID)
    for name in ("vworkspace_odoo.jose", "vworkspace_odoo.keys"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    scope = JobScope(CLUSTER_ID, security=in_force(Security(), opener(ED)))

    assert scope.security.require_signed
    said = refused(sent, scope, Reason.SIGNATURE_INVALID)
    assert f"{missing} is missing" in said
    assert "vworkspace-operator[operator,signatures]" in said
    refused(job(), scope, Reason.SIGNATURE_INVALID)
    unsigned = JobScope(CLUSTER_ID, security=Security(opener=opener(ED)))
    assert f"{missing} is missing" in refused(sealed, unsigned, Reason.DECRYPTION_FAILED)


def test_a_wrong_signature_is_refused_also_where_none_is_required() -> None:
    scope = JobScope(CLUSTER_ID, security=Security(opener=opener(ED)))

    assert "does not match" in refused(
        {**Sealing(ED.sealing.signing_key)(job(), CLUSTER_ID), "kind": "delete"}, scope, Reason.SIGNATURE_INVALID
    )


def test_secrets_in_the_clear_are_refused_where_they_must_be_encrypted() -> None:
    payload = instance()
    payload["spec"]["parameters"] = {"adminPassword": MARK}
    scope = strict(ED, require_signed=False, require_encrypted_secrets=True)

    assert "in the clear" in refused(job(payload=payload), scope, Reason.DECRYPTION_FAILED)
    assert taken(job(), scope).task is not None, "a payload without secrets may come in the clear"
    found = taken(ED.sealing(job(payload=payload), CLUSTER_ID), scope)
    assert found.result is None or "JobPayload" not in found.result.error


# --- hostile signatures -------------------------------------------------------------------------------------------


def forged(header: Mapping[str, Any], signature: bytes = bytes(64)) -> str:
    return f"{b64(dict(header))}..{b64(signature)}"


def hmac_with_the_public_key(pairs: KeyPairs) -> str:
    """The classic: the public key's text as the secret of an HMAC."""
    content = rfc8785.dumps(signed_content(job(), CLUSTER_ID))
    header = b64({"alg": "HS256"})
    digest = hmac.digest(pairs.signing_public_key.encode(), f"{header}.{b64(content)}".encode(), "sha256")
    return f"{header}..{b64(digest)}"


def own_key_in(member: str) -> str:
    """Signed well, by a key that the header itself brings."""
    key = OKPKey.generate_key("Ed25519")
    public = key.as_dict(private=False)
    value = {"jwk": public, "jku": "https://evil.example.com", "x5u": "https://evil.example.com", "x5c": ["AAAA"]}
    content = rfc8785.dumps(signed_content(job(), CLUSTER_ID))
    header = {"alg": "Ed25519", member: value[member]}
    registry = jws.JWSRegistry(algorithms=["Ed25519"])
    return jws.detach_content(jws.serialize_compact(header, content, key, registry=registry))


TWICE = b'{"alg":"none","alg":"EdDSA"}'
HOSTILE: dict[str, Any] = {
    "none": forged({"alg": "none"}, b""),
    "None": forged({"alg": "None"}, b""),
    "HS256 with the public key as secret": hmac_with_the_public_key(ED),
    "another algorithm's signature": forged({"alg": "ES256"}),
    "a list of algorithms": forged({"alg": ["EdDSA"]}),
    "no algorithm": forged({}),
    "an empty signature": forged({"alg": "EdDSA"}, b""),
    "crit": forged({"alg": "EdDSA", "crit": ["b64"], "b64": False}),
    "b64": forged({"alg": "EdDSA", "b64": False}),
    "a name twice": f"{b64(TWICE)}..{b64(bytes(64))}",
    "no JSON": f"{b64(b'alg')}..{b64(bytes(64))}",
    "a JSON list": f"{b64([1])}..{b64(bytes(64))}",
    "deep JSON": f"{b64(b'[' * 700)}..{b64(bytes(64))}",
    "no text": 7,
    "an object": {"payload": "", "signatures": []},
    "empty": "",
    "dots": "....",
    "spaces": " a . . b ",
    "line ends": f"{forged({'alg': 'EdDSA'})}\n",
    "oversized": forged({"alg": "EdDSA"}, bytes(4096)),
    **{member: own_key_in(member) for member in ("jwk", "jku", "x5u", "x5c")},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_signatures_are_refused_PULL_9(name: str) -> None:
    refused({**job(), "signature": HOSTILE[name]}, strict(ED), Reason.SIGNATURE_INVALID)


def test_a_signature_by_another_key_or_for_another_cluster_is_refused() -> None:
    other = KeyPairs.generate()
    assert "does not match" in refused(other.sealing(job(), CLUSTER_ID), strict(ED), Reason.SIGNATURE_INVALID)
    assert "does not match" in refused(ED.sealing(job(), "cluster-of-others"), strict(ED), Reason.SIGNATURE_INVALID)


scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
changed_payloads = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@st.composite
def changes(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one thing in it replaced, added or taken away."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                return {**value, name: draw(changes(value[name]))}
            case "remove":
                return {key: item for key, item in value.items() if key != name}
            case _:
                return {**value, draw(st.text(max_size=5)): draw(changed_payloads)}
    if isinstance(value, str) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return value[:at] + draw(st.characters(codec="utf-8")) + value[at + 1 :]
    return draw(changed_payloads)


@given(st.data(), st.sampled_from(["expiresAt", "idempotencyKey", "kind", "payload"]), st.sampled_from(sorted(PAIRS)))
def test_any_change_of_any_signed_field_is_refused_PULL_9(data: st.DataObject, field: str, name: str) -> None:
    pairs = PAIRS[name]
    sent = Sealing(pairs.sealing.signing_key)(job(), CLUSTER_ID)
    changed = data.draw(changes(sent[field]))
    assume(changed != sent[field])

    assert refused({**sent, field: changed}, strict(pairs), Reason.SIGNATURE_INVALID)


@given(st.text(max_size=20).filter(lambda found: found != CLUSTER_ID))
def test_a_job_for_another_cluster_cannot_be_replayed_here_PULL_9(other: str) -> None:
    refused(ED.sealing(job(), other), strict(ED), Reason.SIGNATURE_INVALID)


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,80}\.\.[A-Za-z0-9_-]{0,90}", fullmatch=True))
@settings(max_examples=effort(1.5))
def test_whatever_stands_for_a_signature_is_an_answer_never_a_crash(text: str) -> None:
    refused({**job(), "signature": text}, strict(ED), Reason.SIGNATURE_INVALID)


# --- hostile encryption -------------------------------------------------------------------------------------------


def sealed_with(header: Mapping[str, Any], plain: bytes = b"{}") -> str:
    """A JWE that our key opens, with more in its header than it should have."""
    registry = jwe.JWERegistry(algorithms=["ECDH-ES+A256KW", "A256GCM", "DEF"], strict_check_header=False)
    assert ED.sealing.recipient_key is not None
    base = {"alg": "ECDH-ES+A256KW", "enc": "A256GCM"}
    return jwe.encrypt_compact({**base, **header}, plain, ED.sealing.recipient_key, registry=registry)


def part_replaced(at: int, by: str) -> str:
    parts = ED.sealing.encrypt({"kept": MARK}).split(".")
    return ".".join([*parts[:at], by, *parts[at + 1 :]])


SEALED: dict[str, tuple[Any, str]] = {
    "for another key": (KeyPairs.generate().sealing.encrypt({}), "cannot be decrypted"),
    "for a key on another curve": (EC.sealing.encrypt({}), "cannot be decrypted"),
    "compressed": (sealed_with({"zip": "DEF"}, b'{"a":1}'), "not admitted"),
    "nested by cty": (sealed_with({"cty": "JWE"}, ED.sealing.encrypt({}).encode()), "nesting is not taken"),
    "nested, not told": (sealed_with({}, ED.sealing.encrypt({}).encode()), "is not JSON"),
    "nested as text": (sealed_with({}, json.dumps(ED.sealing.encrypt({})).encode()), "not a JSON object"),
    "a list": (sealed_with({}, b"[]"), "not a JSON object"),
    "no JSON": (sealed_with({}, b"\xff"), "is not JSON"),
    "a name twice": (sealed_with({}, b'{"kind":"a","kind":"b"}'), "is not JSON"),
    "too deep to read": (sealed_with({}, b'{"a":' * 5000), "is not JSON"),
    "crit": (sealed_with({"crit": ["typ"], "typ": "JWE"}), "not admitted"),
    "jwk": (sealed_with({"jwk": {"kty": "oct", "k": "AA"}}), "not admitted"),
    "altered ciphertext": (part_replaced(3, b64(b"altered")), "cannot be decrypted"),
    "altered tag": (part_replaced(4, b64(bytes(16))), "cannot be decrypted"),
    "a short tag": (part_replaced(4, b64(bytes(4))), "cannot be decrypted"),
    "no ephemeral key": (f"{b64({'alg': 'ECDH-ES+A256KW', 'enc': 'A256GCM'})}.AA.AA.AA.AA", "cannot be decrypted"),
    "four parts": ("a.b.c.d", "5 base64url parts"),
    "six parts": ("a.b.c.d.e.f", "5 base64url parts"),
    "no text": ({"ciphertext": "AA"}, "must be a text"),
    "an oversized header": (f"{b64({'alg': 'x', 'apu': 'A' * 3000})}.AA.AA.AA.AA", "too long"),
    "oversized": (f"{'A.' * 4}{'A' * (5 * 1024 * 1024)}", "at most"),
}


@pytest.mark.parametrize("name", SEALED)
def test_hostile_encryption_is_refused_PULL_9(name: str) -> None:
    sealed, why = SEALED[name]
    raw = job(encryptedPayload=sealed)

    assert why in refused(raw, strict(ED, require_signed=False), Reason.DECRYPTION_FAILED)


def test_an_epk_off_the_curve_is_refused() -> None:
    header = json.loads(base64.urlsafe_b64decode(ED.sealing.encrypt({}).split(".")[0] + "=="))
    header["epk"]["y"] = header["epk"]["x"]
    raw = job(encryptedPayload=part_replaced(0, b64(header)))

    assert "cannot be decrypted" in refused(raw, strict(ED, require_signed=False), Reason.DECRYPTION_FAILED)


def test_a_payload_beside_an_encrypted_one_is_refused_and_a_signature_is_over_what_is_sent() -> None:
    sent = ED.sealing(job(), CLUSTER_ID)
    open_scope = strict(ED, require_signed=False)
    both = {**sent, "payload": instance(), "signature": None}
    assert "one of the two" in refused(both, open_scope, Reason.DECRYPTION_FAILED)

    other = ED.sealing.encrypt(instance())
    assert "does not match" in refused({**sent, "encryptedPayload": other}, strict(ED), Reason.SIGNATURE_INVALID)
    clear = {**{key: value for key, value in sent.items() if key != "encryptedPayload"}, "payload": instance()}
    assert "does not match" in refused(clear, strict(ED), Reason.SIGNATURE_INVALID)


@given(st.integers(0, 4), st.binary(max_size=40))
def test_no_part_of_an_encrypted_payload_can_be_changed(at: int, by: bytes) -> None:
    original = ED.sealing.encrypt({"kept": MARK})
    parts = original.split(".")
    parts[at] = b64(by)
    assume(".".join(parts) != original)

    refused(job(encryptedPayload=".".join(parts)), strict(ED, require_signed=False), Reason.DECRYPTION_FAILED)


# --- keys ---------------------------------------------------------------------------------------------------------

BAD_SIGNING = {
    "private": EC.sealing.signing_key.as_pem(private=True).decode() if EC.sealing.signing_key else "",
    "P-384": ECKey.generate_key("P-384").as_pem(private=False).decode(),
    "X25519": OKPKey.generate_key("X25519").as_pem(private=False).decode(),
    "symmetric": json.dumps({"kty": "oct", "k": "AAAA"}),
    "not a key": MARK,
    "broken PEM": f"-----BEGIN PUBLIC KEY-----\n{MARK}\n-----END PUBLIC KEY-----",
    "RSA": RSAKey.generate_key(2048, private=False).as_pem().decode(),
    "JSON of nothing": "{}",
    "keys that are no list": '{"keys": 7}',
    "too many": ED.signing_public_key * 17,
    "too long": "-" * 70_000,
}


@pytest.mark.parametrize("name", BAD_SIGNING)
def test_a_signing_key_of_no_use_refuses_every_signature_and_says_so(name: str) -> None:
    sent = Sealing(ED.sealing.signing_key)(job(), CLUSTER_ID)
    scope = JobScope(CLUSTER_ID, security=Security(opener=JosePayloads(BAD_SIGNING[name], "")))

    assert "signing-public-key" in refused(sent, scope, Reason.SIGNATURE_INVALID)


@pytest.mark.parametrize("text", [ED.signing_public_key, MARK, BAD_SIGNING["private"].replace("PRIVATE", "")])
def test_a_decryption_key_of_no_use_is_named(text: str) -> None:
    scope = JobScope(CLUSTER_ID, security=Security(opener=JosePayloads("", text)))
    raw = job(encryptedPayload=ED.sealing.encrypt({}))

    assert "decryption-key" in refused(raw, scope, Reason.DECRYPTION_FAILED)


def test_keys_show_in_no_repr() -> None:
    held = opener(EC)
    shown = repr([held, signing_keys(held.signing_key), decryption_keys(held.decryption_key), EC, strict(EC)])

    assert not [line for line in held.decryption_key.splitlines() if line in shown]


def test_opening_is_little_enough_work_to_be_done_in_the_loop() -> None:
    """Calls are counted, of Python and of C, not seconds: one check of a signature, one decoding, one judgement."""
    raw = ED.sealing(job(), CLUSTER_ID)
    scope = strict(ED)
    accept(raw, 0, scope)
    assert calls_of(lambda: accept(raw, 0, scope)) < 20_000
