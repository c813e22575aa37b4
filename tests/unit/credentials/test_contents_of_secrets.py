"""PULL-7, PULL-8: what is written into the credentials Secret and into requests, and what is read from a Secret."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.errors import Invalid, Unavailable
from vworkspace_core.credentials.messages import Issued
from vworkspace_core.credentials.performer import issued_by, registration_body
from vworkspace_core.credentials.secret import (
    Credentials,
    StoredCredential,
    credentials_of,
    new_secret,
    stored_credential,
    token_since,
    with_stored,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 7, 1, tzinfo=UTC)


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_new_secret_has_its_address_its_token_and_our_label() -> None:
    stored = StoredCredential("new", "old", LATER, NOW, "job/1", {"job": ("a",)})

    assert new_secret("ns", "https://cp.example", "c", stored, "PEM") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": "vworkspace-agent-credentials",
            "namespace": "ns",
            "labels": {"app.kubernetes.io/managed-by": "vworkspace-operator"},
            "annotations": {
                "vworkspace.io/rotation-requested": "job/1",
                "vworkspace.io/rotations-served": '{"job":["a"]}',
            },
        },
        "data": {
            "control-plane-base-url": coded("https://cp.example"),
            "cluster-id": coded("c"),
            "ca.crt": coded("PEM"),
            "token": coded("new"),
            "previous-token": coded("old"),
            "token-expires-at": coded("2026-07-01T00:00:00Z"),
            "token-issued-at": coded("2026-06-01T12:00:00Z"),
        },
    }
    bare = new_secret("ns", "https://cp.example", "", StoredCredential("t"))
    assert bare["data"].keys() == {"control-plane-base-url", "token"}
    assert "annotations" not in bare["metadata"]


def test_a_credential_is_written_beside_everything_else() -> None:
    before: dict[str, Any] = {
        "metadata": {"name": "s", "annotations": {"mine": "1", "vworkspace.io/rotation-requested": "job/1"}},
        "data": {"other": "eA==", "previous-token": coded("old"), "token": coded("t")},
        "immutable": False,
    }

    assert with_stored(before, StoredCredential("new")) == {
        "metadata": {"name": "s", "annotations": {"mine": "1"}},
        "data": {"other": "eA==", "token": coded("new")},
        "immutable": False,
    }
    assert before["metadata"]["annotations"]["mine"] == "1"
    assert with_stored({"metadata": {"annotations": None}, "data": None}, StoredCredential()) == {
        "metadata": {},
        "data": {},
    }


def test_credentials_are_the_texts_of_their_keys() -> None:
    texts = {
        "control-plane-base-url": "https://cp.example\n",
        "cluster-id": "c",
        "token": " t ",
        "ca.crt": "CA",
        "tls.crt": "CERT",
        "tls.key": "KEY",
        "approval-secret": "approve",
        "signing-public-key": "SIGN",
        "decryption-key": "OPEN",
    }
    secret = {"metadata": {}, "data": {key: coded(text) for key, text in texts.items()}}

    assert credentials_of(secret) == Credentials(
        "https://cp.example", "c", "t", StoredCredential("t"), "CA", "CERT", "KEY", b"approve", "SIGN", "OPEN"
    )
    assert credentials_of({}) == Credentials()
    assert credentials_of({}).approval_secret is None


@pytest.mark.parametrize("odd", [None, 7, "not base64!", "/w==", ["eA=="]])
def test_what_cannot_be_read_is_empty(odd: Any) -> None:
    assert stored_credential({"data": {"token": odd, "token-expires-at": odd}}) == StoredCredential()


def test_of_what_was_served_the_latest_of_each_sort_is_kept() -> None:
    first = StoredCredential(served={"job": ("x",), "cluster": ("y",)})
    served = first.with_served(["job/1", "cluster/2/3", "job/4"])

    assert served.keys() == {"job", "cluster"}
    assert len(served["job"]) == 3
    known = StoredCredential(served=served)
    asked = ["job/1", "job/4", "cluster/2/3", "job/2", "cluster/2", "other/1", "job"]
    assert [known.has_served(request) for request in asked] == [True, True, True, False, False, False, False]
    assert first.with_served([]) == first.served
    other, one, four = served["job"]
    assert known.with_served(["job/1"]) == {**served, "job": (other, four, one)}, "the latest last, and none twice"
    later = known.with_served(f"job/{number}" for number in range(10, 80))
    assert StoredCredential(served=later).has_served("job/79")
    assert not StoredCredential(served=later).has_served("job/1"), "of each sort the latest 64"
    assert StoredCredential(served=later).has_served("cluster/2/3")


def entry(time: str, *path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for step in reversed(path):
        fields = {step: fields}
    return {"time": time, "fieldsV1": fields}


@pytest.mark.parametrize(
    ("entries", "since"),
    [
        ([], "2026-01-01T00:00:00Z"),
        (None, "2026-01-01T00:00:00Z"),
        ([entry("2026-05-01T00:00:00Z", "f:data", "f:token")], "2026-05-01T00:00:00Z"),
        ([entry("2026-05-01T00:00:00Z", "f:data", "f:other")], "2026-01-01T00:00:00Z"),
        (
            [
                entry("2026-05-01T00:00:00Z", "f:data", "f:token"),
                entry("2026-04-01T00:00:00Z", "f:data", "f:token"),
                entry("2026-06-01T00:00:00Z", "f:data", "f:url"),
                entry("soon", "f:data", "f:token"),
            ],
            "2026-05-01T00:00:00Z",
        ),
    ],
)
def test_a_token_is_as_old_as_the_last_write_of_its_key(entries: Any, since: str) -> None:
    secret = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": entries}}

    assert token_since(secret) == datetime.fromisoformat(since)
    assert token_since({"metadata": {}}) is None


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("t",), {"registrationToken": "t"}),
        (("t", "c"), {"registrationToken": "t", "clusterId": "c"}),
        (("t", "", "Berlin"), {"registrationToken": "t", "displayName": "Berlin"}),
        (("t", "c", "Berlin"), {"registrationToken": "t", "clusterId": "c", "displayName": "Berlin"}),
    ],
)
def test_a_registration_says_what_is_known_of_the_cluster(arguments: tuple[str, ...], body: dict[str, str]) -> None:
    assert registration_body(*arguments) == body


@pytest.mark.parametrize(
    ("answer", "cluster", "issued"),
    [
        ({"token": "t"}, "", Issued("t")),
        ({"token": "t", "expiresAt": "2026-07-01T00:00:00Z"}, "", Issued("t", LATER)),
        ({"token": "t", "expiresAt": None}, "", Issued("t")),
        ({"token": "t", "clusterId": "c"}, "c", Issued("t")),
        ({"token": "t", "clusterId": "other"}, "", Issued("t")),
        ({"token": "t", "clusterId": None}, "c", Issued("t")),
    ],
)
def test_an_answer_issues_its_token(answer: dict[str, Any], cluster: str, issued: Issued) -> None:
    assert issued_by(answer, cluster) == issued


def test_an_answer_of_no_use_says_why() -> None:
    with pytest.raises(Unavailable, match="the answer has no token that a header can hold"):
        issued_by({"token": "a b\n"})
    with pytest.raises(Unavailable, match=r"the answer's expiresAt: must be an RFC 3339 time such as .*, not 'soon'"):
        issued_by({"token": "t", "expiresAt": "soon"})
    with pytest.raises(Unavailable, match="the answer's expiresAt: must be an RFC 3339 time, not a number"):
        issued_by({"token": "t", "expiresAt": 1798761600})
    with pytest.raises(Invalid, match="the registration token is for cluster 'other', this one is 'c'"):
        issued_by({"token": "t", "clusterId": "other"}, "c")
