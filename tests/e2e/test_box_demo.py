"""`demo --box` shows an operator from a file over real HTTP, and checks what it shows (PH-3 to PH-6)."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.commands import Running, call, clean_environment, run
from vworkspace_app.demo.box_story import FILE

EXAMPLES = Path(__file__).parents[2] / "examples" / "boxes"


@pytest.mark.slow
def test_the_demo_of_a_box_checks_what_it_shows_and_all_of_it_holds(tmp_path: Path) -> None:
    ended = run("demo", "--box", TMPDIR=str(tmp_path))

    assert (ended.status, ended.err) == (0, ""), ended.out
    last = ended.out.splitlines()[-1]
    assert last.endswith(" checks hold")
    assert ended.out.count("   ok  ") == int(last.split()[1]) >= 10
    assert [f" ms  {number}  " in ended.out for number in range(1, 5)] == [True] * 4
    assert "the gate opens: children.deployment.status.readyReplicas equals 2" in ended.out
    assert list(tmp_path.iterdir()) == [], "it tidies up"


def test_its_box_is_the_one_of_the_examples() -> None:
    for name in ("webapp.yaml", "webapp-crd.yaml"):
        assert (FILE.parent / name).read_bytes() == (EXAMPLES / name).read_bytes()


@pytest.mark.slow
def test_two_stories_at_once_are_a_mistake() -> None:
    ended = run("demo", "--box", "--operations")

    assert (ended.status, ended.problems) == (
        2,
        ["error: --box and --operations tell different stories: give one of them"],
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_every_command_of_its_playground_works(tmp_path: Path) -> None:
    with Running(tmp_path / "demo", "demo", "--box", "--keep", TMPDIR=str(tmp_path)) as process:
        process.until(lambda: "Ctrl-C ends everything." in process.out, "the playground")
        told = process.out.partition("A playground\n")[2].replace("\\\n", "").splitlines()
        export, *commands = [line.strip() for line in told if line.startswith("  ")]
        kubeconfig = Path(export.removeprefix("export KUBECONFIG="))
        server = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        children = f"{server}/apis/apps/v1/namespaces/team/deployments"
        process.until(lambda: bool(call("GET", children)["items"]), "the Deployment")

        for command in commands:
            environment = clean_environment(kubeconfig.parent, {"KUBECONFIG": str(kubeconfig)})
            done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stderr)
            if " patch " in command:
                process.until(lambda: call("GET", children)["items"][0]["spec"]["replicas"] == 4, "four replicas")
        assert len(commands) == 4
        process.until(lambda: not call("GET", children)["items"], "everything goes")
        stopped = process.stop(signal.SIGINT)

    assert (stopped.status, stopped.err) == (0, "")
