"""`status`: how everything of the operator's stands, or one object with what was made of it (SEE-1)."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import attrs

from vworkspace_app.controller.named_objects import the_one
from vworkspace_app.install.options import NAME
from vworkspace_app.overview.reading import Fleet, Surroundings, read_fleet, surroundings
from vworkspace_app.overview.text import WIDEST, console, fleet_table, footer, object_report
from vworkspace_app.overview.watching import Following
from vworkspace_app.process.errors import USAGE, CommandError
from vworkspace_app.process.yaml_documents import Format, dump
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.overview.data import branch_data, counts, shard_data, summary_data
from vworkspace_core.overview.replicas import at_work
from vworkspace_core.overview.summary import Summary, summary_of
from vworkspace_core.overview.tree import origin_of, tree_of
from vworkspace_core.ports import KubeApi
from vworkspace_kube import KubeApiClient, load_config


@attrs.frozen
class StatusOptions:
    """The options of `status`; `form` is None for tables and trees."""

    name: str
    namespace: str | None
    watch: bool
    form: Format | None
    system_namespace: str
    kubeconfig: Path | None


def run_status(options: StatusOptions) -> None:
    """Print it, once or until a signal. Raises CommandError."""
    if options.watch and options.form is not None:
        raise CommandError("--watch prints tables; leave -o away, or watch with kubectl", status=USAGE)
    try:
        config = load_config(options.kubeconfig)
        anyio.run(_run, options, config)
    except OperatorError as error:
        raise CommandError(error.message) from error


async def _run(options: StatusOptions, config: Any) -> None:
    async with KubeApiClient(config) as api:
        if options.name:
            await _tell_object(api, options)
        elif options.watch:
            await _follow_fleet(api, options)
        else:
            fleet = await read_fleet(api, namespace=options.namespace, system_namespace=options.system_namespace)
            print(fleet_text(fleet, options.form, datetime.now(UTC), width=columns()), end="")


async def _follow_fleet(api: KubeApi, options: StatusOptions) -> None:
    def show(fleet: Fleet) -> None:
        clear = "\x1b[2J\x1b[H" if sys.stdout.isatty() else ""
        print(clear + fleet_text(fleet, None, datetime.now(UTC), width=columns()), flush=True)

    await Following(api, options.namespace, options.system_namespace).run(show)


async def _tell_object(api: KubeApi, options: StatusOptions) -> None:
    while True:
        around = await surroundings(api, *await the_one(api, options.name, options.namespace))
        print(object_text(around, options.form, datetime.now(UTC), width=columns()), end="", flush=True)
        if not options.watch:
            return
        await anyio.sleep(2.0)
        print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "")


def fleet_text(fleet: Fleet, form: Format | None, now: datetime, *, width: int = WIDEST) -> str:
    """The fleet as it is asked for, folded to so many columns."""
    summaries = [summary_of(kind, manifest) for kind, manifest in fleet.objects]
    shards = at_work(fleet.leases, NAME, now)
    if form is not None:
        told = {"objects": [summary_data(each) for each in summaries], "counts": counts(summaries)}
        operators = [shard_data(each) for each in shards]
        return dump([{**told, "operators": operators, "notShown": list(fleet.unreadable)}], form)
    return _printed([*_table_if_any(summaries, now), footer(summaries, shards, fleet.unreadable, now)], width)


def _table_if_any(summaries: Sequence[Summary], now: datetime) -> Sequence[Any]:
    return [fleet_table(summaries, now), ""] if summaries else []


def object_text(around: Surroundings, form: Format | None, now: datetime, *, width: int = WIDEST) -> str:
    """One object as it is asked for, folded to so many columns."""
    branch = tree_of(around.kind, around.manifest, around.objects)
    if form is not None:
        origin = origin_of(around.manifest)
        asked = {"job": origin.job} if origin.job else {"manager": origin.manager}
        return dump([{"askedForBy": asked, **branch_data(branch), "notShown": list(around.unreadable)}], form)
    return _printed([object_report(branch, around, now)], width)


def columns() -> int:
    """How wide the screen is. What is piped into another program is not folded, unless COLUMNS asks for it."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return os.get_terminal_size().columns if sys.stdout.isatty() else WIDEST


def _printed(parts: Sequence[Any], width: int) -> str:
    screen = console(width)
    with screen.capture() as captured:
        for part in parts:
            screen.print(part)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
