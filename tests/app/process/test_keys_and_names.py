"""Keys and names in files that are not texts: read as kubectl reads them, or an error with its place (SEE-2)."""

from pathlib import Path

import pytest

from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import parse_yaml, read_documents
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.box.plan import plan
from vworkspace_app.commands.diff import diff

INSTANCE = Path("examples/application-oci.yaml")


def test_a_number_or_a_boolean_is_a_text_where_it_is_a_key() -> None:
    """`diff` and `plan -o diff` ended with a traceback."""
    assert parse_yaml("{1: a, 0x10: b, true: c, 1.5: d, e: {2: f}}") == {
        "1": "a",
        "16": "b",
        "true": "c",
        "1.5": "d",
        "e": {"2": "f"},
    }


def test_a_key_that_kubectl_refuses_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: A\nspec:\n  ~: b\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"a\.yaml:3: not valid YAML: a key is not a text: put it in quotes"):
        read_documents([str(tmp_path / "a.yaml")])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((f"!!{tag} x", "a value does not fit its tag") for tag in ("int", "float", "bool")),
        ("!!map [x]", "expected a mapping node, but found sequence"),
        ("!!binary eA==", "the tag !!binary is of a type that Kubernetes does not have"),
        ("!!timestamp 2026-01-01", "the tag !!timestamp is of a type that Kubernetes does not have"),
        ("!!set {x}", "the tag !!set is of a type that Kubernetes does not have"),
        ("{[x]: y}", "a key is not a text: put it in quotes"),
    ],
)
def test_a_tag_that_kubernetes_does_not_have_is_told(value: str, told: str, tmp_path: Path) -> None:
    """Each ended with a traceback, at once or where the object was printed."""
    (tmp_path / "a.yaml").write_text(f"kind: {value}\n", encoding="utf-8")
    with pytest.raises(CommandError) as caught:
        read_documents([str(tmp_path / "a.yaml")])
    assert caught.value.message == f"{tmp_path}/a.yaml:1: not valid YAML: {told}"
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_yaml(f"kind: {value}")


def test_labels_with_number_keys_are_compared(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(INSTANCE.read_text(encoding="utf-8") + "1: 2\n", encoding="utf-8")
    (tmp_path / "live").mkdir()
    assert diff(str(tmp_path / "a.yaml"), offline=tmp_path / "live") == 1


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("{name: a, namespace: 3}", "ApplicationInstance: metadata.namespace: 3 must be a string: put it in quotes"),
        ("{name: 12}", "ApplicationInstance: metadata.name: 12 must be a string: put it in quotes"),
        ("{namespace: a}", "ApplicationInstance: metadata.name: is required"),
    ],
)
def test_a_name_that_is_no_text_is_told(
    metadata: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`diff` of an unquoted number as the namespace ended with a traceback, and status 1."""
    head = "apiVersion: apps.vworkspace.io/v1alpha1\nkind: ApplicationInstance\n"
    (tmp_path / "live").mkdir()
    (tmp_path / "a.yaml").write_text(f"{head}metadata: {metadata}\nspec: {{}}\n", encoding="utf-8")

    assert run_command(["diff", str(tmp_path / "a.yaml"), "--offline", str(tmp_path / "live")]) == 2
    assert capsys.readouterr().err == f"error: {told}\n"


def test_files_without_an_object_are_no_sameness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A template that rendered nothing, or a broken pipe, said that nothing would change."""
    (tmp_path / "a.yaml").write_text("---\n", encoding="utf-8")

    assert run_command(["diff", str(tmp_path / "a.yaml"), "--offline", str(tmp_path)]) == 2
    assert "there is nothing to compare" in capsys.readouterr().err


def test_box_plan_tells_a_namespace_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: example.com/v1\nkind: WebApp\nmetadata: {name: a, namespace: 12}\nspec: {image: a}\n",
        encoding="utf-8",
    )
    with pytest.raises(CommandError, match=r"WebApp: metadata\.namespace: 12 must be a string: put it in quotes"):
        plan("examples/boxes/webapp.yaml", parent=str(tmp_path / "a.yaml"))
