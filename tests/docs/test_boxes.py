"""The pages about boxes do what they say: commands run as written, boxes are valid, fields are complete."""

import re
import shlex
import shutil
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.apimachinery.fields import camel
from purekube.boxes import model
from purekube.boxes.compiler.compile import examine
from purekube.boxes.expressions import OBJECTS
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube.boxes.when_conditions import AFTER, OPERATORS
from purekube.composites.decisions import NO_ACCOUNT
from purekube.composites.rights import HIDDEN
from purekube.graph.account import GraphReason
from purekube.graph.node import OnImmutable, PruneTime, Removal
from purekube_run.simulation.extensions.scenario import ENDINGS, SERVERS
from purekube_run.simulation.extensions.scenario_file import QUALIFIERS, STEPS
from tests.docs.markdown import ROOT
from tests.docs.newcomer import shell, started
from tests.support.boxes import CONDITIONS
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.program import PROGRAM

PAGES = ("boxes.md", "boxes-reference.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)
BLOCKS = re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str, name: str) -> str:
    (text,) = (text for *what, text in BLOCKS if what == [language, name])
    return str(text)


def section(heading: str) -> str:
    """What stands below a heading, up to the next one."""
    (found,) = re.findall(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def words_of(heading: str) -> set[str]:
    """The words in backticks of the first column of the table below a heading."""
    first = [row.split("|")[1] for row in section(heading).splitlines() if row.startswith("| `")]
    return {word for cell in first for word in re.findall(r"`([^`]+)`", cell)}


def changed(text: str, diff: str) -> str:
    """`text` with a diff; AssertionError where it does not fit exactly one place."""
    lines = diff.removeprefix("@@\n").splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    assert text.count(before) == 1, before
    return text.replace(before, "".join(line[1:] for line in lines if line[0] in " +"))


# --- the ten minutes --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the newcomer works, after the first step."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(name: str) -> list[int]:
    """Exit statuses of a block's commands."""
    return [run_command(shlex.split(line)[1:]) for line in block("sh", name).splitlines()]


def diffs() -> list[str]:
    return [text for language, name, text in BLOCKS if (language, name) == ("diff", "webapp.yaml")]


def with_rule(folder: Path) -> Path:
    """The file of the box, with the rule that the page adds."""
    box = folder / "webapp.yaml"
    box.write_text(changed(box.read_text(encoding="utf-8"), block("diff", "rule")), encoding="utf-8")
    return box


@pytest.mark.slow
def test_the_first_steps_print_what_the_page_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("begin") == [0, 0]
    assert capsys.readouterr().out.splitlines()[:3] == block("console", "begin").splitlines()

    said("look")
    out = capsys.readouterr().out
    assert "flowchart TD" in out
    assert "# WebApp" in out

    gated, wrong = diffs()
    box = with_rule(folder)
    box.write_text(changed(box.read_text(encoding="utf-8"), gated), encoding="utf-8")
    assert run_command(["box", "check", "webapp.yaml"]) == 0
    capsys.readouterr()

    kinds: set[str] = set()
    for line in block("sh", "install").splitlines():
        assert run_command(shlex.split(line)[1:]) == 0
        kinds |= {one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out) if one}
    assert {"CustomResourceDefinition", "ServiceAccount", "ConfigMap", "Deployment", "Role"} <= kinds

    for name in ("shop.yaml", "webapp-test.yaml"):
        (folder / name).write_text(block("yaml", name), encoding="utf-8")
    assert said("trial") == [0, 0]
    out = capsys.readouterr().out
    assert "apply" in out
    assert "the Service comes last" in out

    box.write_text(changed(box.read_text(encoding="utf-8"), wrong), encoding="utf-8")
    assert run_command(["box", "check", "webapp.yaml"]) == 1
    told = capsys.readouterr()
    assert (told.out + told.err).splitlines() == block("console", "mistake").splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_newcomer_comes_from_nothing_to_a_running_kind(folder: Path) -> None:
    said("begin")
    (folder / "shop.yaml").write_text(block("yaml", "shop.yaml"), encoding="utf-8")
    box = with_rule(folder)
    box.write_text(changed(box.read_text(encoding="utf-8"), diffs()[0]), encoding="utf-8")
    shell(folder, block("sh", "rules"))
    with started(folder, block("sh", "cluster")) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("ready ")
        with started(folder, block("sh", "run")):
            assert shell(folder, block("sh", "try")).endswith("2")
            shell(folder, block("sh", "second"))
            refused = shell(folder, f"{block('sh', 'refused').rstrip()} || true")
            assert refused.splitlines() == block("console", "refused").splitlines()
            # The documented way to replace the CRD works on the cluster that the page starts.
            shell(
                folder,
                "export KUBECONFIG=kc\n"
                + block("sh", "install").splitlines()[0]
                + " | kubectl apply --server-side -f -",
            )
            assert "No resources found" in shell(folder, "export KUBECONFIG=kc\n" + block("sh", "end"))


