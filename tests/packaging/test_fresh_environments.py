"""What `pip install` brings, in environments made for it (RUN-7). They take minutes: `make test-install` runs them.

The steps of the Dockerfile are run as they stand, in a temporary folder. Their lock has the hashes of every file that
an index may serve, so the Python need not be the image's.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_command_processes import Servers, cluster, connection, control_plane, make_namespaces
from tests.packaging.dockerfile import ROOT, copied, stages
from tests.packaging.projects import OPERATOR, PACKAGES, ours_below, projects
from tests.support.commands import Running, clean_environment
from vworkspace_app.missing_packages import COMMANDS, INSTALL, INSTALL_EMBEDDED, LABORATORY

pytestmark = [pytest.mark.installs, pytest.mark.timeout(900)]

PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]


class Environment:
    """A virtual environment of its own, with nothing in it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"
        self.home = folder

    def pip(self, *words: str | Path) -> None:
        """Run pip, which must succeed."""
        program: list[str | Path] = [self.bin / "python", *PIP, *words]
        ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The installed command, to its end."""
        program: list[str | Path] = [self.bin / "vworkspace-operator", *words]
        return subprocess.run(
            program, env=clean_environment(self.home, {}), capture_output=True, text=True, check=False, timeout=120
        )

    def packages(self) -> set[str]:
        """Every import package of ours that is there."""
        (site,) = self.home.glob("lib/python3*/site-packages")
        return {path.name for path in PACKAGES if (site / path.name).is_dir()}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of every project."""
    return built(ROOT, tmp_path_factory.mktemp("wheels"), *projects())


def built(source: Path, folder: Path, *names: str) -> Path:
    """The folder, with the wheels of these projects of a copy of the repository."""
    sources = [source / projects()[name].folder for name in names]
    program: list[str | Path] = [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, *sources]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(list(folder.glob("*.whl"))) == len(names)
    return folder


