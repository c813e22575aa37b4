"""RES-7: secret material is found wherever it hides in values, and shows in no text."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.redaction import PLACEHOLDER
from purekube.apimachinery.secret_material import REDACTED, find_secret_material, is_secret_key, redact, shown, visible
from tests.support.strategies import inline_values, json_values
from tests.support.work import calls_of

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
        "api_key",
        "privateKey",
        "private-key",
        "accessToken",
        "AWS_SECRET_ACCESS_KEY",
        "passphrase",
        "MYSQL_PASSWD",
        "p\N{CYRILLIC SMALL LETTER A}ssword",
        "clients\N{GREEK SMALL LETTER EPSILON}cret",
        "\N{FULLWIDTH LATIN SMALL LETTER T}oken",
        "p\N{LATIN SMALL LETTER A WITH ACUTE}ssword",
    ]
)
PLAIN_KEYS = st.sampled_from(
    ["user", "passwordPolicy", "secretName", "tokens", "accessKeyId", "mytoken", "nextPageToken", "host", "a.b"]
)
# Long and strange enough not to appear in any text by chance.
SECRETS = st.text(alphabet="abcdefXYZ0123456789!#%^_-+~", min_size=8, max_size=20).map(lambda text: f"q{text}q")
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


@given(SECRET_KEYS)
def test_secret_keys_are_known_in_any_case(key: str) -> None:
    assert is_secret_key(key)
    assert is_secret_key(key.swapcase())


@given(
    st.sampled_from(["", "aws", "github", "slack-", "MY_"]),
    st.sampled_from(["access", "api", "auth", "bearer", "bot", "deploy", "refresh", "security", "service", "session"]),
    st.sampled_from(["", "_", "-"]),
    st.sampled_from([str.lower, str.upper, str.title, str.swapcase]),
)
def test_a_token_that_is_a_credential_is_known_under_any_name(
    owner: str, use: str, between: str, case: Callable[[str], str]
) -> None:
    key = case(f"{owner}{use}{between}token")
    assert is_secret_key(key)
    assert is_secret_key(f"existingSecret{key}") is False
    assert is_secret_key(f"{key}s") is False


@pytest.mark.parametrize(("between", "secret"), [(0, False), (490, False), (491, True), (600, True)])
def test_the_last_512_characters_of_a_key_are_searched(between: int, secret: bool) -> None:
    assert is_secret_key(f"existingsecret{'a' * between}password") is secret


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


@pytest.mark.parametrize("key", ["existingSecret", "existing_secret", "oidcExistingSecret"])
def test_keys_that_name_a_secret_hold_none(key: str) -> None:
    """D17: the usual way of charts to be given a Secret."""
    assert find_secret_material({"auth": {key: "my-secret"}}) == ()
    assert redact({key: "my-secret"}) == {key: "my-secret"}


@pytest.mark.parametrize("key", ["tls.secretName", "registrySecretName", "caSecretRef"])
def test_names_of_secrets_and_references_are_no_material(key: str) -> None:
    assert find_secret_material({key: "my-secret"}) == ()


@pytest.mark.parametrize("number", [12345, 0.5])
def test_a_number_can_be_a_password(number: float) -> None:
    assert find_secret_material({"db": {"password": number, "pin": number}}) == ("db.password",)


def test_a_variable_of_a_secret_name_holds_a_secret() -> None:
    env = [{"name": "DB_PASSWORD", "value": "x"}, {"name": "HOME", "value": "/"}, {"name": "API_TOKEN", "value": ""}]

    assert find_secret_material({"env": env}) == ("env[0].value",)
    assert redact(env)[0] == {"name": "DB_PASSWORD", "value": "***"}


def test_no_more_is_found_than_anybody_reads_and_no_path_is_longer() -> None:
    """H6: a value of a hundred thousand problems, each with a key of half a megabyte."""
    found = find_secret_material({"k" * 500_000: {"password": ["x"] * 100_000}}, "v")

    assert len(found) == 32
    assert all(len(path) < 120 for path in found)


def test_a_path_through_nine_thousand_steps_is_told_by_its_ends() -> None:
    values: Any = {"password": "x"}
    for _ in range(9_000):
        values = {"a" * 50: values}

    (path,) = find_secret_material(values, "v")

    assert path.startswith("v.aaaa")
    assert path.endswith(".password")
    assert ".…." in path
    assert len(path) < 4096


@pytest.mark.parametrize("value", ["", PLACEHOLDER, True, None, {}, []])
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
    # SL2
    "pass={}",
    "DB_PASS={}",
    "dbPass={}",
    "pwd={}",
    "pass: {}\nuser: ada",
    "passphrase={}",
    "private_key={}",
    "AccountKey={}",
    "credential: {}\nuser: ada",
    'credential="{}"',
    '{{"auths":{{"registry.example.test":{{"auth": "{}"}}}}}}',
    "curl -u ada:{} https://x",
    "curl --user ada:{} https://x",
    "mysql -p{} app",
    "Cookie: session={}; theme=dark",
    "set-cookie: sid={}",
    "secret:\n  {}",
    'secret:\n  "{}"',
    "secret:\n- {}\n- b",
    'the password "{}" is wrong',
    "- name: DB_PASSWORD\n  value: {}",
    '{{"name":"DB_PASSWORD","value":"{}"}}',
    'env: "[{{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"{}\\"}}]"',
    "p\N{CYRILLIC SMALL LETTER A}ssword={}",
    "\N{FULLWIDTH LATIN SMALL LETTER T}oken: {}",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(secret=SECRETS)
def test_no_spelling_of_a_secret_survives(spelling: str, secret: str) -> None:
    text = redact(spelling.format(secret))

    assert secret not in text
    assert REDACTED in text


@pytest.mark.parametrize(
    "token",
    [
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "github_pat_11ABCDEFG0123456789_abcdef",
        "glpat-0123456789abcdefABCD",
        "xoxb-1234567890-abcdef",
        "hvs.CAESIJ0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "sk_" + "live_0123456789abcdefABCD",
        "rk_" + "test_0123456789abcdefABCD",
    ],
)
def test_tokens_of_well_known_makes_are_known_by_themselves(token: str) -> None:
    assert redact(f"clone with {token}, please") == "clone with ***, please"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("client_secret abc123DEF456 was sent", "client_secret *** was sent"),
        ("{{ .Values.password }}: hunter2", "{{ .Values.password }}: ***"),
        ("{{ .Values.db.token }} = abcdef", "{{ .Values.db.token }} = ***"),
        ("client_secret is required", "client_secret is required"),
        ("the access_token must be given 3 times", "the access_token must be given 3 times"),
    ],
)
def test_a_key_of_a_template_or_with_a_blank_behind_it_is_a_key_too(text: str, shown: str) -> None:
    assert redact(text) == shown


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
    text = json.dumps(values, ensure_ascii=False)
    assert secret not in redact(text)
    assert secret not in redact(json.dumps(text, ensure_ascii=False))


_LINE = st.sampled_from(
    ["shop", "token=abcdefgh", "пароль", "password: hunter2", "DB_PASSWORD", "", "Bearer", "abc.def"]
)
texts_of_lines = st.one_of(_LINE, st.integers(), st.none(), st.lists(_LINE), st.dictionaries(_LINE, _LINE))


@given(st.dictionaries(st.sampled_from(["msg", "object", "name", "value", "token"]), texts_of_lines))
def test_members_are_redacted_together_as_each_alone(members: dict[str, Any]) -> None:
    """The members are looked at in one search first; in a list the same members are not."""
    assert redact(members) == redact([members])[0]


def test_a_line_of_the_log_takes_few_calls() -> None:
    line = {f"field-{at}": f"shop-{at} in org-myteam" for at in range(12)}

    redact(line)  # the keys of lines are few, and remembered

    assert calls_of(lambda: redact(line)) <= 5 * len(line)


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
        # D17: a message about a key is not what the key holds
        "spec.values.inline.db.password: holds secret material: use a Secret by secretRef",
        "spec.values.inline.existingSecret: my-secret",
        "auth.existingSecret=my-secret and ldap.existing_secret: other",
        "spec.parameters.env.API_TOKEN: must be a string",
        "spec.parameters.token: unknown key; spec.parameters.secret: is required",
        "bypass: on",
        "compass=north",
        "failed to get credentials: unauthorized",
        "kubectl logs -p nextcloud-0, and -prune is not set",
        "docker run -p8080:80 -u 1000",
        "\N{CYRILLIC CAPITAL LETTER O}\N{CYRILLIC SMALL LETTER A} key of a caf\N{LATIN SMALL LETTER E WITH ACUTE}",
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


@pytest.mark.slow
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
        "token=a" + "," * 50_000 + "b",
        "token=a" + ")" * 50_000 + "b",
        "eyJaaaaaaaa-" * 5_000,
        "pass: a,,,, " * 5_000,
        "=" * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_redacted_in_linear_time(text: str) -> None:
    # 50 kB take milliseconds; quadratic time would take minutes and trip the time limit.
    assert len(redact(text)) <= 2 * len(text)


@given(st.sampled_from(SPELLINGS), st.integers(0, 40), SECRETS, st.integers(1, 12))
def test_a_cut_shows_no_piece_of_a_secret(spelling: str, before: int, secret: str, longest: int) -> None:
    """RUN-11: what is shown is cut before it is redacted, also through the midst of a secret."""
    text = shown(before * "x" + " " + spelling.format(secret), longest)

    assert len(text.encode()) <= longest
    assert all(secret[at : at + 5] not in text for at in range(len(secret) - 4))


@given(st.text(max_size=60), st.integers(0, 30))
def test_a_short_text_is_shown_as_it_is_redacted(text: str, longest: int) -> None:
    whole = visible(redact(text))

    assert shown(text, 1000) == (whole if len(whole) * 4 <= 1000 else shown(whole, 1000))
    assert len(shown(text, longest).encode(errors="replace")) <= longest


def test_only_what_can_be_shown_is_looked_at() -> None:
    """H1: what stands behind the cut costs nothing, though it is a gigabyte of it."""
    assert shown("a " * 4 + "b" * 50_000_000, 2) == "a "