# --- every word -------------------------------------------------------------------------------------------------------


@cache
def crd() -> CrdVersions:
    """That of the kind whose fields the page shows."""
    status = {"type": "object", "properties": {"observedGeneration": {"type": "integer"}, "conditions": CONDITIONS}}
    fields = {"spec": yaml.safe_load(block("yaml", "fields")), "status": status}
    schema = {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": fields}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
        "versions": [version],
    }
    return CrdVersions.of({"kind": "CustomResourceDefinition", "metadata": {"name": "shops.example.com"}, "spec": spec})


FRAGMENTS = [
    (name, text) for language, name, text in BLOCKS if (language, name) in {("yaml", "resources"), ("yaml", "spec")}
]


@pytest.mark.parametrize(("name", "text"), FRAGMENTS, ids=range(len(FRAGMENTS)))
def test_every_example_is_a_box_without_problems(name: str, text: str) -> None:
    found: Any = yaml.safe_load(text)
    spec = {"crd": "shop-crd.yaml", **(found if name == "spec" else {name: found})}
    box = {"apiVersion": model.API_VERSION, "kind": model.KIND, "metadata": {"name": "shop"}, "spec": spec}

    examined = examine(read_box(box), crd(), Schemas([crd()]))

    assert (examined.problems, examined.warnings, examined.unchecked) == ((), (), ())


@pytest.mark.parametrize(
    ("heading", "described"),
    [("Of the box", model.BoxSpec), ("Of a phase", model.BoxPhase), ("Of a resource", model.BoxResource)],
)
def test_every_word_of_a_box_is_on_the_page(heading: str, described: type[Any]) -> None:
    words = {camel(field.name) for field in described.__attrs_attrs__}
    beside = {"Of a phase": {"resources"}, "Of a resource": {"reconcile"}}.get(heading, set())

    assert words_of(heading) == words - beside


@pytest.mark.parametrize(
    "values",
    [model.PhaseOn, model.ApplyMode, Removal, PruneTime, OnImmutable, model.OwnerMode],
)
def test_every_value_is_on_the_page(values: type[StrEnum]) -> None:
    text = section("Of a phase") + section("Of a resource") + section("Of the box")

    assert [
        value for value in values if f"`{value}`" not in text and f"`{value}:" not in text and value != "delete"
    ] == []


def test_every_word_of_a_scenario_is_on_the_page_and_none_beside() -> None:
    faults = set(re.findall(r"\w+", section("Of a step").partition("| `fault` |")[2]))

    assert words_of("Of a step") == {*STEPS, *QUALIFIERS}
    assert {*ENDINGS, *SERVERS, "none"} <= faults


def test_every_operator_function_and_reason_is_on_the_page_and_none_beside() -> None:
    functions = {word.partition("(")[0].removeprefix("x.") for word in words_of("Functions")}
    reasons = set(re.findall(r"`([A-Z]\w+)`", section("Conditions")))

    assert words_of("Gates") == {*OPERATORS, AFTER}
    assert functions == {function.name for function in OBJECTS}
    of_deleting = {"Draining", "DeletingResources", "WaitingForRemoval"}
    assert reasons == {*GraphReason, HIDDEN, NO_ACCOUNT, *of_deleting} - {GraphReason.DELETING}


@pytest.mark.slow
def test_a_box_that_acts_as_an_account_has_the_roles_that_the_page_speaks_of_RUN_12(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said("begin")
    file = folder / "webapp.yaml"
    file.write_text(changed(file.read_text(encoding="utf-8"), block("diff", "acting")), encoding="utf-8")
    capsys.readouterr()
    assert said("accounts") == [0, 0]
    rules = [rule for one in yaml.safe_load_all(capsys.readouterr().out) for rule in one.get("rules", ())]
    (acts,) = [rule for rule in rules if rule["verbs"] == ["impersonate"]]
    assert (acts["resources"], acts["resourceNames"]) == (["serviceaccounts"], ["apps"])
    (of_children,) = [rule for rule in rules if "deployments" in rule["resources"]]
    assert "create" in of_children["verbs"]
    for wrong in (["--for-account", "apps"], ["--for-account", "team/"]):
        assert run_command(["box", "rbac", "webapp.yaml", *wrong]) == 2


def test_every_command_is_on_the_page_and_none_beside() -> None:
    named = set(re.findall(r"`box (\w+)", section("Commands")))

    assert PROGRAM.below["box"].below.keys() == named