@pytest.fixture(scope="module")
def image_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Dockerfile copies, and nothing else."""
    folder = tmp_path_factory.mktemp("src")
    left_out = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in copied():
        given, taken = ROOT / name, folder / name
        taken.parent.mkdir(parents=True, exist_ok=True)
        if given.is_dir():
            shutil.copytree(given, taken, ignore=left_out)
        else:
            shutil.copy(given, taken)
    return folder


def modules(package: Path) -> set[str]:
    """The files of an import package that git knows, as a wheel names them."""
    listed = subprocess.run(
        ["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {str(Path(name).relative_to(package.parent)) for name in listed}


def shipped(wheels: Path, name: str) -> set[str]:
    """Every file in a project's wheel but what says of itself."""
    (wheel,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    return {file for file in names if ".dist-info/" not in file}


@pytest.mark.parametrize("name", list(projects()))
def test_a_wheel_holds_its_import_packages_and_nothing_beside(wheels: Path, name: str) -> None:
    """No tools, tests, documentation: those are of the repository."""
    expected = {file for package in projects()[name].packages for file in modules(package)}

    assert shipped(wheels, name) == expected


def test_the_wheel_of_the_image_holds_no_laboratory(image_source: Path, tmp_path: Path) -> None:
    built(image_source, tmp_path, "purekube", OPERATOR)
    product = [package for package in projects()[OPERATOR].packages if package.name not in LABORATORY]

    assert shipped(tmp_path, OPERATOR) == {name for package in product for name in modules(package)}


def test_the_package_alone_says_what_its_commands_need_and_runs_the_core(wheels: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path)
    fresh.pip("install", "--find-links", wheels, OPERATOR)

    assert fresh.run("--version").returncode == 0
    for name in COMMANDS:
        ended = fresh.run(name)
        # `diff` says with 1 that something would change, `simulate` that a law was broken.
        assert ended.returncode == (2 if name in ("diff", "simulate") else 1)
        assert re.fullmatch(rf"error: .+: {re.escape(INSTALL)}\n", ended.stderr)
    core = "from vworkspace_core.instances.reconcile import reconcile; from purekube.boxes.box import Box"
    subprocess.run([fresh.bin / "python", "-I", "-c", core], check=True)


def test_the_laboratory_alone_serves_an_api_server(wheels: Path, tmp_path: Path) -> None:
    """Without the operator, and without what it needs."""
    fresh = Environment(tmp_path)
    fresh.pip("install", "--find-links", wheels, "kubelab")

    assert fresh.packages() == {"kubelab", "purekube", "purekube_http", "purekube_run"}
    served = "from kubelab.http.serving import serve_forever; from kubelab.flux import FluxSimulator"
    subprocess.run([fresh.bin / "python", "-I", "-c", served], check=True)


def test_the_framework_alone_calls_an_api_server_and_runs_controllers(wheels: Path, tmp_path: Path) -> None:
    """Without the operator, as its README says."""
    fresh = Environment(tmp_path)
    fresh.pip("install", "--find-links", wheels, "purekube[run]")

    assert fresh.packages() == {"purekube", "purekube_http", "purekube_run"}
    used = "from purekube_http import KubeApiClient; from purekube_run.controller import runner"
    subprocess.run([fresh.bin / "python", "-I", "-c", used], check=True)


def test_the_extra_of_the_embedded_servers_serves_them(wheels: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path)
    fresh.pip("install", "--find-links", wheels, f"{OPERATOR}[embedded]")

    ended = fresh.run("demo", "--plain")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert fresh.run("cluster", "--help").returncode == 0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Both embedded servers, of the environment that runs the tests."""
    with cluster(tmp_path) as api, control_plane(tmp_path) as control:
        found = Servers(tmp_path, api.ready(), control.ready())
        make_namespaces(found.cluster_url)
        yield found


def test_the_operator_of_the_image_carries_out_a_job(image_source: Path, tmp_path: Path, servers: Servers) -> None:
    """The image's wheel without any laboratory, and without the packages of signatures, which only signed jobs need."""
    fresh = Environment(tmp_path / "fresh")
    fresh.pip(
        "install",
        "--find-links",
        built(image_source, tmp_path / "wheels", "purekube", OPERATOR),
        f"{OPERATOR}[operator]",
    )
    assert fresh.packages() == ours_below(OPERATOR, "operator") - {"vworkspace_fake"}

    run = ("run", *connection(tmp_path, servers))
    with Running(tmp_path / "operator", *run, command=fresh.bin / "vworkspace-operator") as operator:
        servers.ask("job-1", 1)
        result = operator.until(lambda: servers.result_of("job-1"), "the job's result")
        assert result["outcome"] == "succeeded"
        assert operator.stop().status == 0
    for words in (["cluster"], ["demo"], ["control-plane", "--cluster-id", "c", "--token", "a", "--admin-token", "b"]):
        ended = fresh.run(*words)
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.endswith(f"{INSTALL_EMBEDDED}\n")


def test_the_steps_of_the_dockerfile_build_and_install_it(image_source: Path, tmp_path: Path) -> None:
    """Every RUN of the first stage, as it stands, with its folders in a temporary one."""
    Environment(tmp_path / "python")
    path = f"{tmp_path / 'python' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BASE": "python:3.13-slim", "RELEASE": ""}
    for text in [text for name, text in stages()[0] if name == "RUN"]:
        moved = text.replace("/opt/operator", str(tmp_path / "operator")).replace("/wheels", str(tmp_path / "wheels"))
        ended = subprocess.run(
            ["sh", "-c", moved], cwd=image_source, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, (moved, ended.stderr)

    (entry,) = [text for name, text in stages()[-1] if name == "ENTRYPOINT"]
    program = entry.strip('[]"').replace("/opt/operator", str(tmp_path / "operator"))
    assert subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    assert subprocess.run([program, "demo"], capture_output=True, check=False).returncode == 1


def test_a_new_project_is_installed_tested_and_run_by_its_entry_point(wheels: Path, tmp_path: Path) -> None:
    """PH-7: what `init reconciler` writes is a package like any other."""
    fresh, project = Environment(tmp_path / "env"), tmp_path / "shops"
    fresh.pip("install", "--find-links", wheels, f"{OPERATOR}[kit]")
    assert fresh.run("init", "reconciler", "shops", "--kind", "Shop", "--directory", str(project)).returncode == 0
    fresh.pip("install", "--find-links", wheels, project)

    tests: list[str | Path] = [fresh.bin / "python", "-m", "pytest", "-q"]
    tested = subprocess.run(tests, cwd=project, capture_output=True, text=True, check=False)
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr
    assert "shops  shops.reconciler:shops  shops 0.1.0" in fresh.run("controllers", "list").stdout
    assert "name: shops.example.com" in fresh.run("controllers", "crds", "shops").stdout
