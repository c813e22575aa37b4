"""The execution of scenarios (tests of a box): objects are created, then steps change them or check expectations.

A box is an operator that is defined in YAML.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.inprocess import run_sync
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.boxes.box import Box
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.ports import PatchType
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.cluster import SOMEBODY
from purekube_run.simulation.extensions.box_world import BoxWorld
from purekube_run.simulation.extensions.scenario_file import Scenario, ScenarioStep, seconds_of
from purekube_run.simulation.faults import away, calm
from purekube_run.simulation.world import WorldHotLoop

ENDINGS: Final = {"fail": Ending.FAIL, "stall": Ending.STALL}
SERVERS: Final = {"away": away, "calm": calm}


@attrs.frozen
class Outcome:
    """The result of playing a scenario (a test of a box): `problem` is the expectation that was not met, or "".

    `seconds` is the virtual time that the scenario took, `writes` the number of the box's writes, and `timeline` what
    happened, in lines with times.
    """

    scenario: Scenario
    problem: str
    seconds: float
    writes: int
    timeline: Sequence[str]


OnMoment: TypeAlias = Callable[[BoxWorld, str, ObjectRef, tuple[str, ...]], None]
"""A function that is called at the start of a scenario, after each step, after each pass that wrote, and at the end.

Its arguments are the simulated cluster, the scenario's name, the scenario's subject (the object that it tests), and
messages about the moment.
"""


class Unexpected(Exception):
    """The error raised when the expectation in a step of a scenario is not met."""


# --- running ---------------------------------------------------------------------------------------------------------


def run_scenario(
    box: Box, definitions: Sequence[Manifest], scenario: Scenario, on_moment: OnMoment = lambda *moment: None
) -> Outcome:
    """Play a scenario in a new simulated cluster, and return its result. Raises CommandError if a step is malformed.

    `on_moment` is called at the start, after each step, at the end, and after each reconcile of the object under test
    that wrote something. Its arguments are the cluster, the scenario's name, the object's reference, and messages: a
    text about the step that was just played or the expectation that was not met, if any. `definitions` are the CRDs to
    install.
    """
    with BoxWorld(box, definitions) as world:
        play = _Play(world, scenario)

        def note(*messages: str) -> None:
            on_moment(world, scenario.name, play.subject, messages)

        problem = ""
        try:
            play.begin()
            world.on_pass = lambda ref: note() if ref == play.subject else None
            note("what is given is there")
            for step in scenario.steps:
                play.step(step)
                note(f"step: {step.verb}")
        except (Unexpected, WorldHotLoop) as error:
            problem = str(error)
        except OperatorError as error:
            problem = f"the API server refuses it: {error.message}"
        note(*([problem] if problem else []))
        return Outcome(scenario, problem, play.seconds, world.writes, tuple(world.timeline))


Act: TypeAlias = Callable[["_Play", ScenarioStep, Manifest], None]


class _Play:
    """A running scenario in a simulated cluster. `subject` is the first given object of the box's kind."""

    def __init__(self, world: BoxWorld, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.rules: list[DownstreamRule] = []
        self.began = world.seconds
        self.subject = self._subject()

    @property
    def seconds(self) -> float:
        """The virtual seconds since the scenario began."""
        return self.world.seconds - self.began

    def _subject(self) -> ObjectRef:
        own = self.world.box.kind
        for manifest in self.scenario.given:
            if (manifest.get("apiVersion"), manifest.get("kind")) == (own.api_version, own.kind):
                return self.world.ref(manifest)
        raise CommandError(f"{self.scenario.place}: nothing given is a {own.kind} ({own.api_version})")

    def begin(self) -> None:
        """Create the objects that the scenario gives. Objects of the box's kind are created last."""
        own = self.world.box.kind.kind
        for manifest in sorted(self.scenario.given, key=lambda one: one.get("kind") == own):
            self._create(manifest)

    def step(self, step: ScenarioStep) -> None:
        """Carry out one step. Raises Unexpected if an expectation of the step is not met."""
        match step.verb:
            case "until":
                self._until(step)
            case "after":
                self.world.run(seconds_of(step.value, step.place))
            case "restart":
                self._restart(step)
            case "fault":
                self._fault(step)
            case verb:
                act = _Play._refused if step.refused else _ACTS[verb]
                for manifest in step.objects:
                    act(self, step, manifest)
                self.world.run(0)

    def _refused(self, step: ScenarioStep, manifest: Manifest) -> None:
        """Check that the API server refuses a write, with a message that contains the step's text."""
        ref = self.world.ref(manifest)
        try:
            _ACTS[step.verb](self, step, manifest)
        except OperatorError as error:
            if step.refused not in error.message:
                raise Unexpected(f"{step.place}: {ref} is refused for another reason: {error.message}") from error
            return
        by_webhook = WebhookDuties.of(self.world.box).rules
        hint = f" ({by_webhook} of the box's rules need the webhook, which is not called here)" if by_webhook else ""
        raise Unexpected(f"{step.place}: {ref} is accepted: nothing refuses the {step.verb}{hint}")

    def _gone(self, step: ScenarioStep, manifest: Manifest) -> None:
        if self.world.get(self.world.ref(manifest)) is not None:
            raise Unexpected(f"{step.place}: {self.world.ref(manifest)} is still there")

    def _change(self, step: ScenarioStep, manifest: Manifest) -> None:
        patch = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
        self.world.change(self.world.ref(manifest), patch)
        self._set_status(manifest)

    def _delete(self, step: ScenarioStep, manifest: Manifest) -> None:
        self.world.delete(self.world.ref(manifest))

    def _made(self, step: ScenarioStep, manifest: Manifest) -> None:
        self._create(manifest)

    def _create(self, manifest: Manifest) -> None:
        ref = self.world.ref(manifest)
        meta = {**metadata(manifest), **({"namespace": ref.namespace} if ref.namespace else {})}
        self.world.create({**manifest, "metadata": meta}, ref.kind)
        self._set_status(manifest)

    def _set_status(self, manifest: Manifest) -> None:
        """Merge the status in a scenario's object into its status subresource, which other writes leave alone."""
        if not isinstance(manifest.get("status"), Mapping):
            return
        with suppress(NotFound):  # the kind has no such subresource: the status was written with the rest
            patch, ref = {"status": manifest["status"]}, self.world.ref(manifest)
            run_sync(
                self.world.admin.patch(
                    ref, patch, patch_type=PatchType.MERGE, field_manager=SOMEBODY, subresource="status"
                )
            )

    def _until(self, step: ScenarioStep) -> None:
        holds, what = self._question(step)
        if self.world.until(holds, step.within):
            return
        ready = condition_of(self.world.get(self.subject), "Ready")
        said = f"Ready={ready.get('status')}/{ready.get('reason')}: {ready.get('message')}" if ready else "no status"
        raise Unexpected(f"{step.place}: {self.subject} is not {what} within {step.within:g} s: {said}")

    def _question(self, step: ScenarioStep) -> tuple[Callable[[], bool], str]:
        world, subject = self.world, self.subject
        match step.value:
            case "gone":
                return (lambda: world.get(subject) is None), "gone"
            case str() as kind:
                return (lambda: self._holds(kind, {"status": "True"})), kind
            case {"condition": str() as kind}:
                desired = {str(key): value for key, value in step.value.items() if key != "condition"}
                return (lambda: self._holds(kind, desired)), f"{kind} with {desired}"
            case _:
                raise CommandError(
                    f"{step.place}: until takes a type of condition, `gone`, or {{condition, status, reason}}"
                )

    def _holds(self, kind: str, desired: Mapping[str, Any]) -> bool:
        """Report whether the subject's condition `kind` is up to date and has the fields in `desired`."""
        live = self.world.get(self.subject)
        condition = condition_of(live, kind)
        current = condition.get("observedGeneration") == get_path(live, "metadata", "generation")
        return (
            bool(condition) and current and all(str(condition.get(key)) == str(value) for key, value in desired.items())
        )

    def _expect(self, step: ScenarioStep, manifest: Manifest) -> None:
        live = self.world.get(self.world.ref(manifest))
        if live is None:
            raise Unexpected(f"{step.place}: {self.world.ref(manifest)} does not exist")
        if problem := next(differences(manifest, live, ""), ""):
            raise Unexpected(f"{step.place}: {self.world.ref(manifest)}: {problem}")

    def _fault(self, step: ScenarioStep) -> None:
        """Apply a fault such as `{server: away}` or `{of: Deployment/shop, pods: stall}`.

        The value `none` ends all faults.
        """
        match step.value:
            case "none":
                self.rules = []
                self.world.set_faults(calm)
            case {"server": str() as how} if how in SERVERS:
                self.world.set_faults(SERVERS[how])
            case {"of": str() as of, "pods": str() as how} if how in ENDINGS:
                kind, _, name = of.partition("/")
                self.rules.append(DownstreamRule(DownstreamOutcome(ENDINGS[how]), kind=kind, name=name or None))
            case _:
                raise CommandError(
                    f"{step.place}: a fault is none, {{server: away}} or {{of: Kind/name, pods: fail|stall}}"
                )
        self.world.workloads.behaviour = DownstreamBehaviour(rules=tuple(self.rules))
        self.world.run(0)

    def _restart(self, step: ScenarioStep) -> None:
        """Restart the process, and check that it writes nothing."""
        self.world.run(0)
        before = self.world.writes
        self.world.restart()
        self.world.run(0)
        if self.world.writes != before:
            raise Unexpected(f"{step.place}: after a restart {self.world.writes - before} writes were made")


_ACTS: Final[Mapping[str, Act]] = {
    "expect": _Play._expect,
    "gone": _Play._gone,
    "change": _Play._change,
    "create": _Play._made,
    "delete": _Play._delete,
}


def differences(desired: Any, live: Any, path: str) -> Iterator[str]:
    """Yield a text for each difference of `live` from `desired`.

    Each text names the field, by its path below `path`. Mappings in `live` may have more keys. Lists must have the same
    length and order.
    """
    match desired:
        case Mapping():
            for key, value in desired.items():
                here = f"{path}.{key}" if path else str(key)
                if not isinstance(live, Mapping) or key not in live:
                    yield f"{here} is absent"
                else:
                    yield from differences(value, live[key], here)
        case list() if isinstance(live, list) and len(live) == len(desired):
            for at, (one, other) in enumerate(zip(desired, live, strict=True)):
                yield from differences(one, other, f"{path}[{at}]")
        case list():
            yield f"{path} has {len(live) if isinstance(live, list) else 'no'} items, not {len(desired)}"
        case _:
            if desired != live or isinstance(desired, bool) is not isinstance(live, bool):
                yield f"{path} is {live!r}, not {desired!r}"
