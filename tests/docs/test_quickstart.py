"""docs/quickstart.md does what it says: each command runs as it stands, and shows what the page shows."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial
from vworkspace_core.api.codec import read_application_instance, validate_strict

PAGE = ROOT / "docs" / "quickstart.md"


@pytest.fixture
def page(tmp_path: Path) -> Tutorial:
    """The page, followed in a folder of its own, with its files."""
    tutorial = Tutorial(PAGE, tmp_path)
    for name in ("podinfo.yaml", "flux.yaml"):
        (tmp_path / name).write_text(tutorial.block("yaml", name), encoding="utf-8")
    return tutorial


def test_its_application_is_one(page: Tutorial) -> None:
    manifest = yaml.safe_load(page.block("yaml", "podinfo.yaml"))
    manifest["metadata"] |= {"uid": "u-1"}
    chart = read_application_instance(manifest).spec.chart
    assert chart is not None
    assert chart.version == "6.7.0"
    assert list(validate_strict(manifest)) == []


def test_every_block_of_commands_is_run_by_the_test_below(page: Tutorial) -> None:
    run = re.findall(r"[\"'](\w+)[\"']", Path(__file__).read_text(encoding="utf-8").split("def test_a_newcomer", 1)[1])
    assert {name for language, name, _ in page.blocks if language == "sh"} <= set(run)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_newcomer_comes_from_nothing_to_an_upgraded_application(page: Tutorial) -> None:
    with page.started("cluster") as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("ready ")
        with page.started("operator"):
            follow(page)


def follow(page: Tutorial) -> None:
    """The third shell."""
    page.shell(page.block("sh", "namespace"))
    page.shell(typed(page, "first"))
    first = page.shell("export KUBECONFIG=kc; vworkspace-operator status podinfo")
    for line in page.block("console", "first").splitlines():
        assert line in first
    assert "deployed: podinfo 6.8.0" in page.shell(typed(page, "upgrade"))
    failure = page.shell(typed(page, "failure"))
    for line in page.block("console", "failure").splitlines():
        assert line in failure
    page.shell(typed(page, "return"))
    assert "appinst/podinfo" not in page.shell(typed(page, "end")).splitlines()[-3:]
    installed = page.shell(f"{typed(page, 'real').rstrip()} || true")
    assert not [line for line in installed.splitlines() if line.startswith("failed ")]
    told = "operator: it is installed, and none of its replicas is at work; another one is"
    assert told in installed, "no kubelet here runs what was installed"


def typed(page: Tutorial, name: str) -> str:
    """The commands of a block, in the shell that knows the cluster."""
    return f"export KUBECONFIG=kc\n{page.block('sh', name)}"
