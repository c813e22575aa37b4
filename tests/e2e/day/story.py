"""A day with an operator, as it is typed: what a person does, and what is shown. `replayed` carries it out.

Lines that begin with `#` are what the person thinks, `~ 5m` lets time pass. Everything else is a command. Ours runs as
it is; of kubectl there is what the story needs, played on the same cluster.
"""

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import chdir
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import attrs
import structlog
import yaml

from kubelab.clock import virtual_loop
from kubelab.flux import Action, FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from kubelab.model.calls import RequestTarget, WriteOptions
from kubelab.model.failure import ApiFailure
from tests.e2e.day.site import Day
from tests.support.servers import alone

HERE: Final = Path(__file__).parent
WIDTHS: Final = (80, 120)
_LOOKS: Final = ("check", "status")
"""Commands of ours that fold to the screen, and change nothing: they are asked once for each."""
_EXAMPLES: Final = HERE.parents[2] / "examples"
CHARTS: Final = "oci://ghcr.io/stefanprodan/charts"
"""The address in the example."""
_STALLED: Final = "[Job/org-myteam/podinfo-hook status: 'Failed']"
_FAILURE: Final = f"post-upgrade hooks failed: failed early due to stalled resources: {_STALLED}"
_BROKEN: Final = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, _FAILURE), action=Action.UPGRADE, version="6.8.0")

DAY: Final = """\
# Flux runs in the cluster. Is all there that the operator needs?
$ vworkspace-operator check --pre

# Then install it: the definitions first, the operator next.
$ vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -
$ vworkspace-operator manifests --no-agent --cluster-id cluster-prod-1 \\
    --image ghcr.io/myteam/vworkspace-operator:1 | kubectl apply --server-side -f -
~ 30s
# A namespace is opened to it by a label, and gets the rights that are needed there.
$ kubectl apply -f examples/namespace.yaml
$ vworkspace-operator manifests --no-agent --namespace org-myteam | kubectl apply --server-side -f -
~ 30s
$ vworkspace-operator check --no-agent
$ vworkspace-operator status

# The first application. What would come of it?
$ vworkspace-operator diff examples/application-oci.yaml
$ kubectl apply -f examples/application-oci.yaml
~ 3s
$ vworkspace-operator status
~ 1m
$ vworkspace-operator status podinfo

# Another version.
$ sed s/6.7.0/6.8.0/ examples/application-oci.yaml > podinfo.yaml
$ vworkspace-operator diff podinfo.yaml
$ kubectl apply -f podinfo.yaml
~ 5m
$ vworkspace-operator status
$ vworkspace-operator status podinfo

# The hook could not reach its database. That is mended; so try again.
! mended
$ vworkspace-operator retry podinfo
~ 20s
$ vworkspace-operator status podinfo
$ vworkspace-operator diff podinfo.yaml

# The end of it. What would be done?
$ vworkspace-operator uninstall --dry-run
$ vworkspace-operator uninstall --yes
~ 10s
$ vworkspace-operator status
"""
"""What is typed."""


def golden(width: int) -> Path:
    """Return the file with the recorded output on a screen of so many columns."""
    return HERE / f"{width}.txt"


