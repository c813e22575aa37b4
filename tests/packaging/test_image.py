"""The image: what it copies, installs, takes out and starts, without Docker (RUN-7)."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.e2e.test_manifests import container, pod
from tests.packaging.dockerfile import ROOT, copied, instructions, stages
from tests.packaging.projects import OPERATOR, projects

STRIP = ROOT / "deploy" / "image" / "strip.py"


def test_the_image_copies_what_the_package_is_made_of_and_no_laboratory() -> None:
    assert all((ROOT / source).exists() for source in copied())
    operator = projects()[OPERATOR]
    below = [projects()["purekube"], operator]
    packages = [str(path) for project in below for path in project.packages]
    files = [str(Path(one.folder) / name) for one in below for name in ("pyproject.toml", str(one.metadata["readme"]))]
    needed = {*packages, *files, *operator.metadata["license-files"], "core/hatch_build.py"}
    absent = {path for path in needed if not any(Path(path).is_relative_to(source) for source in copied())}
    assert absent == {"adapters/fake/vworkspace_fake"}
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert let_through == copied()


def test_the_image_starts_the_command_as_the_pods_user_and_needs_no_shell() -> None:
    last = stages()[-1]
    told = dict(last)
    (program,) = json.loads(told["ENTRYPOINT"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert Path(program).name in project["project"]["scripts"]
    assert program.startswith("/opt/operator/")
    assert "RUN" not in told
    assert isinstance(json.loads(told["CMD"]), list)
    assert told["USER"].split(":")[0] == str(pod()["securityContext"]["runAsUser"])
    assert {int(port) for port in told["EXPOSE"].split()} == {port["containerPort"] for port in container()["ports"]}


def test_the_base_of_the_image_can_be_pinned_and_nothing_lies_beneath_what_was_stripped() -> None:
    assert instructions()[0][0] == "ARG"
    assert [stage[0][1].split(" AS ")[0] for stage in stages()] == ["${BASE}", "${BASE}", "scratch"]
    stripping = [text for name, text in stages()[1] if name == "RUN"]
    assert [json.loads(text) for text in stripping] == [["python", "/strip/strip.py"]]


def test_the_base_is_named_by_its_digest_and_something_asks_for_the_next_one() -> None:
    ((_, base),) = (line for line in instructions()[:1])
    assert re.fullmatch(r"BASE=python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    renewed = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert ("docker", "/") in {(update["package-ecosystem"], update.get("directory")) for update in renewed}


PINNED = f"python:3.13-slim@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("base", "release", "status", "told"),
    [
        (PINNED, "1.0.0", 0, ""),
        (PINNED, "", 0, ""),
        ("python:3.13-slim", "", 0, "warning: the base python:3.13-slim is not named by its digest"),
        ("python:3.13-slim", "1.0.0", 1, "RELEASE=1.0.0: the base python:3.13-slim is not named by its digest"),
        (PINNED[:-1], "1.0.0", 1, "is not named by its digest"),
        ("", "1.0.0", 1, "is not named by its digest"),
    ],
)
def test_a_release_is_built_on_a_base_with_a_digest_only(base: str, release: str, status: int, told: str) -> None:
    ended = subprocess.run(
        [sys.executable, "deploy/image/base.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "BASE": base, "RELEASE": release},
    )
    assert ended.returncode == status
    assert told in ended.stderr if told else not ended.stderr


def test_the_build_checks_its_base_before_it_installs_anything_and_the_image_names_it() -> None:
    building = [text if name == "RUN" else f"{name} {text}" for name, text in stages()[0]]
    checked = building.index("python deploy/image/base.py")
    assert {"ARG BASE", "ARG RELEASE="} <= set(building[:checked])
    assert not any("install" in text for text in building[:checked])
    assert ("LABEL", "org.opencontainers.image.base.name=${BASE}") in stages()[-1]


# --- taking out what is not run ---------------------------------------------------------------------------------------

KEPT = (
    "etc/ssl/certs/ca-certificates.crt",
    "usr/bin/env",
    "usr/bin/sha256sum",
    "usr/bin/shred",
    "usr/local/bin/python3.13",
    "usr/lib/x86_64-linux-gnu/libssl.so.3",
    "var/lib/dpkg/status",
)
TAKEN = (
    "etc/apt/sources.list.d/debian.sources",
    "usr/bin/apt-get",
    "usr/bin/bash",
    "usr/bin/dash",
    "usr/bin/dpkg-deb",
    "usr/bin/perl5.40.1",
    "usr/lib/apt/methods/http",
    "usr/local/bin/idle3.13",
    "usr/local/bin/pip3.13",
    "usr/share/perl5/Debian.pm",
    "var/lib/apt/lists/lock",
)
LINKS = {"bin": "usr/bin", "usr/bin/sh": "dash", "usr/bin/perl": "nowhere", "usr/local/bin/python": "python3.13"}
LIBRARY = str(Path(sysconfig.get_path("stdlib")).relative_to("/"))


def image(root: Path, taken: tuple[str, ...] = TAKEN, links: dict[str, str] = LINKS) -> Path:
    """A file system laid out as that of the base is, with `/bin` as a link; the path of its copy of the script."""
    library = [f"{LIBRARY}/{name}" for name in ("json/__init__.py", "site-packages/pip/__init__.py", "ensurepip/a.py")]
    for name in (*KEPT, *taken, *library):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "strip").mkdir()
    return Path(shutil.copy(STRIP, root / "strip"))


def strip(script: Path) -> subprocess.CompletedProcess[str]:
    """The script, as the Dockerfile runs it, on the file system around it."""
    words = [sys.executable, str(script), str(script.parents[1])]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def present(root: Path) -> set[str]:
    """Every file and link."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or path.is_file()}


