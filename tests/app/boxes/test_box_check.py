"""`box check`: messages with file, line and column; hostile files end in one of them (PH-6, trap e)."""

import json
from pathlib import Path

import pytest
import yaml

from purekube_run.boxes.load import load_box
from vworkspace_app.__main__ import run_command

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
BOXES = [path for path in sorted(EXAMPLES.glob("*.yaml")) if not path.stem.endswith(("-crd", "-test"))]
WEBAPP = (EXAMPLES / "webapp.yaml").read_text(encoding="utf-8")


def written(folder: Path, text: str, name: str = "webapp") -> str:
    """A box in a folder of its own, beside the CRD of an example."""
    crd = (EXAMPLES / f"{name}-crd.yaml").read_text(encoding="utf-8")
    (folder / f"{name}-crd.yaml").write_text(crd, encoding="utf-8")
    path = folder / "box.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def told(folder: Path, text: str) -> list[str]:
    loaded = load_box(written(folder, text))
    return [str(one).removeprefix(f"{folder}/") for one in (*loaded.problems, *loaded.warnings)]


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_every_box_of_the_examples_passes_without_a_word(path: Path) -> None:
    loaded = load_box(str(path))
    assert [*map(str, loaded.problems), *map(str, loaded.warnings)] == []
    assert loaded.box is not None
    assert loaded.examination.unchecked == () or loaded.examination.untyped != ()


GATE = "spec.phases[1].when[0].field: undefined field 'readyReplica'; did you mean 'readyReplicas'?"
PORT = "spec.phases[1].resources[0].template.spec.ports[0].port: expected integer, found a string"
IMAGE = "spec.containers[0].image: undefined field 'imagen'; did you mean 'image'?"
CHANGES = [
    ("readyReplicas\n", "readyReplica\n", "children.deployment.status.readyReplica\n", GATE),
    ("port: 80, ", "port: '80', ", "'80'", PORT),
    ("type: LoadBalancer", "type: ${self.spec.host}", ".host}", "spec.type: spec.host may be absent"),
    ("image: ${self.spec.image}", 'image: "a\\tb-${self.spec.imagen}"', ".imagen}", IMAGE),
    ("image: ${self.spec.image}", "image: 'it''s ${self.spec.imagen}'", ".imagen}", IMAGE),
    ("  crd:", "  crt:", "webapp-crd.yaml", "spec.crt: unknown field; did you mean crd?"),
    ("webapp-crd.yaml", "other-crd.yaml", "other-crd.yaml", "spec.crd: "),
]


@pytest.mark.parametrize(("before", "after", "pointed", "expected"), CHANGES, ids=[row[1].strip() for row in CHANGES])
def test_box_check_tells_line_and_column(tmp_path: Path, before: str, after: str, pointed: str, expected: str) -> None:
    text = WEBAPP.replace(before, after, 1)
    found = [problem for problem in load_box(written(tmp_path, text)).problems if expected in str(problem)]
    (place,) = {problem.place for problem in found}
    assert (text.split("\n")[place.line - 1] + "\n")[place.column - 1 :].startswith(pointed)


def test_box_check_tells_the_line_in_a_block_of_text(tmp_path: Path) -> None:
    text = (
        (EXAMPLES / "registry.yaml").read_text(encoding="utf-8").replace("${self.spec.logLevel}", "${self.spec.level}")
    )
    crd = (EXAMPLES / "registry-crd.yaml").read_text(encoding="utf-8")
    (tmp_path / "registry-crd.yaml").write_text(crd, encoding="utf-8")
    (tmp_path / "box.yaml").write_text(text, encoding="utf-8")
    (problem,) = load_box(str(tmp_path / "box.yaml")).problems
    lines = text.split("\n")
    assert lines[problem.place.line - 1][problem.place.column - 1 :].startswith(".level}")


def test_box_check_tells_the_line_of_the_crd_where_a_default_can_be_given(tmp_path: Path) -> None:
    (line,) = told(tmp_path, WEBAPP.replace("type: LoadBalancer", "type: ${self.spec.host}"))
    assert "spec.host may be absent: write self.spec.?host" in line
    declared = (EXAMPLES / "webapp-crd.yaml").read_text(encoding="utf-8").splitlines()
    assert line.endswith(f"webapp-crd.yaml:{1 + declared.index('                host: {type: string}')}")


