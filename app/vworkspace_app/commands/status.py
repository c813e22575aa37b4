"""The command `status`, which shows the state of all managed objects, or of one object and its children (SEE-1)."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

import anyio
import attrs

from purekube.apimachinery.manifest import Kind, ref_of
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import format_time
from purekube.ports import KubeApi
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared import session
from vworkspace_app.commands.shared.options import Kubeconfig, SystemNamespace
from vworkspace_app.commands.shared.session import form_of
from vworkspace_app.overview.fleet_watch import FollowedObjects
from vworkspace_app.overview.reading import (
    ObjectContext,
    OwnObjects,
    PermittedReader,
    boxes_of,
    kinds_by_word,
    kinds_of_boxes,
    read_object_context,
    read_own_objects,
)
from vworkspace_app.overview.text import Screen, footer, list_table, object_report
from vworkspace_app.verbs import find_named_object, is_known
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.overview.origin import origin_data, origin_of
from vworkspace_core.overview.page_paths import page_link
from vworkspace_core.overview.summary import redacted_summary, summary_of
from vworkspace_core.overview.tree import (
    Branch,
    Workers,
    at_work,
    branch_data,
    heartbeat_of,
    shard_data,
    state_counts,
    summary_data,
)

if TYPE_CHECKING:
    from purekube.boxes.box import Box

_NO_SCREEN: Final = Screen()


async def _show(
    name: str,
    namespace: str | None,
    files: Sequence[str],
    form: Format | None,
    system_namespace: str,
    watch: bool,
    page_url: str,
    api: KubeApi,
) -> None:
    boxes = await boxes_of(api, files)
    if name:
        await _show_object(api, name, namespace, boxes, form, page_url, watch=watch)
        return
    kinds = await _kinds(api, boxes)
    if watch:
        await FollowedObjects(api, namespace, system_namespace, kinds).run(_redraw)
        return
    own_objects = await read_own_objects(api, namespace=namespace, system_namespace=system_namespace, boxes=kinds)
    print(list_text(own_objects, form, session.now(), Screen.of_output()), end="")
    if page_url and form is None:
        print(f"page: {page_url}")


async def _kinds(api: KubeApi, boxes: "Sequence[Box]") -> tuple[Kind, ...]:
    """Return the kinds of the given boxes, and the cluster's kinds whose CRD is labelled as a box's or controller's
    kind.

    Each CRD has one kind: that of a given box, which may be of another version than the CRD stores.
    """
    kinds = (*await kinds_of_boxes(PermittedReader(api)), *(box.kind for box in boxes))
    return tuple({kind.crd_name: kind for kind in kinds}.values())


def _redraw(own_objects: OwnObjects) -> None:
    clear = "\x1b[2J\x1b[H" if sys.stdout.isatty() else ""
    print(clear + list_text(own_objects, None, session.now(), Screen.of_output()), flush=True)


async def _show_object(
    api: KubeApi,
    name: str,
    namespace: str | None,
    boxes: "Sequence[Box]",
    form: Format | None,
    page_url: str,
    *,
    watch: bool,
) -> None:
    words = await _kinds_by_name(api, name, boxes)
    while True:
        kind, manifest = await find_named_object(api, name, namespace, words)
        box = next((each for each in boxes if each.kind.crd_name == kind.crd_name), None)
        around = await read_object_context(api, kind, manifest, box, now=session.now())
        link = page_link(page_url, ref_of(manifest, kind))
        print(object_text(around, form, session.now(), link, Screen.of_output()), end="", flush=True)
        if not watch:
            return
        await anyio.sleep(2.0)
        print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "")


async def _kinds_by_name(api: KubeApi, name: str, boxes: "Sequence[Box]") -> Mapping[str, Kind]:
    """Return the kinds that `name` may refer to, apart from the operator's own, keyed by the words that kubectl accepts
    for them.

    For a name of the form WORD/NAME these are the cluster's kinds that are called WORD. For a plain name these are the
    kinds of boxes.
    """
    word, slash, _ = name.lower().partition("/")
    if slash:
        return {} if is_known(word) else await kinds_by_word(PermittedReader(api), word)
    return {kind.crd_name: kind for kind in await _kinds(api, boxes)}


def list_text(own_objects: OwnObjects, form: Format | None, now: datetime, screen: Screen = _NO_SCREEN) -> str:
    """Return the list of `own_objects` (instances, Operations, Clusters, objects of boxes) with their states, as text.

    `now` is the present time, for the ages of states. The text is data in the format `form`, or lines wrapped to the
    screen if `form` is None.
    """
    summaries = [redacted_summary(summary_of(kind, manifest)) for kind, manifest in own_objects.objects]
    beat = heartbeat_of(manifest for kind, manifest in own_objects.objects if kind == CLUSTER)
    workers = Workers(at_work(own_objects.leases, own_objects.lease_name, now), beat)
    if form is not None:
        told = {"objects": [summary_data(each) for each in summaries], "counts": state_counts(summaries)}
        heartbeat = {} if beat is None else {"heartbeat": format_time(beat)}
        operators = [shard_data(each) for each in workers.shards]
        return dump([{**told, "operators": operators, **heartbeat, "notShown": list(own_objects.unreadable)}], form)
    table = [*list_table(summaries, now, screen), ""] if summaries else []
    below = footer(summaries, workers, own_objects.unreadable, now)
    return _text([*table, *(line for each in below for line in screen.folded(each))])


def object_text(
    around: ObjectContext, form: Format | None, now: datetime, link: str = "", screen: Screen = _NO_SCREEN
) -> str:
    """Return the state of one object and of its children, all of which `around` has, as text.

    `now` is the present time, for the ages of states. The text is data in the format `form`, or lines wrapped to the
    screen if `form` is None. `link` is the address of the object's page, or empty if it has none.
    """
    branch = _redacted(around.tree(now))
    if form is not None:
        asked = origin_data(origin_of(around.manifest))
        page = {"page": link} if link else {}
        return dump([{"askedForBy": asked, **branch_data(branch), **page, "notShown": list(around.unreadable)}], form)
    return _text([*object_report(branch, around, now, screen), *([f"Page: {link}"] if link else [])])


def _redacted(branch: Branch) -> Branch:
    """Return the tree without secrets and control characters in its texts, which may be those of a chart."""
    children = tuple(map(_redacted, branch.children))
    return attrs.evolve(branch, summary=redacted_summary(branch.summary), runs=safe(branch.runs), children=children)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Only this namespace; else all of them.")]


def status(
    name: Annotated[str, Parameter(help="One object, NAME or KIND/NAME; else everything.")] = "",
    *,
    namespace: Namespace = "",
    watch: Annotated[bool, Parameter(name=("--watch", "-w"), help="Go on, and show each change.", negative="")] = False,
    output: Annotated[
        Literal["table", "yaml", "json"], Parameter(name=("--output", "-o"), help="table (and tree), yaml or json.")
    ] = "table",
    box: Annotated[
        list[str] | None, Parameter(help="File with a box: every node of its objects is shown; repeatable.")
    ] = None,
    system_namespace: SystemNamespace = "vworkspace-system",
    page_url: Annotated[
        str, Parameter(help="Base URL of the page, for a link to it.", env_var="VWORKSPACE_PAGE_URL")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the state of instances, Operations, the cluster and objects of boxes, with reason, age and remedy.

    For one object it shows also who requested the object, everything that was made of it, and its last Events. For an
    object of a box, with the box's file, it shows also the nodes that wait, and for what. The command works without a
    running operator, and says if none runs. Examples:

        vworkspace-operator status
        vworkspace-operator status -w
        vworkspace-operator status nextcloud-myteam
        vworkspace-operator status operation/nightly-backup -n org-myteam -o json
        vworkspace-operator status webapp/shop --box webapp.yaml
    """
    form = form_of(output)
    if watch and form is not None:
        raise CommandError("--watch prints tables; leave -o away, or watch with kubectl", status=USAGE)
    shown = partial(_show, name, namespace or None, box or (), form, system_namespace, watch, page_url)
    session.at_cluster(kubeconfig, shown)
