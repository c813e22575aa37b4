"""The packages that a command imports before it does anything: what makes starting slow is held by name (SEE-5).

`python -m bench.starting` measures the time; no test does.
"""

import gc
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubelab.http.authority import certificates_for
from tests.support.commands import clean_environment
from vworkspace_app.commands.shared.quick_imports import quick_imports

HEAVY = {
    "asyncio": "the event loop",
    "attr": "classes",
    "importlib.metadata": "distributions",
    "rich": "tables and trees",
    "jsonschema": "the validator",
    "cattrs": "structuring",
    "yaml": "YAML",
    "aiohttp": "the client of the API server",
    "lightkube": "kubeconfigs",
    "httpx2": "the client of the control plane",
    "jinja2": "the page",
    "cryptography": "signatures",
    "joserfc": "signatures",
    "prometheus_client": "metrics",
    "starlette": "servers",
    "uvicorn": "servers",
    "purekube.boxes.box": "boxes",
    "purekube.cel": "the expression language",
    "purekube.graph": "the graph engine",
    "purekube.regex": "regular expressions",
    "purekube.schema": "schemas",
    "vworkspace_core.instances.reconcile": "the decision about instances",
    "vworkspace_core.operations.engines": "the engines of Operations",
    "kubelab": "the laboratory",
    "vworkspace_fake": "the laboratory",
    "purekube_kit": "the kit",
    "hypothesis": "drawn examples",
}
"""What takes more than about ten milliseconds to import, or belongs to others."""

_OWN = ("attr", "yaml")
"""What every other command needs."""

_CLUSTER = ("aiohttp", "asyncio")
"""What calls an API server. Of lightkube only the reader of kubeconfigs is imported, without its clients."""

_ENGINES = "vworkspace_core.operations.engines"
"""What rights and checks are derived from."""

NEEDED = {
    ("--version",): set[str](),
    ("--help",): set[str](),
    ("completion", "bash"): set[str](),
    ("manifests",): {*_OWN, _ENGINES},
    ("manifests", "--crds-only"): {*_OWN, _ENGINES},
    ("status",): {*_OWN, *_CLUSTER},
    ("check",): {*_OWN, *_CLUSTER, _ENGINES},
}
"""What each command cannot do without."""

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {}}]
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", NEEDED, ids=" ".join)
def test_a_command_imports_only_what_it_needs(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "vworkspace_app", *words],
        env=clean_environment(tmp_path, {"KUBECONFIG": str(tmp_path / "kubeconfig")}),
        capture_output=True,
        text=True,
        check=False,
    )
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if "import time:" in line}

    assert "vworkspace_app" in imported
    assert imported & HEAVY.keys() <= NEEDED[words], {name: HEAVY[name] for name in imported & HEAVY.keys()}


STARTED = """
import sys
import vworkspace_app.commands.run
from vworkspace_app.operations.template_files import read_templates
from vworkspace_app.webhooks.webhook_answers import application
read_templates(())
application(None)
unneeded = ("jsonschema", "purekube.boxes.box", "purekube.cel", "purekube.reconcilers", "purekube.versions")
print([name for name in unneeded if name in sys.modules])
"""


@pytest.mark.slow
def test_an_operator_without_extensions_starts_without_their_code(tmp_path: Path) -> None:
    """Boxes, expressions and controllers in Python come with the flags that name some, and the validator of parameters
    with the first Operation: together they are 9 MB.
    """
    ended = subprocess.run(
        [sys.executable, "-c", STARTED], env=clean_environment(tmp_path, {}), capture_output=True, text=True, check=True
    )

    assert ended.stdout == "[]\n"


CODE_OF_A_USER = """
import gc, os, aiohttp.connector
authorities = aiohttp.connector._SSL_CONTEXT_VERIFIED.get_ca_certs()
with open("seen", "w") as file:
    file.write(f"{len(authorities)} {os.environ['SSL_CERT_FILE']} {gc.isenabled()}")
"""


@pytest.mark.slow
def test_code_of_users_finds_the_authorities_of_the_system(tmp_path: Path) -> None:
    """aiohttp's own TLS contexts are those of a user's requests: only our commands are imported without them."""
    authority = tmp_path / "authority.pem"
    authority.write_bytes(certificates_for(["localhost"], datetime.now(UTC)).authority)
    (tmp_path / "users.py").write_text(CODE_OF_A_USER, encoding="utf-8")
    environment = {"SSL_CERT_FILE": str(authority), "PYTHONPATH": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-m", "vworkspace_app", "controllers", "crds", "users:nothing"],
        env=clean_environment(tmp_path, environment),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (tmp_path / "seen").read_text(encoding="utf-8") == f"1 {authority} True", ended.stderr


def test_a_command_restores_what_its_imports_need_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "mine")
    with quick_imports():
        assert os.environ["SSL_CERT_FILE"] == os.devnull
        assert not gc.isenabled()
    assert os.environ["SSL_CERT_FILE"] == "mine"
    assert gc.isenabled()

    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ImportError), quick_imports():
        raise ImportError
    assert "SSL_CERT_FILE" not in os.environ
    assert gc.isenabled()


DEFERRED = """
import sys
from vworkspace_app.commands.shared.quick_imports import quick_imports
with quick_imports():
    from lightkube.config.kubeconfig import KubeConfig
    from purekube_http import authorization
print("httpx2" in sys.modules)
import httpx2
import lightkube
from lightkube.core.exceptions import ApiError
print(issubclass(ApiError, httpx2.HTTPStatusError), lightkube.KubeConfig is KubeConfig, lightkube.Client.__name__)
print(authorization.exceptions.ConfigError is lightkube.ConfigError)
"""


@pytest.mark.slow
def test_lightkube_that_was_imported_in_part_is_whole_for_those_who_need_it(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DEFERRED],
        env=clean_environment(tmp_path, {}),
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == "False\nTrue True Client\nTrue\n"
