"""`box convert` as users call it: files in, files out, and a line for what has no counterpart (PH-6)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.boxes.read import read_box
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.box.convert import convert_file

HERE = Path(__file__).parent / "convert"
KATALOG = HERE / "webapp.katalog.yaml"


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def rows(file: Path) -> list[str]:
    """What somebody wrote: lines that are neither empty nor a comment."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


def test_a_katalog_is_printed_as_a_box_with_its_crd(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["box", "convert", str(KATALOG)]) == 0

    printed = capsys.readouterr()
    box, crd = documents(printed.out)
    assert read_box(box).metadata.name == "webapp"
    assert crd == yaml.safe_load((HERE / "webapp-crd.yaml").read_text(encoding="utf-8"))
    assert printed.err == "convert: 1 box, everything converted and checked\n"
    assert "  - id: service\n    # a gate holds: what is there stays when it closes" in printed.out


def test_a_converted_kind_has_the_columns_of_one_that_box_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["box", "init", "WebApp"]) == 0
    (written,) = yaml.safe_load((tmp_path / "webapp-crd.yaml").read_text(encoding="utf-8"))["spec"]["versions"]
    capsys.readouterr()
    assert run_command(["box", "convert", str(HERE / "webapp.rgd.yaml")]) == 0
    (converted,) = documents(capsys.readouterr().out)[1]["spec"]["versions"]
    assert converted["additionalPrinterColumns"] == written["additionalPrinterColumns"]


@pytest.mark.slow
def test_files_are_written_and_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "boxes"
    command = ["box", "convert", str(HERE / "webapp.rgd.yaml"), "-o", str(out)]

    assert [run_command(command) for _ in range(2)] == [0, 0]
    assert capsys.readouterr().out.splitlines()[:2] == [str(out / "webapp.yaml"), str(out / "webapp-crd.yaml")]
    box = yaml.safe_load((out / "webapp.yaml").read_text(encoding="utf-8"))
    assert (read_box(box).spec.crd.file, (out / "webapp-crd.yaml").is_file()) == ("webapp-crd.yaml", True)

    (out / "webapp.yaml").write_text("mine", encoding="utf-8")
    assert run_command(command) == 1
    assert "exists, with other content" in capsys.readouterr().err
    assert (out / "webapp.yaml").read_text(encoding="utf-8") == "mine"


