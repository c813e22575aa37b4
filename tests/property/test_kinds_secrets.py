"""RES-7: secret material is found wherever it hides in values, and shows in no text."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.strategies import inline_values, json_values
from vworkspace_core.kinds.secrets import PLACEHOLDER, REDACTED, find_secret_material, is_secret_key, redact

SECRET_KEYS = st.sampled_from(
    [
        "password",
        "PASSWORD",
        "dbPassword",
        "secret",
        "clientSecret",
        "accessKey",
        "ACCESSKEY",
        "secretKey",
        "apiKey",
        "apikey",
        "token",
        "Token",
    ]
)
PLAIN_KEYS = st.sampled_from(
    ["user", "passwordPolicy", "secretName", "tokens", "accessKeyId", "mytoken", "host", "a.b"]
)
# Long and strange enough not to appear in any text by chance.
SECRETS = st.text(alphabet="abcdefXYZ0123456789!#%^_-+~", min_size=8, max_size=20).map(lambda text: f"q{text}q")
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


@given(SECRET_KEYS)
def test_secret_keys_are_known_in_any_case(key: str) -> None:
    assert is_secret_key(key)
    assert is_secret_key(key.swapcase())


@given(PLAIN_KEYS)
def test_keys_that_only_come_close_are_not_secret(key: str) -> None:
    assert not is_secret_key(key)


def bury(path: list[str | int], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [{"x": 1}] * step + [value]
    return value


@given(st.lists(PLAIN_KEYS | st.integers(0, 2), max_size=6), SECRET_KEYS, SECRETS)
def test_secret_material_is_found_at_any_depth_also_in_lists(path: list[str | int], key: str, secret: str) -> None:
    (found,) = find_secret_material(bury(path, {key: secret}), "spec.values.inline")

    assert found.startswith("spec.values.inline")
    assert found.endswith(key)
    for step in path:
        assert f"[{step}]" in found if isinstance(step, int) else step in found


@given(st.lists(PLAIN_KEYS | st.integers(0, 2), max_size=6), PLAIN_KEYS)
def test_a_private_key_is_found_under_any_key(path: list[str | int], key: str) -> None:
    assert len(find_secret_material(bury(path, {key: f"# the key\n{PEM}"}))) == 1


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "])
def test_private_keys_of_every_make(kind: str) -> None:
    assert find_secret_material({"k": f"-----BEGIN {kind}PRIVATE KEY-----\nabc"}) == ("k",)
    assert redact(f"saw -----BEGIN {kind}PRIVATE KEY-----\nabc\n-----END {kind}PRIVATE KEY----- here") == "saw *** here"


def test_certificates_and_public_keys_are_no_secret() -> None:
    text = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB"

    assert find_secret_material({"ca": text}) == ()
    assert redact(text) == text


@given(inline_values())
def test_values_without_material_pass(values: dict[str, Any]) -> None:
    assert find_secret_material(values) == ()


@pytest.mark.parametrize("value", ["", PLACEHOLDER, 12345, True, None, {}, []])
def test_what_is_no_text_or_stands_for_a_secret_passes(value: Any) -> None:
    assert find_secret_material({"password": value}) == ()


def test_all_of_it_is_reported_at_once_in_document_order() -> None:
    values = {
        "db": {"password": "x", "user": "u"},
        "env": [{"token": "y"}, {"token": PLACEHOLDER}, "plain"],
        "clientSecret": ["a", "", {"name": "n"}],
        "tls.key": PEM,
    }

    assert find_secret_material(values, "v") == (
        "v.db.password",
        "v.env[0].token",
        "v.clientSecret[0]",
        "v['tls.key']",
    )


def test_depth_is_no_hiding_place() -> None:
    values: Any = {"password": "x"}
    for _ in range(20_000):
        values = [values]

    assert len(find_secret_material(values)) == 1
    assert "x" not in json.dumps(redact(values))


# The ways in which controllers, Helm and shells print secrets. `{}` is where the secret stands.
SPELLINGS = [
    "password={}",
    "install failed: password={}, giving up",
    "DB_PASSWORD={} ./run",
    "token: {}",
    "mysql.auth.rootPassword: {}\nnext: line",
    "Authorization: Bearer {}",
    "authorization: bearer {}",
    "Authorization: Basic {}",
    "pulling https://user:{}@registry.example.test/v2/ failed",
    "oci://{}@registry.example.test",
    '{{"password":"{}","user":"ada"}}',
    '{{"clientSecret": "{}"}}',
    'values: "{{\\"apiKey\\":\\"{}\\",\\"x\\":1}}"',
    "secret='{}'",
    "api_key => {}",
    "access-key: {};",
    "helm upgrade --set auth.password={} --wait",
    "login --password {} --user ada",
    "login -token {}",
    "password: |\n  {}\nuser: ada",
    "(token={})",
    "?token={}",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(secret=SECRETS)
def test_no_spelling_of_a_secret_survives(spelling: str, secret: str) -> None:
    text = redact(spelling.format(secret))

    assert secret not in text
    assert REDACTED in text


@given(st.sampled_from(SPELLINGS), st.text(max_size=30), st.text(max_size=30), SECRETS)
def test_what_stands_around_does_not_bring_it_back(spelling: str, before: str, after: str, secret: str) -> None:
    assert secret not in redact(f"{before} {spelling.format(secret)} {after}")


FRAGMENTS = st.lists(
    st.sampled_from(["password", "token", "authorization", "Bearer ", "=", ":", " ", "\n", '"', "'", "\\", "[", "]"])
    | st.sampled_from(["{", "}", "|", "a", "***", "://", "@", "sha256:", ",", "--", PLACEHOLDER, PEM[:31], PEM[-29:]]),
    max_size=12,
).map("".join)


@given(FRAGMENTS | st.sampled_from(SPELLINGS) | json_values())
@example('password="')
@example("password='a\\'b'")
@example('token: \\"a\\\\\\"b\\"')
@example("secret=|\n  a\n b")
@example("token=*** ***")
@example("://a@b@c")
@example("-----BEGIN PRIVATE KEY")
@example("Bearer Bearer abc")
@example("token=token=token=abc")
@example("token: token: abc")
def test_redacting_twice_is_redacting_once(value: Any) -> None:
    once = redact(value)

    assert redact(once) == once


@given(st.lists(PLAIN_KEYS | st.integers(0, 2), max_size=6), SECRET_KEYS, SECRETS, st.integers(0, 2))
def test_what_admission_refuses_no_report_shows(path: list[str | int], key: str, secret: str, listed: int) -> None:
    values = bury(path, {key: ["]"] * (listed - 1) + [secret] if listed else secret, "user": "ada"})

    assert find_secret_material(values)
    assert secret not in json.dumps(redact(values))
    assert secret not in redact(json.dumps(values))
    assert secret not in redact(json.dumps(json.dumps(values)))


def test_json_keeps_its_shape_and_what_is_no_secret() -> None:
    report = {"phase": "Failed", "count": 3, "token": "abc", "password": 12345, "list": [{"apiKey": PLACEHOLDER}, None]}

    assert redact(report) == {
        "phase": "Failed",
        "count": 3,
        "token": "***",
        "password": "***",
        "list": [{"apiKey": PLACEHOLDER}, None],
    }


@pytest.mark.parametrize(
    "text",
    [
        "Helm install failed for release org/nextcloud with chart nextcloud@6.6.0: timed out waiting for the condition",
        "could not find values Secret 'org-myteam/nextcloud-values'",
        'secrets "registry" not found',
        "oci://registry.example/org/chart@sha256:0123456789abcdef",
        "https://charts.example.test/index.yaml: 404",
        f"dbPassword: {PLACEHOLDER}",
        "basic auth failed",
        "oci://registry.example.test:5000/org/chart@sha256:0123456789abcdef",
        "HelmRelease org/nextcloud: upgrade retries exhausted",
        "",
    ],
)
def test_messages_without_secrets_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("install failed: password=hunter2, giving up", "install failed: password=***, giving up"),
        ('{"password":"hun\\"ter2","user":"ada"}', '{"password":"***","user":"ada"}'),
        ("https://ada:p@ss@host/x and more", "https://***@host/x and more"),
        ("password: |\n  one\n  two\nuser: ada", "password: ***\nuser: ada"),
        ('{"mytoken": {"password": "x", "user": "ada"}}', '{"mytoken": {"password": "***", "user": "ada"}}'),
        ('{"secret": ["a]", "b"], "user": "ada"}', '{"secret": ***], "user": "ada"}'),
        ("Proxy-Authorization: Digest abc", "Proxy-Authorization: Digest ***"),
        ("postgres://ada:a/b#c@db:5432/x", "postgres://***@db:5432/x"),
        ("claim vws1.eyJ2IjoxfQ.00ffab expired", "claim *** expired"),
        ("jwt eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2ln seen", "jwt *** seen"),
    ],
)
def test_what_a_reader_still_sees(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a" * 50_000,
        "token" * 10_000,
        '"' * 50_000,
        'password="' * 5_000,
        'secret: ["' * 5_000,
        "://" * 15_000,
        "://a:" * 10_000,
        "eyJaaaaaaaa." * 4_000,
        "password: |\n" * 4_000,
        "\\" * 50_000,
        "-----BEGIN PRIVATE KEY" * 2_000,
        "bearer " * 7_000,
        "authorization: " * 3_000,
        "=" * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_redacted_in_linear_time(text: str) -> None:
    # 50 kB take milliseconds; quadratic time would take minutes and trip the time limit.
    assert len(redact(text)) <= 2 * len(text)