@cache
def replayed(widths: Sequence[int] = WIDTHS) -> Mapping[int, str]:
    """Return the whole day on simulated controllers, as it is shown on each screen."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        return anyio.run(_replay, widths, backend_options={"loop_factory": virtual_loop()})
    except BaseExceptionGroup as group:
        raise alone(group) from None
    finally:
        structlog.reset_defaults()


async def _replay(widths: Sequence[int]) -> Mapping[int, str]:
    async with anyio.create_task_group() as group:
        shown = await play(SimulatedShell(widths, Day.begun(group, FluxBehaviour(release_rules=(_BROKEN,)))))
        group.cancel_scope.cancel()
    return shown


async def play(shell: "Shell", charts: str = CHARTS) -> Mapping[int, str]:
    """Have everything typed in a folder with the examples; return what is shown on each screen.

    `charts` is the address of the application's chart.
    """
    lines: dict[int, list[str]] = {width: [] for width in shell.widths}
    with TemporaryDirectory() as folder, chdir(folder):
        shutil.copytree(_EXAMPLES, "examples")
        application = Path("examples", "application-oci.yaml")
        application.write_text(application.read_text(encoding="utf-8").replace(CHARTS, charts), encoding="utf-8")
        for line in re.split(r"(?<!\\)\n", DAY.rstrip()):
            for width, shown in (await shell.does(line)).items():
                lines[width] += shown
    return {width: "".join(f"{_neutral(line)}\n" for line in shown) for width, shown in lines.items()}


def _neutral(line: str) -> str:
    """Replace the number of rights, which every change of a role changes, and which this is not the test of."""
    return re.sub(r"\b\d+ rights$", "all rights", line)


@attrs.define
class Shell(ABC):
    """A terminal on a cluster; commands that only show something are asked once for each of the `widths`."""

    widths: Sequence[int]

    async def does(self, line: str) -> Mapping[int, list[str]]:
        """Return what each screen shows for one line of the story."""
        if line.startswith("$ ") and line.split()[2] in _LOOKS:
            return {width: [line, *await self._typed(line[2:], width)] for width in self.widths}
        shown = await self._done(line)
        return dict.fromkeys(self.widths, shown)

    async def _done(self, line: str) -> list[str]:
        match line[:2]:
            case "$ ":
                return [line, *await self._typed(line[2:], self.widths[0])]
            case "~ ":
                await self.wait(line[2:])
                return [f"# {line[2:]} later"]
            case "! ":
                await self.mend()
                return []
            case _:
                return [line]

    async def _typed(self, text: str, width: int) -> list[str]:
        line = text.replace("\\\n    ", "")
        typed, _, into = line.partition(" > ")
        left, _, right = typed.partition(" | ")
        words = left.split()
        if words[0] == "sed":
            _, old, new, _ = words[1].split("/")
            Path(into).write_text(Path(words[2]).read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
            return []
        if words[0] == "kubectl":
            return await self.kubectl(words, Path(words[-1]).read_text(encoding="utf-8"))
        status, out, err = await self.command(words[1:], width)
        if right:
            assert (status, err) == (0, ""), err
            return await self.kubectl(right.split(), out)
        ended = [f"[exit status {status}]"] if status else []
        return [*out.splitlines(), *err.splitlines(), *ended]

    @abstractmethod
    async def wait(self, text: str) -> None:
        """Let so much time pass."""

    @abstractmethod
    async def mend(self) -> None:
        """Remove the reason for which the upgrade fails."""

    @abstractmethod
    async def command(self, words: Sequence[str], width: int) -> tuple[int, str, str]:
        """Run our command; return its exit status, standard output and standard error."""

    @abstractmethod
    async def kubectl(self, words: Sequence[str], text: str) -> list[str]:
        """Run `kubectl apply` on these manifests; return the lines that it prints."""


@attrs.define
class SimulatedShell(Shell):
    """A terminal on the cluster in this process, under virtual time."""

    day: Day

    async def wait(self, text: str) -> None:
        """Sleep in virtual time."""
        await self.day.clock.sleep(_seconds(text))

    async def mend(self) -> None:
        """Let every release succeed."""
        self.day.flux.behaviour = attrs.evolve(self.day.flux.behaviour, release_rules=())

    async def command(self, words: Sequence[str], width: int) -> tuple[int, str, str]:
        """Run it in a thread."""
        return await self.day.command(words, "", {"COLUMNS": str(width)})

    async def kubectl(self, words: Sequence[str], text: str) -> list[str]:
        """Play it."""
        is_server_side = "--server-side" in words
        return [await self._applied(one, is_server_side) for one in yaml.safe_load_all(text) if one]

    async def _applied(self, manifest: dict[str, Any], is_server_side: bool) -> str:
        registry, meta = self.day.server.registry, manifest["metadata"]
        group, _, _ = manifest["apiVersion"].rpartition("/")
        resource = registry.of_kind(manifest["apiVersion"], manifest["kind"])
        assert resource is not None, manifest["kind"]
        target = RequestTarget(resource, meta.get("namespace"), meta["name"])
        is_new = self._is_new(target)
        manager = "kubectl" if is_server_side else "kubectl-client-side-apply"
        self.day.server.apply(target, manifest, WriteOptions(manager, force=True))
        name = f"{resource.kind.lower()}{f'.{group}' if group else ''}/{meta['name']}"
        return f"{name} {'serverside-applied' if is_server_side else 'created' if is_new else 'configured'}"

    def _is_new(self, target: RequestTarget) -> bool:
        try:
            self.day.server.get(target)
        except ApiFailure:
            return True
        return False


def _seconds(text: str) -> float:
    return timedelta(**{{"s": "seconds", "m": "minutes", "h": "hours"}[text[-1]]: float(text[:-1])}).total_seconds()
