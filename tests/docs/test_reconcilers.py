"""docs/reconcilers.md does what it says: its modules, their tests and its commands run as they stand there."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from purekube import reconcilers
from purekube.reconcilers import ApplyPolicy, Cause, Feature, Removal, Until
from purekube_kit import FakeCluster
from tests.docs.markdown import ROOT
from tests.docs.newcomer import shell, started
from vworkspace_app.__main__ import run_command

pytest_plugins = ["pytester"]

_PAGES = ("reconcilers.md", "reconcilers-kinds.md", "reconcilers-testing.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in _PAGES)
BLOCKS = {
    (language, name): text for language, name, text in re.findall(r"^```(\w+) ([^\n]+)\n(.*?)^```$", PAGE, re.M | re.S)
}
MODULES = {name: text for (language, name), text in BLOCKS.items() if language == "python"}
TESTS = sorted(name for name, text in MODULES.items() if "\ndef test_" in text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with every module of the page."""
    for (language, name), text in BLOCKS.items():
        if language in ("python", "yaml"):
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


@pytest.mark.slow
def test_the_tests_of_the_page_pass(project: Path, pytester: pytest.Pytester) -> None:
    ended = pytester.runpytest_inprocess(project, "-q", "-p", "no:cacheprovider", *(project / name for name in TESTS))

    ended.assert_outcomes(passed=sum(text.count("\ndef test_") for text in MODULES.values()))


def test_the_reconciler_takes_twenty_lines() -> None:
    """Of the function and its kind, without what the manifests are."""
    text = MODULES["shop.py"].split("\n\n\ndef deployment")[0]
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(('"""', "import", "from"))
    ]

    assert len(lines) <= 20


def test_what_is_printed_of_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, file = BLOCKS["sh", "cluster"].splitlines()[0].partition(" > ")
    assert run_command(shlex.split(command)[1:]) == 0
    crd = yaml.safe_load(capsys.readouterr().out)
    assert file == "shop-crd.yaml"
    assert crd["spec"]["names"]["kind"] == yaml.safe_load(BLOCKS["yaml", "corner.yaml"])["kind"]

    assert run_command(shlex.split(BLOCKS["sh", "rights"])[1:]) == 0
    rules = [rule for one in yaml.safe_load_all(capsys.readouterr().out) for rule in one.get("rules", ())]
    verbs = {resource: rule["verbs"] for rule in rules for resource in rule["resources"]}
    assert "patch" in verbs["deployments"]
    assert "secrets" not in verbs


def test_the_kind_of_the_page_refuses_what_it_says(project: Path) -> None:
    from kind import TEAM  # type: ignore[import-not-found]

    wrong = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"owner": "me", "least": 3, "most": 2}}
    assert "least must not be more than most" in str(TEAM.problems({**TEAM.kind.manifest("a", "default"), **wrong}))


def test_the_classes_of_a_kind_that_exists(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(shlex.split(BLOCKS["sh", "existing"])[1:]) == 0

    written = (project / "gauges" / "gauges" / "api.py").read_text(encoding="utf-8")
    assert BLOCKS["text", "gauges/api.py"] in written
    assert capsys.readouterr().err.startswith("spec.read-at: no attribute can have this name")


def test_every_name_of_ours_that_the_page_uses_in_capitals_is_there() -> None:
    """In the text and the tables of the levels; those of other frameworks stand at the end."""
    text = re.sub(r"^```.*?^```$", "", PAGE.split("## The kind", 1)[1].split("## Versions")[0], flags=re.M | re.S)
    names = {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\b[A-Z][A-Za-z]+\b", code)}
    members = {member.name for kind in (Until, Cause, ApplyPolicy, Removal, Feature) for member in kind}
    conditions = {"Ready", "Reconciling", "Stalled"}
    types = {"KubeApi", "Kind", "Deployment", "Secret", "Spec", "Status", "None", "True", "False"}
    foreign = {"TEAM", "SCHEMA", "NAME", "FakeCluster", "ShopAudit", *types}

    assert names - {*reconcilers.__all__} - members - conditions - foreign == set()


def test_the_kit_has_what_the_page_says_of_it() -> None:
    section = PAGE.split("# Testing reconcilers", 1)[1].split("A fault ends", 1)[0]
    first = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    names = {word for cell in first for word in re.findall(r"`(\w+)", cell)}

    with FakeCluster() as cluster:
        assert names <= {*dir(cluster)}


@pytest.mark.slow
def test_its_types_hold_end_to_end(project: Path) -> None:
    """What a user's own mypy says, strict; and of a field of the status that is not there."""

    def mypy() -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "page"), *MODULES]
        return subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)

    right = mypy()
    assert right.returncode == 0, right.stdout
    # Of another length: mypy takes a file of the same size and second for unchanged.
    wrong = MODULES["shop.py"].replace("ShopStatus(ready=", "ShopStatus(is_ready=")
    (project / "shop.py").write_text(wrong, encoding="utf-8")
    assert 'Unexpected keyword argument "is_ready"' in mypy().stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_newcomer_comes_from_nothing_to_a_running_reconciler(project: Path) -> None:
    define, serve = BLOCKS["sh", "cluster"].splitlines()
    shell(project, define)
    with started(project, serve) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("ready ")
        with started(project, BLOCKS["sh", "run"]):
            said = shell(project, BLOCKS["sh", "try"])

    assert "condition met" in said
