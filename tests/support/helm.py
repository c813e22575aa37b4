"""Helm itself: the `helm` on PATH, or else its library, in a process of its own (it brings the runtime of Go).

    python -m tests.support.helm

reads one JSON object a line, `{"chart": …, "values": …, "namespace": …}`, and answers each with one line:
`{"files": {path: text}}`, `{"error": text}`, with `"lint": true` `{"messages": […]}`, with `"verb": "install"`
(upgrade, uninstall) and `"kubeconfig"` `{"status": …}`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from tests.support.patience import PATIENCE

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ROOT: Final = Path(__file__).resolve().parents[2]
RELEASE: Final = "vworkspace"
UNAVAILABLE: Final = (
    ""
    if shutil.which("helm") or find_spec("helm_python")
    else "there is no helm on PATH, and no helm-python-sdk for this machine"
)
"""Why there is no Helm here; empty where there is one."""


class HelmError(Exception):
    """What Helm says of values or a chart that it refuses."""


@attrs.frozen
class Helm:
    """Helm over one chart. `process` serves its library; without it the command is called."""

    chart: Path
    process: "subprocess.Popen[str] | None"

    def rendered(self, values: Mapping[str, Any], namespace: str = "vworkspace-system") -> dict[str, str]:
        """The text of each template by its path. Raises HelmError."""
        if self.process is None:
            return {"": _template(self.chart, values, namespace)}
        answer = self._ask({"values": values, "namespace": namespace})
        return dict(answer["files"])

    def lint(self) -> list[str]:
        """What Helm finds wrong, warnings included."""
        if self.process is None:
            done = subprocess.run(
                ["helm", "lint", self.chart], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            return [line for line in done.stdout.splitlines() if line.startswith(("[WARNING]", "[ERROR]"))]
        return [
            f"{message['path']}: {message['error']}"
            for message in self._ask({"lint": True})["messages"]
            if message["severity"] > 1
        ]

    def acted(
        self,
        verb: str,
        kubeconfig: Path,
        values: Mapping[str, Any],
        namespace: str = "vworkspace-system",
        release: str = RELEASE,
    ) -> str:
        """The status of the release after `install`, `upgrade` or `uninstall` in a cluster. Raises HelmError."""
        if self.process is not None:
            place = {"kubeconfig": str(kubeconfig), "namespace": namespace, "release": release}
            return str(self._ask({"verb": verb, "values": values, **place})["status"])
        command = ["helm", verb, release, "--namespace", namespace, "--kubeconfig", str(kubeconfig)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            more = [] if verb == "uninstall" else [str(self.chart), "--values", file.name]
            done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise HelmError(done.stderr)
        return "uninstalled" if verb == "uninstall" else "deployed"

    def _ask(self, question: Mapping[str, Any]) -> Any:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"chart": str(self.chart), **question}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise HelmError(answer["error"])
        return answer


@contextmanager
def helm_in(chart: Path) -> Iterator[Helm]:
    """Helm, until the block is left."""
    if shutil.which("helm"):
        yield Helm(chart, None)
        return
    command = [sys.executable, "-m", "tests.support.helm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        yield Helm(chart, process)
        assert process.stdin is not None
        process.stdin.close()


def documents(files: Mapping[str, str], *, crds: bool = False) -> list[dict[str, Any]]:
    """Every manifest of what was rendered, without the notes; the CRDs, or all others."""
    return [
        document
        for path, text in files.items()
        if not path.endswith("NOTES.txt") and (crds or not path.endswith("crds.yaml"))
        for document in yaml.load_all(text, Loader=_LOADER)
        if document and (document["kind"] == "CustomResourceDefinition") is crds
    ]


def _template(chart: Path, values: Mapping[str, Any], namespace: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        command = ["helm", "template", RELEASE, str(chart), "--namespace", namespace, "--values", file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


def _serve() -> None:
    import helm_python

    charts: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "verb" in asked:
                print(json.dumps({"status": _act(helm_python, asked)}), flush=True)
                continue
            if asked.get("lint"):
                answer: Any = {"messages": helm_python.lint(asked["chart"])["messages"]}
            else:
                chart = charts.get(asked["chart"]) or charts.setdefault(
                    asked["chart"], helm_python.Chart.load(asked["chart"])
                )
                chart.validate_schema(asked["values"])
                answer = {"files": chart.render(asked["values"], name=RELEASE, namespace=asked["namespace"])}
        except helm_python.HelmError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


def _act(helm: Any, asked: Mapping[str, Any]) -> str:
    with helm.Config(kubeconfig_path=asked["kubeconfig"], namespace=asked["namespace"]) as config:
        match asked["verb"]:
            case "uninstall":
                return str(config.uninstall(asked["release"])["release"]["status"])
            case "install":
                return str(config.install(asked["chart"], asked["release"], asked["values"])["status"])
            case _:
                return str(config.upgrade(asked["chart"], asked["release"], asked["values"])["status"])


if __name__ == "__main__":
    _serve()