def test_shells_and_package_managers_are_taken_out_and_nothing_else(tmp_path: Path) -> None:
    ended = strip(image(tmp_path))

    assert ended.returncode == 0, ended.stderr
    assert present(tmp_path) == {*KEPT, "bin", "usr/local/bin/python", f"{LIBRARY}/json/__init__.py"}
    assert not (tmp_path / "strip").exists()


def test_a_base_that_is_laid_out_otherwise_is_refused_as_it_is(tmp_path: Path) -> None:
    script = image(tmp_path, tuple(name for name in TAKEN if not name.endswith("dash")), {})
    before = present(tmp_path)

    ended = strip(script)

    assert (ended.returncode, ended.stderr) == (1, "no shell was found: is this a Debian image?\n")
    assert present(tmp_path) == before


# --- what is installed ------------------------------------------------------------------------------------------------

LOCK = ROOT / "deploy/image/requirements.txt"


def locked(path: Path = LOCK) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_what_the_image_installs_is_pinned_with_hashes_and_names_no_registry(name: str) -> None:
    text = (LOCK.parent / name).read_text(encoding="utf-8")
    entries = [part for part in text.replace("\\\n", " ").splitlines() if part.strip()]
    assert entries
    assert all(re.match(r"^[a-z0-9._-]+==\S+( ; .*)?( +--hash=sha256:[0-9a-f]{64})+ *$", entry) for entry in entries)
    assert "://" not in text
    installs = [line for instruction, line in instructions() if instruction == "RUN" and "install" in line]
    assert sum(line.count("--require-hashes") for line in installs) == 2
    assert all(
        "--no-index" in part or "--require-hashes" in part
        for line in installs
        for part in line.split("&&")
        if "install" in part
    )


def test_the_lock_holds_every_dependency_at_a_version_that_is_asked_for() -> None:
    from packaging.requirements import Requirement

    found = locked()
    for line in projects()[OPERATOR].required("operator", "signatures"):
        asked = Requirement(line)
        assert asked.specifier.contains(found[asked.name.lower()]), f"{line}: run scripts/lock"


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/sbom.py", str(LOCK)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (LOCK.parent / "sbom.cdx.json").read_text(encoding="utf-8") == made, "run scripts/lock"
    assert {component["name"]: component["version"] for component in json.loads(made)["components"]} == locked()


def test_an_audit_that_cannot_be_made_fails_unless_it_is_optional(tmp_path: Path) -> None:
    script = (ROOT / "scripts/audit").read_text(encoding="utf-8")
    assert "scripts/audit" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert script.count('skip "') == 2
    alone = script[: script.index("if [ ! -x")].replace('cd "$(dirname "$0")/.."', ":") + 'skip "no way out"\n'
    (tmp_path / "audit").write_text(alone, encoding="utf-8")
    for given, status in ((None, 2), ("required", 2), ("optional", 0)):
        environment = {**os.environ, "AUDIT": given} if given else {**os.environ, "AUDIT": ""}
        ended = subprocess.run(
            ["bash", tmp_path / "audit"], env=environment, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, "no way out" in ended.stdout + ended.stderr) == (status, True)
