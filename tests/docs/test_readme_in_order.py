"""The README's commands as they are written, one after the other, in the order in which they stand there.

The embedded API server with a simulated Flux stands for the cluster, and `run` as a process for its pods.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.support.commands import Running, call, clean_environment
from tests.support.key_pairs import KeyPairs
from tests.support.patience import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOKEN, ADMIN_TOKEN = "agent-s3cr3t-0123456789", "admin-s3cr3t-0123456789"
CLUSTER = "cluster-prod-1"
PODINFO = "apps.vworkspace.io/v1alpha1/namespaces/org-myteam/applicationinstances/podinfo"
UPGRADE = "ops.vworkspace.io/v1alpha1/namespaces/org-myteam/operations/upgrade"
CLUSTERS = "ops.vworkspace.io/v1alpha1/clusters"


def commands(heading: str) -> list[str]:
    """The commands of the shell block below a heading, a continued one in one."""
    section = README.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


@attrs.frozen
class Shell:
    """A person's shell in a folder with the repository's examples, towards one cluster."""

    folder: Path

    def run(self, command: str) -> str:
        """What it prints, once it succeeds."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = clean_environment(self.folder, {"KUBECONFIG": str(self.folder / "kc"), "PATH": path})
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def get(self, path: str) -> Any:
        """An object as it stands, asked for without a process: it is looked at again and again."""
        config = yaml.safe_load((self.folder / "kc").read_text(encoding="utf-8"))
        server, user = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]
        return call("GET", f"{server}/apis/{path}", token=user.get("token", ""))

    def until(self, holds: Callable[[], bool], what: str, process: Running) -> None:
        """Wait until something is so; a process that ends meanwhile is a failure."""
        limit = time.monotonic() + PATIENCE
        while not holds():
            assert process.is_running, process.err[-4000:]
            assert time.monotonic() < limit, (what, process.err[-4000:])
            time.sleep(0.2)


def says(manifest: Any, kind: str, status: str) -> str:
    """The reason of a condition with that status; empty without it, and while it speaks of an older generation."""
    state = manifest.get("status", {})
    if state.get("observedGeneration") != manifest["metadata"]["generation"]:
        return ""
    found = [
        condition
        for condition in state.get("conditions", ())
        if (condition["type"], condition["status"]) == (kind, status)
    ]
    return str(found[0]["reason"]) if found else ""


def connected(shell: Shell, status: str) -> str:
    """Return the reason of the Cluster's condition Connected, if it has that status."""
    return says(shell.get(f"{CLUSTERS}/{CLUSTER}"), "Connected", status)


def test_install_first_application_and_control_plane_work_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    pairs = KeyPairs.generate()
    assert pairs.sealing.signing_key is not None
    (tmp_path / "signing.pem").write_bytes(pairs.sealing.signing_key.as_pem(private=True))
    (tmp_path / "signing.pub").write_text(pairs.signing_public_key, encoding="utf-8")
    shell = Shell(tmp_path)
    tokens = ("--cluster-id", CLUSTER, "--token", TOKEN, "--admin-token", ADMIN_TOKEN)
    signing = ("--signing-key", tmp_path / "signing.pem")
    with (
        Running(
            tmp_path / "api", "cluster", "--bare", "--simulate", "flux", "--kubeconfig-out", tmp_path / "kc"
        ) as api,
        Running(tmp_path / "odoo", "control-plane", *tokens, *signing) as odoo,
    ):
        api.ready()
        url = odoo.ready()
        for command in commands("Install"):
            shell.run(command)
        alone = ("--no-agent", "--cluster-id", CLUSTER)
        with Running(tmp_path / "local", "run", "--kubeconfig", tmp_path / "kc", *alone) as pod:
            for command in commands("First application"):
                shell.run(command)
                if "application-oci" in command:
                    shell.until(lambda: bool(says(shell.get(PODINFO), "Ready", "True")), "Ready", pod)
                if "upgrade-helm" in command:
                    shell.until(
                        lambda: shell.get(UPGRADE).get("status", {}).get("phase") == "Succeeded",
                        "6.8.0",
                        pod,
                    )
            # The file in Git is older than the edited one: `diff` says so, and ends with 1.
            looks = commands("When something is wrong")
            shown = "".join(shell.run(f"{look}\ntest $? -le {int(' diff ' in look)}") for look in looks)
            assert "appinst/podinfo  Ready" in shown
            assert connected(shell, "False") == "NoAgent"
            assert pod.stop().status == 0

        for command in commands("With a control plane: Odoo"):
            shell.run(command.replace("https://odoo.example.com", url))
        with Running(tmp_path / "pod", "run", "--kubeconfig", tmp_path / "kc") as pod:
            shell.until(lambda: bool(connected(shell, "True")), "poll", pod)
            shell.run("kubectl delete appinst podinfo -n org-myteam --timeout=120s")
            assert pod.stop().status == 0
