"""A day with an operator, as it is typed: what a person does, and what is shown. `replayed` carries it out.

Lines that begin with `#` are what the person thinks, `~ 5m` lets time pass. Everything else is a command. Ours runs as
it is; of kubectl there is what the story needs, played on the same cluster.
"""

import re
import shutil
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
_FAILURE: Final = "post-upgrade hooks failed: 1 error occurred:\n\t* job podinfo-migrate failed: BackoffLimitExceeded"
_BROKEN: Final = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, _FAILURE), action=Action.UPGRADE, version="6.8.0")

DAY: Final = """\
# Flux runs in the cluster. Is all there that the operator needs?
$ vworkspace-operator check --pre

# Then install it: the definitions first, the operator next.
$ vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -
$ vworkspace-operator manifests --no-agent --cluster-id cluster-prod-1 \\
    --image registry.example.com/vworkspace-operator:1 | kubectl apply --server-side -f -
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
    """What was shown on a screen of so many columns."""
    return HERE / f"{width}.txt"


@cache
def replayed() -> Mapping[int, str]:
    """The whole day, as it is shown on each screen."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        return anyio.run(_told, backend_options={"loop_factory": virtual_loop()})
    except BaseExceptionGroup as group:
        raise alone(group) from None
    finally:
        structlog.reset_defaults()


async def _told() -> Mapping[int, str]:
    lines: dict[int, list[str]] = {width: [] for width in WIDTHS}
    with TemporaryDirectory() as folder, chdir(folder):
        shutil.copytree(_EXAMPLES, "examples")
        async with anyio.create_task_group() as group:
            shell = _Shell(Day.begun(group, FluxBehaviour(release_rules=(_BROKEN,))))
            for line in re.split(r"(?<!\\)\n", DAY.rstrip()):
                for width, shown in (await shell.does(line)).items():
                    lines[width] += shown
            group.cancel_scope.cancel()
    return {width: "".join(f"{_neutral(line)}\n" for line in shown) for width, shown in lines.items()}


def _neutral(line: str) -> str:
    """How many rights there are, every change of a role changes; this is not the test of it."""
    return re.sub(r"\b\d+ rights$", "all rights", line)


@attrs.define
class _Shell:
    day: Day

    async def does(self, line: str) -> Mapping[int, list[str]]:
        """What stands on each screen for one line of the story."""
        if line.startswith("$ ") and line.split()[2] in _LOOKS:
            return {width: [line, *await self._typed(line[2:], width)] for width in WIDTHS}
        shown = await self._done(line)
        return dict.fromkeys(WIDTHS, shown)

    async def _done(self, line: str) -> list[str]:
        match line[:2]:
            case "$ ":
                return [line, *await self._typed(line[2:], WIDTHS[0])]
            case "~ ":
                await self.day.clock.sleep(_seconds(line[2:]))
                return [f"# {line[2:]} later"]
            case "! ":
                self.day.flux.behaviour = attrs.evolve(self.day.flux.behaviour, release_rules=())
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
            return await self._kubectl(words, Path(words[-1]).read_text(encoding="utf-8"))
        status, out, err = await self.day.command(words[1:], "", {"COLUMNS": str(width)})
        if right:
            assert (status, err) == (0, ""), err
            return await self._kubectl(right.split(), out)
        ended = [f"[exit status {status}]"] if status else []
        return [*out.splitlines(), *err.splitlines(), *ended]

    async def _kubectl(self, words: Sequence[str], text: str) -> list[str]:
        """`kubectl apply`, with what it says of each object."""
        is_server_side = "--server-side" in words
        return [await self._applied(one, is_server_side) for one in yaml.safe_load_all(text) if one]

    async def _applied(self, manifest: dict[str, Any], is_server_side: bool) -> str:
        registry, meta = self.day.server.registry, manifest["metadata"]
        group, _, _ = manifest["apiVersion"].rpartition("/")
        resource = registry.of_kind(manifest["apiVersion"], manifest["kind"])
        assert resource is not None, manifest["kind"]
        target = RequestTarget(resource, meta.get("namespace"), meta["name"])
        is_new = self._is_new(target)
        self.day.server.apply(target, manifest, WriteOptions("kubectl", force=True))
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
