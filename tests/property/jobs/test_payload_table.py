"""PULL-9, below the wire: which payload is believed, for every JSON value of the fields that say so."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Invalid
from vworkspace_core.jobs.payload_security import (
    LONGEST_SEALED,
    LONGEST_SIGNATURE,
    Security,
    Signatures,
    in_force,
    opened,
    required_by,
    signed_content,
)
from vworkspace_core.jobs.result import JobResult, Reason

CLUSTER = "cluster-1"
CLEAR = {"spec": {"replicas": 2}}
SECRET = {"spec": {"values": {"password": "hunter2-hunter2"}}}
GOOD, SEALED = "good", "sealed"

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner))
SIGNATURES = JSON | st.sampled_from([GOOD, "", "bad", "x" * (LONGEST_SIGNATURE + 1)])
SECURITIES = st.builds(
    lambda opener, signed, encrypted: Security(signed, encrypted, opener),
    st.none() | st.builds(lambda can, content: Keys(can, content), st.booleans(), JSON | st.just(CLEAR)),
    st.booleans(),
    st.booleans(),
)


@attrs.frozen
class Keys:
    """Keys to which one signature is good and one text is sealed."""

    can_verify: bool
    content: Any

    def verify(self, signature: str, content: Mapping[str, Any]) -> None:
        assert content["cluster"] == CLUSTER
        if signature != GOOD:
            raise Invalid("the signature is not of this content")

    def decrypt(self, sealed: str) -> Any:
        if sealed != SEALED:
            raise Invalid("not for us")
        return self.content


def told(raw: Mapping[str, Any], security: Security) -> str:
    found = opened(raw, security, CLUSTER)
    return found.error.partition(": ")[2] if isinstance(found, JobResult) else "believed"


def test_the_longest_texts_that_are_looked_at_and_each_refusal_in_its_words() -> None:
    keys, sealed_only = Keys(True, CLEAR), f"encryptedPayload must be a text of at most {LONGEST_SEALED} characters"
    long_signature = f"the signature must be a text of at most {LONGEST_SIGNATURE} characters"
    assert (LONGEST_SIGNATURE, LONGEST_SEALED > LONGEST_SIGNATURE) == (2048, True)
    strict, whole = Security(require_signed=True), Security(opener=keys)
    cases: list[tuple[dict[str, Any], Security, str]] = [
        ({}, strict, "the job has no signature, and this cluster requires one"),
        ({"signature": "s"}, strict, "the credentials have no signing-public-key to check signatures with"),
        ({"signature": "s"}, Security(opener=Keys(False, CLEAR)), "believed"),
        ({"signature": "s" * LONGEST_SIGNATURE}, whole, "the signature is not of this content"),
        ({"signature": "s" * (LONGEST_SIGNATURE + 1)}, whole, long_signature),
        ({"signature": ""}, whole, long_signature),
        ({"encryptedPayload": "s" * LONGEST_SEALED}, whole, "not for us"),
        ({"encryptedPayload": "s" * (LONGEST_SEALED + 1)}, whole, sealed_only),
        ({"encryptedPayload": "s"}, whole, "not for us"),
        ({"encryptedPayload": ""}, whole, sealed_only),
        ({"encryptedPayload": ["s"]}, whole, sealed_only),
        ({"encryptedPayload": SEALED}, Security(), "the credentials have no decryption-key"),
        ({"encryptedPayload": SEALED, "payload": {}}, whole,
         "the job has a payload and an encryptedPayload: one of the two"),
        ({"encryptedPayload": SEALED}, Security(opener=Keys(True, [])),
         "what encryptedPayload holds is not a JSON object"),
        ({"payload": SECRET}, Security(require_encrypted_secrets=True),
         "the payload brings secrets in the clear, and this cluster requires them encrypted"),
        ({"payload": SECRET}, Security(), "believed"),
        ({"payload": CLEAR}, Security(require_encrypted_secrets=True), "believed"),
    ]  # fmt: skip
    assert [told(raw, security) for raw, security, _ in cases] == [expected for _, _, expected in cases]


def refusal(found: Mapping[str, Any] | JobResult) -> str:
    return found.error.partition(":")[0] if isinstance(found, JobResult) else ""


@given(SIGNATURES, SECURITIES)
@example(0, Security(require_signed=True))
@example("", Security())
@example(GOOD, Security(True, False, Keys(False, CLEAR)))
def test_a_payload_is_believed_exactly_with_a_good_signature_or_where_none_is_required(
    signature: Any, security: Security
) -> None:
    raw = {"kind": "apply", "payload": CLEAR, "signature": signature}
    text = isinstance(signature, str) and 0 < len(signature) <= LONGEST_SIGNATURE
    verified = text and security.opener is not None and security.opener.can_verify
    believed = signature == GOOD if verified else not security.require_signed and (signature is None or text)

    found = opened(raw, security, CLUSTER)

    assert refusal(found) == ("" if believed else Reason.SIGNATURE_INVALID)
    assert not believed or found == raw


@given(JSON | st.sampled_from([SEALED, "", "other"]), st.sampled_from([None, CLEAR, SECRET]), SECURITIES)
@example(None, SECRET, Security(require_encrypted_secrets=True))
@example(SEALED, CLEAR, Security(False, False, Keys(True, CLEAR)))
@example(SEALED, None, Security(False, False, Keys(True, CLEAR)))
@example(SEALED, None, Security(False, False, Keys(True, ["no object"])))
@example("x" * (LONGEST_SEALED + 1), None, Security(False, False, Keys(True, CLEAR)))
def test_an_encrypted_payload_is_opened_alone_and_holds_an_object(
    sealed: Any, payload: Any, security: Security
) -> None:
    raw = {"kind": "apply", "payload": payload, "encryptedPayload": sealed, "signature": GOOD}
    lenient = attrs.evolve(security, require_signed=False)
    opener = security.opener
    if sealed is None:
        believed = not (security.require_encrypted_secrets and payload == SECRET)
    else:
        opens = opener is not None and payload is None and sealed == SEALED
        believed = opens and opener is not None and isinstance(opener.content, dict)  # type: ignore[attr-defined]

    found = opened(raw, lenient, CLUSTER)

    assert refusal(found) == ("" if believed else Reason.DECRYPTION_FAILED)
    if believed and sealed is not None:
        assert found == {"kind": "apply", "signature": GOOD, "payload": opener.content}  # type: ignore[union-attr]
    assert "hunter2" not in str(found) or not isinstance(found, JobResult), "of a refused payload nothing is repeated"


@given(JSON, JSON)
def test_a_signature_is_over_what_is_sent(payload: Any, sealed: Any) -> None:
    raw = {"kind": "apply", "idempotencyKey": "k", "expiresAt": "e", "payload": payload, "encryptedPayload": sealed}
    content = signed_content(raw, CLUSTER)

    assert {name: content[name] for name in ("cluster", "kind", "idempotencyKey", "expiresAt")} == {
        "cluster": CLUSTER,
        "kind": "apply",
        "idempotencyKey": "k",
        "expiresAt": "e",
    }
    sent = {"payload": payload} if sealed is None else {"encryptedPayload": sealed}
    assert {name: value for name, value in content.items() if "ayload" in name} == sent


def cluster(signed: Any = None, encrypted: Any = None, cluster_id: str = CLUSTER) -> dict[str, Any]:
    security = {"requireSignedPayloads": signed, "requireEncryptedSecretPayloads": encrypted}
    given = {name: value for name, value in security.items() if value is not None}
    return {"spec": {"clusterId": cluster_id, **({"security": given} if given else {})}}


@pytest.mark.parametrize(
    ("clusters", "required"),
    [
        ([], Security()),
        ([cluster()], Security()),
        ([cluster(True)], Security(require_signed=True)),
        ([cluster(None, True)], Security(require_encrypted_secrets=True)),
        ([cluster(False, False)], Security()),
        ([cluster("no", 0)], Security(True, False)),
        ([cluster(1, "yes")], Security(True, True)),
        ([cluster(True, True, "another")], Security()),
        ([cluster(True), cluster(False)], Security(require_signed=True)),
        ([cluster(False), cluster(None, True)], Security(require_encrypted_secrets=True)),
        ([{}, {"spec": {"clusterId": CLUSTER, "security": "odd"}}], Security()),
    ],
)
def test_the_strictest_of_this_cluster_s_objects_counts_and_only_an_explicit_no_is_one(
    clusters: list[dict[str, Any]], required: Security
) -> None:
    assert required_by(clusters, CLUSTER) == required


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("setting", Signatures)
@pytest.mark.parametrize("opener", [None, Keys(True, CLEAR), Keys(False, CLEAR)])
def test_signatures_are_required_by_the_cluster_the_setting_or_the_key(
    required: bool, setting: Signatures, opener: Keys | None
) -> None:
    has_key = opener is not None and opener.can_verify
    expected = required or setting is Signatures.REQUIRED or (has_key and setting is Signatures.AUTO)
    given = Security(require_signed=required, require_encrypted_secrets=True)

    assert in_force(given, opener, setting) == Security(expected, True, opener)
    assert in_force(given, opener, setting).opener is opener
    if setting is Signatures.AUTO:
        assert in_force(given, opener) == in_force(given, opener, setting)
