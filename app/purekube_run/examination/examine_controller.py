"""One examination of a controller of any kind, from the options of the command to the findings."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest
from purekube_http.forwarding import Forwarder, NoAnswer
from purekube_run.examination.controller_case import ControllerCase, Subject, edited_spec
from purekube_run.examination.controller_checks import CHECKS
from purekube_run.examination.examination import cluster_for, open_examination
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.verdicts import Check, Finding
from purekube_run.process.command_line import USAGE, CommandError

NAMES: Final = frozenset({"kubeconfig"})
"""The placeholders in braces that a command may contain."""


@attrs.frozen
class ControllerRequest:
    """The options of one examination of a controller, which `command` starts.

    The checks create `sample`, an object of the controller's kind. `edited` is the sample after an edit of its spec,
    for the checks that need one. `further` are objects that each check needs in its namespace.
    """

    command: OperatorCommand
    sample: Manifest
    edited: Manifest | None = None
    further: Sequence[Manifest] = ()
    kubeconfig: Path | None = None
    crds: Sequence[Manifest] = ()
    simulate: str = ""
    only: tuple[str, ...] = ()
    """The names of the checks to run, or clauses (numbered requirements) for all their checks; empty for all checks."""
    patience: float = 15.0
    keep: bool = False

    @property
    def checks(self) -> Sequence[Check[ControllerCase]]:
        """The checks whose name or clause (numbered requirement) is in `only`, or all checks if `only` is empty."""
        return [each for each in CHECKS.checks if not self.only or {each.clause, each.name} & set(self.only)]

    @property
    def unknown(self) -> Sequence[str]:
        """The words in `only` that are neither a check nor a clause (numbered requirement)."""
        return [each for each in self.only if not any(each in (check.clause, check.name) for check in CHECKS.checks)]


async def examine_controller_with(
    request: ControllerRequest, on_finding: Callable[[Finding], None]
) -> tuple[list[Finding], str]:
    """Run an examination. Return its findings, and the name of the API server for reports.

    `on_finding` is called with each finding as soon as its check ends. Raises CommandError if the kind is not served,
    or the controller does not start.
    """
    async with cluster_for(request.kubeconfig, request.crds, request.simulate) as (config, server):
        forwarder = Forwarder(config)
        try:
            kinds = await _kinds(forwarder, [request.sample, *request.further])
        finally:
            await forwarder.close()
        kind, has_status = kinds[request.sample["apiVersion"], request.sample["kind"]]
        edited = None if request.edited is None else edited_spec(request.sample, request.edited)
        async with open_examination(
            config,
            request.command,
            kind,
            patience=request.patience,
            keep=request.keep,
            lasts=request.kubeconfig is not None,
        ) as examination:
            examination.has = frozenset([*["status"] * has_status, *["edited"] * (edited is not None)])
            examination.played = {
                "subject": Subject(kind, request.sample, edited),
                "further": request.further,
                "kinds": {names: each for names, (each, _) in kinds.items()},
            }
            await examination.start()
            return await examination.run(request.checks, ControllerCase, on_finding), server


async def _kinds(forwarder: Forwarder, manifests: Iterable[Manifest]) -> Mapping[tuple[str, str], tuple[Kind, bool]]:
    """Return the kinds of the manifests, keyed by apiVersion and kind, each with whether it has a status subresource.

    Raises CommandError if the API server does not serve a kind.
    """
    found = {}
    for version, name in {(str(each.get("apiVersion")), str(each.get("kind"))) for each in manifests}:
        resources = await _resources(forwarder, version)
        entry = next((each for each in resources if each["kind"] == name and "/" not in each["name"]), None)
        if entry is None:
            raise CommandError(
                f"--sample: the API server does not serve {name} of {version}; give --crds", status=USAGE
            )
        group, _, bare = version.rpartition("/")
        kind = Kind(group, bare, name, entry["name"], namespaced=entry["namespaced"])
        found[version, name] = kind, any(each["name"] == f"{entry['name']}/status" for each in resources)
    return found


async def _resources(forwarder: Forwarder, version: str) -> list[Any]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        answer = await forwarder.open("GET", path, {"accept": "application/json"}, b"")
        if answer.status == HTTPStatus.NOT_FOUND:
            return []  # with a body that is no JSON: no kind of this group and version is served
        content = await answer.body()
        if answer.status != HTTPStatus.OK:
            raise CommandError(f"the API server answers {path} with {answer.status}: {_message(content)}")
        document = json.loads(content)
    except (NoAnswer, ValueError) as error:
        raise CommandError(f"the API server does not list its resources: {error}") from error
    resources: list[Any] = document.get("resources", [])
    return resources


def _message(content: bytes) -> str:
    """Return the message of a Status, or the beginning of any other body."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")
