"""The page about boxes in the cluster does what it says (PH-10)."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.apimachinery.fields import camel
from purekube.boxes import model
from purekube.boxes.read import read_box
from purekube.boxes.rollout_policy import BoxRollout, DeletionPolicy, RolloutFailure, RolloutOrder
from purekube.boxes.rollouts.reasons import CONDITIONS, RolloutPhase
from tests.docs.markdown import ROOT
from tests.docs.newcomer import shell, started
from tests.docs.test_boxes import changed
from vworkspace_app.__main__ import run_command

PAGE = (ROOT / "docs" / "boxes-cluster.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str, name: str) -> str:
    (text,) = (text for *what, text in BLOCKS if what == [language, name])
    return str(text)


def first_column(word: str) -> list[str]:
    """The words in the first column of the table with this heading."""
    table = PAGE[PAGE.index(f"| {word} |") :].split("\n\n")[0]
    return [row.split("|")[1].strip().strip("`") for row in table.splitlines()[2:]]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_newcomer_applies_a_box_and_rolls_a_change_out(tmp_path: Path) -> None:
    shell(tmp_path, block("sh", "begin"))
    (tmp_path / "shop.yaml").write_text(block("yaml", "shop.yaml"), encoding="utf-8")
    with started(tmp_path, block("sh", "cluster")) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("ready ")
        with started(tmp_path, block("sh", "run")):
            shown = shell(tmp_path, block("sh", "apply")).splitlines()
            assert shown[-2].split() == ["NAME", "ACCEPTED", "KIND", "OBJECTS", "READY", "REVISION", "ROLLEDOUT", "AGE"]
            box = tmp_path / "webapp.yaml"
            box.write_text(changed(box.read_text(encoding="utf-8"), block("diff", "webapp.yaml")), encoding="utf-8")
            names = [line.split()[0] for line in shell(tmp_path, block("sh", "change")).splitlines()]
            assert shell(tmp_path, block("sh", "judge")) == "webapp.yaml against 1 object: nothing\n"
            first, second = (name for name in names if name.startswith("webapp-"))
            told = shell(tmp_path, block("sh", "rollout"))
            assert told.startswith((f"webapp: revision {first}: ", f"webapp: revision {second}: "))
            assert "operatorbox webapp rolls back to webapp-" in told
            gone = "kubectl --kubeconfig kc wait --for=jsonpath='{.spec.revisionHistoryLimit}'=10 deployment/shop"
            shell(tmp_path, gone)


@pytest.mark.slow
def test_commands_that_install_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["box", "init", "WebApp"]) == 0
    kinds: list[set[str]] = []
    for line in (block("sh", "install") + block("sh", "webhook")).splitlines():
        capsys.readouterr()
        assert run_command(shlex.split(line)[1:]) == 0
        kinds.append({each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out) if each})
    assert kinds[0] == {"CustomResourceDefinition"}
    assert {"ServiceAccount", "ClusterRole", "Role", "Deployment"} <= kinds[1]
    assert kinds[2] == {"ClusterRole", "ClusterRoleBinding"}
    assert {"Service", "Certificate", "ValidatingWebhookConfiguration"} <= kinds[3]


def test_every_word_condition_and_value_is_on_the_page_PH_10() -> None:
    assert set(first_column("word of `spec.rollout`")) == {camel(field.name) for field in BoxRollout.__attrs_attrs__}
    assert tuple(first_column("condition")) == CONDITIONS
    values = (*DeletionPolicy, *RolloutFailure, *RolloutOrder, *RolloutPhase)
    assert [value for value in values if value not in PAGE and value not in ("Refuse", "Complete")] == []


def test_the_policy_of_the_page_is_valid_PH_10() -> None:
    spec: dict[str, Any] = {"crd": {"name": "webapps.example.com"}, **yaml.safe_load(block("yaml", "spec"))}
    box = {"apiVersion": model.API_VERSION, "kind": model.KIND, "metadata": {"name": "webapp"}, "spec": spec}

    assert read_box(box).spec.rollout.waves[0].name == "canary"


def test_the_computed_value_of_the_page_is_filled_in_by_a_printed_policy_PH_10(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["box", "init", "WebApp"]) == 0
    box = yaml.safe_load((tmp_path / "webapp.yaml").read_text(encoding="utf-8"))
    box["spec"].update(yaml.safe_load(block("yaml", "mutation")))
    (tmp_path / "webapp.yaml").write_text(yaml.safe_dump(box), encoding="utf-8")
    capsys.readouterr()
    assert run_command(["box", "manifests", "webapp.yaml", "--as-object"]) == 0
    policy, binding, applied = yaml.safe_load_all(capsys.readouterr().out)
    assert (policy["kind"], binding["kind"]) == ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    assert applied["spec"]["mutation"] == box["spec"]["mutation"]