def test_what_has_no_counterpart_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "webapp-crd.yaml").write_bytes((HERE / "webapp-crd.yaml").read_bytes())
    file = tmp_path / "k.yaml"
    text = KATALOG.read_text(encoding="utf-8").replace("        reconcile: true\n", "        sleep: 3s\n", 1)
    file.write_text(text.replace("{{ .spec.image }}", "{{ range .spec.image }}"), encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(tmp_path / "out")]) == 1

    assert capsys.readouterr().err.splitlines() == [
        f"{file}:9:16: operatorBox.onCreate.deployments[0].image: "
        "'{{ range .spec.image }}': {{ range }} has no counterpart in an expression",
        f"{file}:11:16: operatorBox.onCreate.deployments[0].sleep: a box does not sleep",
        "convert: 1 box, 2 not converted",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no document"),
        ("a: [", "not valid YAML"),
        ("a: &x 1\nb: *x\n", "the alias *x stands for a value given elsewhere"),
        ("operatorBox:\n\tcrdFile: x\n", "not valid YAML"),
        ("operatorBox: {crdFile: none.yaml}", "none.yaml: cannot be read: No such file or directory"),
        ("spec: {crds: {../../x: {operatorBox: {}}}}\nkind: Katalog\n", "'../../x' cannot be the name of a box"),
        ("---\na: 1\n" * 101, "holds more than 100 documents"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(text, encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(tmp_path / "out")]) == 1

    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert problem in told[0]
    assert not (tmp_path / "out").exists()


def test_a_function_that_a_box_lacks_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "webapp.rgd.yaml"
    text = (HERE / "webapp.rgd.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("${schema.spec.image}", '"${true ? omit() : schema.spec.image}"'), encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(tmp_path / "out")]) == 1

    told, last = capsys.readouterr().err.splitlines()
    assert told.startswith(f"{file}:")
    assert "the function omit is not known: write an optional" in told
    assert last == "convert: 1 box, 1 not converted"


def test_a_key_that_is_there_twice_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("kind: Katalog\nkind: Katalog\n", encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(tmp_path / "out")]) == 1
    assert f"{file}:2:1: kind: the key is there twice" in capsys.readouterr().err.splitlines()
    assert not (tmp_path / "out").exists()


def test_by_hand_the_pattern_takes_no_more_lines_than_as_a_katalog() -> None:
    """And it is the same operator: what `convert` makes differs in the names of the resources only."""
    by_hand = HERE / "webapp.box.yaml"
    (made,) = [file for file in convert_file(str(KATALOG)).files if file.name == "webapp.yaml"]
    desired, found = yaml.safe_load(made.text)["spec"], yaml.safe_load(by_hand.read_text(encoding="utf-8"))["spec"]

    assert len(rows(by_hand)) <= len(rows(KATALOG))
    assert max(map(len, rows(by_hand))) <= 120
    assert found["status"] == desired["status"]
    assert [(entry.get("when"), entry["template"]) for entry in found["resources"]] == [
        (
            entry.get("when"),
            {**entry["template"], "spec": {**entry["template"]["spec"], "selector": "${web.spec.selector.matchLabels}"}}
            if entry["id"] == "service"
            else entry["template"],
        )
        for entry in desired["resources"]
    ]


def test_what_box_check_refuses_of_the_result_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.yaml"
    file.write_text((HERE / "webapp.rgd.yaml").read_text(encoding="utf-8").replace("readyReplicas", "readyReplica"))

    assert run_command(["box", "convert", str(file), "-o", str(tmp_path / "out")]) == 1

    *told, last = capsys.readouterr().err.splitlines()
    assert last.startswith("convert: 1 box, ")
    assert last.endswith(" to be put right by hand: box check refuses them")
    assert any(
        line.startswith(f"{tmp_path}/out/webapp.yaml:") and "did you mean readyReplicas?" in line.replace("'", "")
        for line in told
    )
    capsys.readouterr()
    assert run_command(["box", "check", str(tmp_path / "out" / "webapp.yaml")]) == 1


def test_crds_that_are_given_are_no_guess(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, crd = tmp_path / "k.yaml", yaml.safe_load((HERE / "webapp-crd.yaml").read_text(encoding="utf-8"))
    template = {"apiVersion": f"{crd['spec']['group']}/v1", "kind": crd["spec"]["names"]["kind"]}
    resource = {"id": "app", "template": {**template, "metadata": {"name": "a"}, "spec": {"image": "x"}}}
    spec = {"schema": {"apiVersion": "v1", "kind": "Team", "spec": {"a": "string"}}, "resources": [resource]}
    file.write_text(
        yaml.safe_dump({"kind": "ResourceGraphDefinition", "metadata": {"name": "team"}, "spec": spec}),
        encoding="utf-8",
    )

    assert run_command(["box", "convert", str(file)]) == 0
    assert "are guesses" in capsys.readouterr().out
    assert run_command(["box", "convert", str(file), "--crds", str(HERE / "webapp-crd.yaml")]) == 0
    assert "kinds:" not in capsys.readouterr().out


def test_parents_are_trusted_as_in_the_original_and_never_silently_or_with_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.yaml"
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "${schema.spec.ns}"}}
    schema = {"apiVersion": "v1", "kind": "Team", "spec": {"ns": "string | required=true"}}
    spec = {"schema": schema, "resources": [{"id": "settings", "template": template}]}
    document = {"kind": "ResourceGraphDefinition", "metadata": {"name": "team"}, "spec": spec}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")

    assert run_command(["box", "convert", str(file), "--no-trust-parents"]) == 1
    assert "say `trustParents: [Namespaces]`" in capsys.readouterr().err
    assert run_command(["box", "convert", str(file)]) == 0
    shown = capsys.readouterr()
    box, _ = documents(shown.out)
    assert read_box(box).spec.trust_parents == ("Namespaces",)
    notice, summary = shown.err.splitlines()
    assert notice.startswith("team.yaml: trustParents: [Namespaces]: whoever writes its objects decides this")
    assert summary == "convert: 1 box, everything converted and checked"


