"""A release from one tag: what agrees with it, notes, wheels, chart, and the workflow that publishes (SEE-5)."""

import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.projects import ROOT
from tests.support.helm import UNAVAILABLE, documents, helm_in
from tools.release.__main__ import main
from tools.release.deployment import chart_of, deployment, packed_chart
from tools.release.errors import ReleaseError
from tools.release.notes import notes, with_links
from tools.release.version import BILL, CHART, CODE, PROJECTS, check, current_tag, version_of
from tools.release.wheels import wheels

TAG = current_tag(ROOT)
VERSION = version_of(TAG)
DIGEST = "sha256:" + "0a" * 32
IMAGE = f"ghcr.io/acme/vworkspace-operator@{DIGEST}"
CHANGELOG = f"""# Changelog

## Unreleased

## {VERSION} - 2026-11-23

### Added
- It. [Page](docs/page.md).

## 0.0.1
- Old.
"""
WORKFLOW = ROOT / ".github/workflows/release.yml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that name the version, with a section of the changelog for it."""
    names = [
        "docs/upgrade.md",
        str(BILL),
        str(CODE),
        str(CHART / "Chart.yaml"),
        *(f"{place}/pyproject.toml" for place in PROJECTS),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# --- the tag ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tag", ["1.2.3", "v1.2", "v1.2.3-rc.1", "v1.2.3rc1", "v01.2.3", "v1.2.3 ", "main", "v1.2.3;id"]
)
def test_a_tag_that_is_no_version_is_refused_in_one_line(tag: str) -> None:
    with pytest.raises(ReleaseError) as refused:
        version_of(tag)
    assert str(refused.value) == f"tag {tag}: not v and three numbers, such as v1.2.3"


@pytest.mark.slow
def test_a_step_that_fails_prints_its_reason_and_no_traceback() -> None:
    words = [sys.executable, "-m", "tools.release", "check", "v1"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "tag v1: not v and three numbers, such as v1.2.3\n"


def test_a_tree_that_agrees_with_its_tag_is_accepted(tree: Path) -> None:
    check(tree, TAG)


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        *(
            (
                f"{place}/pyproject.toml",
                f'\nversion = "{VERSION}"',
                '\nversion = "9.9.9"',
                "version: 9.9.9, but the tag",
            )
            for place in PROJECTS
        ),
        ("kit/pyproject.toml", f"purekube[run]=={VERSION}", "purekube[run]==9.9.9", "purekube[run]==9.9.9: 9.9.9"),
        ("pyproject.toml", f"purekube-kit=={VERSION}", "purekube-kit==9.9.9", "purekube-kit==9.9.9: 9.9.9"),
        (str(CODE), f'VERSION: Final = "{VERSION}"', 'VERSION: Final = "9.9.9"', "__init__.py: VERSION: 9.9.9"),
        (str(CHART / "Chart.yaml"), f"\nversion: {VERSION}", "\nversion: 9.9.9", "Chart.yaml: version: 9.9.9"),
        (str(CHART / "Chart.yaml"), f"appVersion: {VERSION}", "appVersion: 9.9.9", "Chart.yaml: appVersion: 9.9.9"),
        (str(BILL), f'"version": "{VERSION}"', '"version": "9.9.9"', "sbom.cdx.json: version: 9.9.9"),
        ("CHANGELOG.md", f"## {VERSION} ", "## 9.9.9 ", f"CHANGELOG.md: no section '## {VERSION}'"),
        ("CHANGELOG.md", "### Added\n- It. [Page](docs/page.md).\n", "", f"the section '## {VERSION}' is empty"),
        ("docs/upgrade.md", f"## To {VERSION}", "## To 9.9.9", f"docs/upgrade.md: no section '## To {VERSION}'"),
    ],
)
def test_each_file_that_disagrees_with_the_tag_is_one_line(
    tree: Path, name: str, old: str, new: str, line: str
) -> None:
    edit(tree / name, old, new)
    with pytest.raises(ReleaseError) as refused:
        check(tree, TAG)
    (only,) = [each for each in str(refused.value).splitlines() if "component" not in each]
    assert line in only
    assert Path(name).name in only


def test_everything_that_disagrees_is_reported_at_once(tree: Path) -> None:
    with pytest.raises(ReleaseError) as refused:
        check(tree, "v9.9.9")
    lines = str(refused.value).splitlines()
    assert {"CHANGELOG.md: no section '## 9.9.9'", "docs/upgrade.md: no section '## To 9.9.9'"} <= set(lines)
    assert sum("pyproject.toml: version:" in line for line in lines) == len(PROJECTS)


def test_only_a_rehearsal_accepts_unreleased_notes(tree: Path) -> None:
    edit(tree / "CHANGELOG.md", f"## Unreleased\n\n## {VERSION} - 2026-11-23\n", "## Unreleased\n")
    check(tree, TAG, rehearsal=True)
    with pytest.raises(ReleaseError, match=f"no section '## {VERSION}'"):
        check(tree, TAG)


def test_notes_are_one_section_whose_links_lead_to_the_tag(tree: Path) -> None:
    text = with_links(notes(tree, VERSION), VERSION, "acme/operator")
    assert text == f"### Added\n- It. [Page](https://github.com/acme/operator/blob/{TAG}/docs/page.md)."


def test_a_step_that_does_not_exist_is_told_the_steps() -> None:
    with pytest.raises(ReleaseError, match=r"steps: check TAG, .* dry-run \[TAG\]"):
        main(["publish"])


# --- wheels -----------------------------------------------------------------------------------------------------------

PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "sample"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["sample"]
"""
HOOK = """import os
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        with open("sample/made.py", "w") as file:
            file.write(repr(WHAT))
        build_data["artifacts"].append("sample/made.py")
"""


def repository(folder: Path, hook: str = "") -> Path:
    """A commit with one project, whose wheel may hold what its hook writes."""
    (folder / "sample").mkdir()
    (folder / "sample/__init__.py").write_text("")
    table = "[tool.hatch.build.targets.wheel.hooks.custom]\n" if hook else ""
    (folder / "pyproject.toml").write_text(PYPROJECT + table)
    if hook:
        (folder / "hatch_build.py").write_text(HOOK.replace("WHAT", hook))
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


@pytest.mark.slow
def test_a_wheel_that_is_the_same_twice_is_written_without_what_git_does_not_know(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / "sample/left.py").write_text("untracked")
    wheels(root, tmp_path / "out", ["."])
    (wheel,) = (tmp_path / "out").iterdir()
    assert b"sample/__init__.py" in wheel.read_bytes()
    assert b"left.py" not in wheel.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["os.getcwd()", "os.environ['TZ']"])
def test_a_wheel_that_depends_on_where_and_when_it_is_built_stops_the_release(tmp_path: Path, what: str) -> None:
    with pytest.raises(ReleaseError, match=r"sample-1-.*: two builds of one commit differ"):
        wheels(repository(tmp_path, what), tmp_path / "out", ["."])
    assert not (tmp_path / "out").exists()


# --- the chart --------------------------------------------------------------------------------------------------------


def test_the_packed_chart_is_the_same_for_the_same_commit() -> None:
    files = chart_of(ROOT, "ghcr.io/acme/vworkspace-operator", DIGEST)
    packed = packed_chart(files, 1_700_000_000)

    assert packed == packed_chart(dict(reversed(files.items())), 1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert {entry.name.removeprefix("vworkspace-operator/") for entry in archive} == set(files)
        assert {entry.mtime for entry in archive} == {1_700_000_000}


@pytest.mark.slow
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
def test_the_chart_of_a_release_renders_its_image_without_any_value(tmp_path: Path) -> None:
    packed = deployment(ROOT, tmp_path, IMAGE, version=VERSION, time=0)
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    with helm_in(tmp_path / "vworkspace-operator") as helm:
        (workload,) = [each for each in documents(helm.rendered({})) if each["kind"] == "Deployment"]
    assert workload["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    printed = yaml.safe_load_all((tmp_path / "operator.yaml").read_text())
    assert IMAGE in [pods(each) for each in printed if each["kind"] == "Deployment"]
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "crds.yaml",
        "operator.yaml",
        f"vworkspace-operator-{VERSION}.tgz",
        f"vworkspace-operator-{VERSION}.sbom.cdx.json",
    }


def pods(workload: dict[str, Any]) -> str:
    """The image of a Deployment."""
    return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("image", ["ghcr.io/acme/vw:1", "vworkspace-operator@" + DIGEST, "ghcr.io/acme/vw@sha256:0a"])
def test_only_an_image_by_digest_is_released(tmp_path: Path, image: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(f"image {image}: not REGISTRY/NAME@sha256:DIGEST")):
        deployment(ROOT, tmp_path, image, version=VERSION, time=0)


# --- the workflow -----------------------------------------------------------------------------------------------------

JOBS: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
PUBLISHING = {"image", "chart", "wheels", "publish"}


def before(job: str) -> set[str]:
    """Every job that must have succeeded."""
    needs = JOBS[job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(before(each) for each in direct))


def test_nothing_is_published_before_checks_audit_and_scan_are_green() -> None:
    writing = {name for name, job in JOBS.items() if "write" in job.get("permissions", {}).values()}
    assert writing == PUBLISHING
    for name in PUBLISHING:
        assert {"check", "build", "scan"} <= before(name) | {name}
        assert JOBS[name]["environment"] == "release"
    (scan,) = [step for step in JOBS["scan"]["steps"] if "scan-action" in step.get("uses", "")]
    assert scan["with"]["fail-build"] is True
    commands = [step.get("run", "") for step in JOBS["build"]["steps"]]
    assert "AUDIT=required scripts/audit" in commands
    assert 'make release-dry-run TAG="$GITHUB_REF_NAME"' in commands


def test_every_action_is_named_by_a_commit_and_its_version() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    used = [step["uses"] for job in JOBS.values() for step in job.get("steps", ()) if "uses" in step]
    assert all(re.search(rf"{re.escape(each)} # v\d+\.\d+\.\d+\n", text) for each in used)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used)
    assert yaml.safe_load(text)["permissions"] == {}


def test_no_command_contains_an_expression_that_somebody_outside_could_fill() -> None:
    commands = [step["run"] for job in JOBS.values() for step in job.get("steps", ()) if "run" in step]
    assert [command for command in commands if "${{" in command] == []


def test_every_step_of_the_workflow_exists_and_is_rehearsed_where_changes_land() -> None:
    steps = set(re.findall(r"tools\.release ([a-z-]+)", WORKFLOW.read_text(encoding="utf-8")))
    source = (ROOT / "tools/release/__main__.py").read_text(encoding="utf-8")
    assert steps <= set(re.findall(r'case \["([a-z-]+)"', source))
    assert steps == {"wheels", "notes", "deploy", "sums"}
    assert "step make release-dry-run\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "tools.release dry-run" in (ROOT / "Makefile").read_text(encoding="utf-8")
