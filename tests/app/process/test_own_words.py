"""U7, RES-7: the redaction leaves our own hints whole, and hides what is a secret in the very same forms."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import purekube_http
import vworkspace_app
import vworkspace_core
import vworkspace_fake
import vworkspace_odoo
from purekube.apimachinery.secret_material import REDACTED, redact
from vworkspace_core.control_plane.untrusted_json import flaws

FOLDERS = [
    *(Path(package.__path__[0]) for package in (vworkspace_core, vworkspace_app, purekube_http, vworkspace_odoo)),
    Path(vworkspace_fake.__path__[0]) / "controlplane",
]
HEADERS = "Bearer X"
"""What is sent, and what is printed for a shell or as a page, no log shows."""
PRINTED = {"commands/servers.py", "demo/demo_world.py", "settings/loading.py", "controlplane/http.py"}
PRINTED |= {"simulation/downstream_faults.py"}  # what a lying Flux says, with a secret in it that nothing may pass on

PLAYED = "checks"
"""What an examination plays, broken claims and credentials among it, goes to the operator under test."""


def texts(path: Path) -> Iterator[str]:
    """Every text of a module that is no docstring, with X in the place of each value."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


@pytest.mark.slow
def test_the_redaction_eats_none_of_our_own_texts() -> None:
    found = [
        (str(path), text, redact(text))
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if "/".join(path.parts[-2:]) not in PRINTED and path.parent.name != PLAYED
        for text in texts(path)
        if text != HEADERS and redact(text) != text
    ]

    assert found == []


@pytest.mark.parametrize("path", ["./token", "../token", "/run/secrets/token", "~/token"])
@pytest.mark.parametrize("key", ["token", "approval-secret", "registration-token", "tls.private-key"])
def test_a_file_that_a_command_reads_is_no_secret(key: str, path: str) -> None:
    told = f"kubectl create secret generic x --from-file={key}={path} --from-literal=a=b"

    assert redact(told) == told


SECRET = st.text(alphabet="abcdefXYZ0123456789!#%^_+", min_size=8, max_size=20).map(lambda text: f"q{text}q")
CLOSE = [
    "--from-literal=token={}",
    "--from-literal=token=./{}",
    "--from-file=token={}",
    "--from-file=token=./token token={}",
    "--from-file=a=./token,password={}",
    "from-file=token=./{}",
    "--token {}",
    "--token {} or --tokens x",
    "--password is={}",
    "the bearer token: {}",
    "bearer {}",
    "Authorization: Bearer token{}",
    "bearer tokens{}",
]


@pytest.mark.parametrize("spelling", CLOSE)
@given(SECRET)
@example("qtoken/./q")
def test_what_only_looks_like_a_hint_is_hidden_RES_7(spelling: str, secret: str) -> None:
    text = redact(spelling.format(secret))

    assert secret not in text
    assert REDACTED in text


@pytest.mark.parametrize("value", ["\ud800", 10**30, float("nan"), {"\ud800": 1}])
def test_a_flaw_is_told_whole_whatever_the_key_above_it_is_called(value: object) -> None:
    found = [str(problem) for problem in flaws({"payload": {"token": value}})]

    assert found
    assert all(redact(told) == told for told in found)


@pytest.mark.parametrize("file", ["token", "./token", "/run/secrets/token", "approval-secret"])
def test_a_file_that_is_named_like_a_secret_is_told_with_what_is_wrong_with_it(file: str) -> None:
    for wrong in ("is empty", "cannot be read: it is not UTF-8 text"):
        assert redact(f"--token-file {file}: {wrong}") == f"--token-file {file}: {wrong}"