def definition(name: str, *resources: Any, kind: str = "", **spec: str) -> dict[str, Any]:
    schema = {"apiVersion": "v1", "kind": kind or name.title(), "spec": spec}
    body = {"schema": schema, "resources": list(resources)}
    return {"kind": "ResourceGraphDefinition", "metadata": {"name": name}, "spec": body}


def test_definitions_of_one_folder_and_of_another_keep_their_files_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A box that reads the CRD of another would act on the other's objects."""
    crd = yaml.safe_load((HERE / "webapp-crd.yaml").read_text(encoding="utf-8"))
    crds: dict[str, Any] = {}
    for name in ("shop", "till"):
        names = {"kind": name.title(), "listKind": f"{name.title()}List", "plural": f"{name}s", "singular": name}
        spec = {**crd["spec"], "group": "example.com", "names": names}
        crds[name] = {**crd, "metadata": {"name": f"{name}s.example.com"}, "spec": spec}
        (tmp_path / name).mkdir()
        (tmp_path / name / "crd.yaml").write_text(yaml.safe_dump(crds[name]), encoding="utf-8")
    boxes: dict[str, Any] = {name: {"crdFile": f"{name}/crd.yaml", "operatorBox": {}} for name in crds}
    boxes["shop"]["crdFile"] = "shop/shop.yaml"
    (tmp_path / "shop" / "crd.yaml").rename(tmp_path / "shop" / "shop.yaml")
    boxes["other"] = {"crdFile": "shop/crd.yaml", "operatorBox": {}}
    (tmp_path / "shop" / "crd.yaml").write_text(yaml.safe_dump(crds["shop"]), encoding="utf-8")
    file, out = tmp_path / "k.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump({"kind": "Katalog", "spec": {"crds": boxes}}, sort_keys=False), encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(out)]) == 0, capsys.readouterr().err
    for name, kind in (("shop", "Shop"), ("till", "Till"), ("other", "Shop")):
        box = read_box(yaml.safe_load((out / f"{name}.yaml").read_text(encoding="utf-8")))
        used = yaml.safe_load((out / box.spec.crd.file).read_text(encoding="utf-8"))
        assert used["spec"]["names"]["kind"] == kind


def test_a_box_whose_file_is_of_another_is_not_written_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "k.yaml", tmp_path / "out"
    first, second = definition("web.app", kind="App"), definition("web-app", kind="Site")
    file.write_text(yaml.safe_dump_all([first, second]), encoding="utf-8")

    assert run_command(["box", "convert", str(file), "-o", str(out)]) == 1

    told, last = capsys.readouterr().err.splitlines()
    assert "is not written: the file web-app.yaml is of another box: rename one of them" in told
    assert last == "convert: 2 boxes, 1 not converted"
    assert yaml.safe_load((out / "web-app-crd.yaml").read_text(encoding="utf-8"))["spec"]["names"]["kind"] == "App"


@pytest.mark.parametrize("order", [1, -1])
def test_definitions_know_the_kinds_of_each_other_in_any_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: int
) -> None:
    """kro's `state` is no field of a converted kind: who waits for it would wait forever."""
    template = {"apiVersion": "kro.run/v1", "kind": "Part", "metadata": {"name": "part"}}
    part = {"id": "part", "template": template, "readyWhen": ["${part.status.state == 'ACTIVE'}"]}
    file = tmp_path / "k.yaml"
    documents = [definition("whole", part), definition("part")][::order]
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")

    assert run_command(["box", "convert", str(file)]) == 1

    shown = capsys.readouterr()
    assert "are guesses" not in shown.out
    assert any("whole.yaml:" in line and "state" in line for line in shown.err.splitlines())


@pytest.mark.slow
def test_no_file_is_written_beside_one_that_is_of_somebody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "webapp-crd.yaml").write_text("mine", encoding="utf-8")

    assert run_command(["box", "convert", str(HERE / "webapp.rgd.yaml"), "-o", str(tmp_path)]) == 1
    assert "exists, with other content" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["webapp-crd.yaml"]