def test_what_is_checked_completely_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["box", "check", written(tmp_path, WEBAPP)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_what_no_schema_describes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["box", "check", str(EXAMPLES / "chart.yaml")]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("  not checked: release.status; kinds whose fields are unknown: helm.toolkit.fluxcd.io/v2 ")


HOSTILE = [
    ("unquoted ? and :", WEBAPP.replace("${self.spec.image}", "${true ? 'a' : 'b'}"), "quote the expression"),
    (
        "in a flow mapping",
        WEBAPP.replace('{app: "${self.metadata.name}"}', "{app: ${self.metadata.name}}"),
        "quote the",
    ),
    ("a field too far in", "a:\n  b: ${x}\n   c: 1\n", "check the indentation of this line and of the one before"),
    ("a field too far out", 'a:\n    b: "${x}"\n  c: 1\n', "did not find expected key: check the indentation of"),
    ("a field below a text", "a: ${x}\n  c: d\n", "are not allowed in this context: check the indentation of"),
    ("an item too far in", "a:\n  - b: 1\n   - c: 1\n", "did not find expected '-' indicator: check the indentation"),
    ("a comment", WEBAPP.replace("${self.spec.image}", "${self.spec #image}"), "${ without its }"),
    ("aliases", "a: &x [1]\nb: *x\n", "stands for a value given elsewhere"),
    ("tabs", "a:\n\tb: 1\n", "indent with spaces"),
    ("keys that come twice", WEBAPP.replace("  phases:", "  crd: x\n  phases:"), "the key is there twice"),
    ("a merge", "spec:\n  <<: {a: 1}\n", "`<<` merges nothing"),
    ("deep lists", "a: " + "[" * 5000, "nested too deeply"),
    ("deep mappings", "".join(f"{' ' * depth}a:\n" for depth in range(200)), "nested too deeply"),
    ("many values", "a: [" + "1," * 120_000 + "]", "more than"),
    ("a large file", "a: " + "x" * 5_000_000, "a file has at most"),
    ("a foreign tag", "a: !!python/object:os.system x\n", "is no type of JSON"),
    ("infinity", "a: .inf\n", "no infinity"),
    ("a number of many digits", "a: " + "9" * 9000, "a number of 9000 digits: an API server takes at most 64 bits"),
    ("a number of 65 bits", "a: 18446744073709551616\n", "does not fit into 64 bits"),
    ("a list as a key", "? [a]\n: b\n", "a key must be a text"),
    ("no box", "", "holds 0 boxes"),
    ("two boxes", "a: 1\n---\nb: 1\n", "holds 2 boxes"),
    ("a control character", "a: \x01\n", "not valid YAML"),
    ("a list", "[]\n", "must be an object of kind OperatorBox"),
]


@pytest.mark.parametrize("text", ["a: b: c\n", "a: @b\n", 'a: "b\nc: d\n', "a: {b: 1\nc: 3\n"])
def test_no_advice_is_given_where_neither_an_expression_nor_the_indentation_is_wrong(tmp_path: Path, text: str) -> None:
    (line,) = told(tmp_path, text)
    assert "not valid YAML" in line
    assert "quote" not in line.replace("quoted scalar", "")
    assert "indentation" not in line


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_box_of_hostile_yaml_is_refused_by_name(tmp_path: Path, text: str, expected: str) -> None:
    found = told(tmp_path, text)
    assert any(expected in line for line in found), found


@pytest.mark.slow
def test_box_check_prints_all_of_it_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = written(tmp_path, WEBAPP.replace("imag", "imak").replace("${has(self.spec.host)}", "${service.status}"))
    assert run_command(["box", "check", wrong, str(BOXES[0])]) == 1
    out = capsys.readouterr().out
    assert "errors, " in out
    assert ": ok: " in out
    assert run_command(["box", "check", str(BOXES[0])]) == 0
    assert run_command(["box", "check", str(tmp_path / "none.yaml")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert run_command(["box", "check"]) == 2


def test_box_check_prints_json_for_editors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["box", "check", written(tmp_path, WEBAPP.replace("  crd:", "  crt:")), "-o", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    unknown = next(problem for problem in found["problems"] if problem["path"] == "spec.crt")
    assert {"severity": "error", "line": 6, "column": 8}.items() <= unknown.items()


def test_the_beginning_shows_readiness_in_kubectl_get_and_serves_the_port_of_the_image_on_the_page(
    tmp_path: Path,
) -> None:
    """`kubectl get` prints more than name and age; boxes.md runs nginx, which listens on port 80."""
    assert run_command(["box", "init", "WebApp", "--directory", str(tmp_path)]) == 0
    (version,) = yaml.safe_load((tmp_path / "webapp-crd.yaml").read_text(encoding="utf-8"))["spec"]["versions"]
    columns = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
    assert columns == {
        "Ready": '.status.conditions[?(@.type=="Ready")].status',
        "Reason": '.status.conditions[?(@.type=="Ready")].reason',
        "Message": '.status.conditions[?(@.type=="Ready")].message',
        "Age": ".metadata.creationTimestamp",
    }
    web = yaml.safe_load((tmp_path / "webapp.yaml").read_text(encoding="utf-8"))["spec"]["resources"][0]
    (container,) = web["template"]["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 80}]


def test_box_init_writes_a_box_that_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["box", "init", "WebApp", "--directory", str(tmp_path)]) == 0
    loaded = load_box(str(tmp_path / "webapp.yaml"))
    assert (loaded.problems, loaded.warnings) == ((), ())
    capsys.readouterr()
    assert run_command(["box", "init", "WebApp", "--directory", str(tmp_path)]) == 1
    assert "webapp.yaml exists: give --directory for another folder" in capsys.readouterr().err
    assert run_command(["box", "init", "--help"]) == 0
    assert "or fail if one of the files exists" in capsys.readouterr().out
    assert run_command(["box", "init", "web app", "--directory", str(tmp_path)]) == 2


@pytest.mark.slow
def test_box_graph_and_docs_show_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for path in BOXES:
        for words in (["graph"], ["graph", "-o", "dot"], ["docs"]):
            assert run_command(["box", words[0], str(path), *words[1:]]) == 0
    out = capsys.readouterr().out
    assert 'n_web -->|"applied, line 43"| n_service' in out
    assert "children.deployment.status.readyReplicas equals" in out
    assert "\nObjects are deleted in the reverse order of their creation." in out
    assert "\nFirst drain runs to its end. Then objects are deleted in the reverse order of their creation." in out
    assert "| DatabaseMigrated | `jobSucceeded(migrate)` |" in out
    assert "| where its objects are | `deployments` (apps) | create, delete, get, list, patch, watch |" in out
    assert "| where its objects are | `registries/status` (example.com) | patch |" in out


REGISTRY = (EXAMPLES / "registry.yaml").read_text(encoding="utf-8")


def checked(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = run_command(["box", "check", written(folder, text, "registry")])
    return status, [line.removeprefix(f"{folder}/") for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_box_check_tells_how_many_round_trips_hold_and_the_price_of_a_strict_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """L23, PH-6; trap a: the price is a note, and no reason to refuse."""
    status, lines = checked(tmp_path, REGISTRY, capsys)
    assert status == 0
    assert lines[0].startswith("box.yaml:94:12: spec.deletion.order: note: Strict leaves owner references off")
    assert lines[-1].endswith("  conversion v1alpha1 <-> v1: 200 round trips hold")


BACK = "spec.coreImage: \"${(self.spec.components.filter(c, c.name == 'core') + self.spec.components)[0].image}\""
CONVERSIONS = [
    ("keeps: annotation", "keeps: none", "spec.versions[1].up: v1 to v1alpha1 and back changes spec.components"),
    (BACK, "spec.coreImage: x", "spec.versions[1].down: v1alpha1 to v1 and back changes spec.coreImage: '"),
    (
        BACK,
        "spec.logLevel: debug",
        "spec.versions[1].down: gives no valid object of v1alpha1: spec.coreImage: Required",
    ),
    (
        " + self.spec.components",
        "",
        "spec.versions[1].down['spec.coreImage']: gives no object of v1alpha1: index out of bounds",
    ),
]


@pytest.mark.parametrize(("before", "after", "problem"), CONVERSIONS, ids=["kept", "lost", "invalid", "no value"])
def test_box_check_tells_the_first_round_trip_that_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, problem: str
) -> None:
    """L23: with the path of what is lost, and the line of the conversion; the same in each run."""
    text = REGISTRY.replace(before, after)
    assert text != REGISTRY
    status, lines = checked(tmp_path, text, capsys)
    (told,) = [line for line in lines if "spec.versions" in line]
    assert status == 1
    assert problem in told
    assert checked(tmp_path, text, capsys)[1] == lines
