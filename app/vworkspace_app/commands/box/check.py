"""The command `box check`, which reports all problems in box files."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.problems import amount
from purekube.boxes.box import Box
from purekube.boxes.read import BoxProblem
from purekube.boxes.schemas import CrdVersions
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube_run.boxes.installed import installed_definitions, missing_definitions
from purekube_run.boxes.load import LoadedBox, as_json, load_boxes
from purekube_run.process.command_line import FAILURE, CommandError
from purekube_run.versions.round_trips import RoundTrips, round_trips
from vworkspace_app import USER_AGENT
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds

_ORPHANS: Final = "Strict leaves owner references off: who takes the finalizer off by hand orphans the children"


@attrs.frozen(eq=False)
class _Checked:
    """The result of checking a box file: the box, its problems, and the tests of conversions between its kind's
    versions.
    """

    loaded: LoadedBox
    conversions: tuple[RoundTrips, ...] = ()

    @property
    def problems(self) -> tuple[BoxProblem, ...]:
        failed = (conversion.problem for conversion in self.conversions if conversion.problem is not None)
        return (*self.loaded.problems, *failed)

    @property
    def notes(self) -> tuple[BoxProblem, ...]:
        """The notes on choices in the box that are allowed but have a disadvantage."""
        box = self.loaded.box
        place = self.loaded.places.at("spec.deletion.order")
        return (BoxProblem(place, _ORPHANS),) if box is not None and box.strict_order else ()


def check_boxes(files: Sequence[str], crds: Sequence[Path], output: str, kubeconfig: Path | None = None) -> int:
    """Print the problems in box files, and return the exit status.

    `crds` are files with further CRDs, `output` is `text` or `json`. With `kubeconfig`, CRDs that are in no file are
    read from that cluster. Raises CommandError for files that cannot be read, and for a cluster that does not answer.
    """
    loaded = load_boxes(files, crds)
    if kubeconfig is not None and (names := missing_definitions(loaded)):
        loaded = load_boxes(files, crds, _installed(kubeconfig, names))
    checked = [_checked(one) for one in loaded]
    print(_json(checked) if output == "json" else "\n".join(line for one in checked for line in _lines(one)))
    return FAILURE if any(one.problems for one in checked) else 0


def _installed(kubeconfig: Path, names: Sequence[str]) -> list[CrdVersions]:
    import anyio

    from purekube_http import KubeApiClient, load_config

    async def ask() -> list[CrdVersions]:
        async with KubeApiClient(load_config(kubeconfig), user_agent=USER_AGENT) as api:
            return await installed_definitions(api, names)

    try:
        return anyio.run(ask)
    except OperatorError as error:
        raise CommandError(f"--kubeconfig {kubeconfig}: {error.message}") from error


def _checked(loaded: LoadedBox) -> _Checked:
    if loaded.box is None or loaded.crd is None:
        return _Checked(loaded)
    return _Checked(loaded, tuple(round_trips(loaded.box, loaded.crd, loaded.places.at)))


def _lines(checked: _Checked) -> Iterable[str]:
    one = checked.loaded
    yield from map(str, checked.problems)
    yield from (f"{warning.place}: warning: {warning.message}" for warning in one.warnings)
    yield from (f"{note.place}: note: {note.message}" for note in checked.notes)
    if one.box is None or checked.problems:
        yield f"{one.file}: {amount(len(checked.problems), 'error')}, {amount(len(one.warnings), 'warning')}"
        return
    expressions = f"{amount(one.examination.expressions, 'expression')} checked"
    yield f"{one.file}: ok: {summary(one.box)}, {expressions}{order(one.box)}"
    if told := admitted(one.box):
        yield f"  {told}"
    named = (
        ("not checked", one.examination.unchecked),
        ("kinds whose fields are unknown", one.examination.untyped),
    )
    found = [f"{what}: {', '.join(which)}" for what, which in named if which]
    if found or checked.conversions:
        yield f"  {'; '.join((*found, *map(str, checked.conversions)))}"


def admitted(box: Box) -> str:
    """Return a string with the number of rules and defaults that the CRD enforces, and the tasks of the box's webhook.

    A webhook converts versions, checks rules that a CRD cannot check, and fills in computed fields. The text is empty
    if the box has no rules or defaults in its CRD and needs no webhook.
    """
    rules, defaults = sum(rule.in_crd for rule in box.rules), sum(mutation.is_default for mutation in box.mutations)
    in_crd = [amount(number, what) for number, what in ((rules, "rule"), (defaults, "default")) if number]
    duties = WebhookDuties.of(box)
    parts = [f"{', '.join(in_crd)}, which `box manifests --crds-only` writes into the CRD"] if in_crd else []
    return "; ".join([*parts, *([f"by the webhook: {duties}"] if duties else [])])


def summary(box: Box) -> str:
    """Return a string that counts a box's resources, externals and drains.

    Externals are objects that the box only reads, drains are resources that run before the others are deleted.
    """
    drains = sum(map(len, box.drains))
    parts = [amount(len(box.nodes), "resource")]
    parts += [amount(len(box.externals), "external")] if box.externals else []
    parts += [amount(drains, "drain")] if drains else []
    return ", ".join(parts)


def order(box: Box) -> str:
    """Return a string with the resource ids in the order in which they are applied, such as `; order: a b, then c`.

    Here `a` and `b` are applied together, and `c` after them. The text is empty for a box without resources.
    """
    waves = sorted({node.wave for node in box.nodes})
    ids = [" ".join(node.id for node in box.nodes if node.wave == wave) for wave in waves]
    return f"; order: {', then '.join(ids)}" if ids else ""


def _json(checked: Sequence[_Checked]) -> str:
    return json.dumps([_result_data(one) for one in checked], indent=2)


def _result_data(checked: _Checked) -> dict[str, Any]:
    one = checked.loaded
    told = [as_json(problem, "error") for problem in checked.problems]
    told += [as_json(warning, "warning") for warning in one.warnings]
    told += [as_json(note, "note") for note in checked.notes]
    return {
        "file": one.file,
        "ok": not checked.problems,
        "problems": told,
        "expressions": one.examination.expressions,
        "unchecked": list(one.examination.unchecked),
        "kindsWithoutSchema": list(one.examination.untyped),
        "admission": "" if one.box is None else admitted(one.box),
        "conversions": [
            {"version": trip.version, "storage": trip.storage, "roundTrips": trip.held} for trip in checked.conversions
        ],
    }


Files = Annotated[list[str], Parameter(help="Files with one box each, next to their CRDs.")]


def check(
    files: Files,
    /,
    *,
    crds: Crds = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Kubeconfig of a cluster whose CRDs are read where no file brings them.")
    ] = None,
    output: Annotated[Literal["text", "json"], Parameter(name=("--output", "-o"), help="Form of the answer.")] = "text",
) -> int:
    """Report every problem in boxes, with file, line and column, without a cluster.

    Expressions are checked against the fields of the CRDs and of built-in kinds. Exit status 1 says that a box cannot
    be run. Examples:

        vworkspace-operator box check webapp.yaml
        vworkspace-operator box check boxes/*.yaml --crds crds/ -o json
        vworkspace-operator box check webapp.yaml --kubeconfig kc
    """
    return check_boxes(files, crds or [], output, kubeconfig)
