"""Any sequence of applies, forces, updates, drops and deletions by four managers gives what an independent model says.

The model is held against a real server's answers in `test_ssa_model_recorded.py`. `make test-long` runs thousands
of sequences; every surprise becomes an example below.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubelab.model.failure import ApiFailure
from tests.support.ownership_model import Emptied, Model, Refused, Shapes, Spec, normal, owners_of, told
from tests.support.ssa_world import World

THING = Shapes(
    whole=("str", "str2", "mode", "al"), maps=("gm",), sets=("set",), named=("named",), defaults={"mode": "normal"}
)
VALUES = st.sampled_from(["0", "1"])
NAMES = st.sampled_from(["n", "m"])
ITEMS = st.fixed_dictionaries({"name": NAMES}, optional={"v": VALUES, "w": VALUES})
SPECS: st.SearchStrategy[Spec] = st.fixed_dictionaries(
    {},
    optional={
        "str": VALUES,
        "str2": VALUES,
        "mode": st.sampled_from(["normal", "fast"]),
        "gm": st.dictionaries(st.sampled_from(["a", "b"]), VALUES, min_size=1),
        "set": st.lists(st.sampled_from(["x", "y"]), min_size=1, unique=True),
        "named": st.lists(ITEMS, min_size=1, unique_by=lambda item: item["name"]),
        "al": st.lists(VALUES, max_size=2),
    },
)
FIELDS = st.sampled_from(["str", "str2", "mode", "gm", "set", "named", "al"])
MANAGERS = st.sampled_from(["A", "B", "C", "D"])
Act: TypeAlias = tuple[str, str, Spec]


class Both:
    """The server's object and the model's, written to alike and compared after each write."""

    def __init__(self) -> None:
        self.world, self.model = World(), Model(THING)

    def write(self, kind: str, manager: str, spec: Spec) -> bool:
        """Whether the write was accepted, on which both agree."""
        before = self.world.live
        code, held = self._model_writes(kind, manager, spec)
        failure = failure_of(lambda: self._server_writes(kind, manager, spec))
        assert (failure is not None) == bool(held)
        if failure is not None:
            assert failure.status == code
            assert {cause.field for cause in failure.causes} == held
            assert self.world.live == before
        self.agree()
        return failure is None

    def delete(self) -> None:
        self.world.delete()
        self.model.delete()

    def agree(self) -> None:
        if not self.model.exists:
            assert self.world.live is None
            return
        assert normal(self.world.object.get("spec"), THING) == normal(self.model.spec, THING)
        assert owners_of(self.world.entries) == self.model.owners

    def _model_writes(self, kind: str, manager: str, spec: Spec) -> tuple[int, set[str]]:
        """Return the status and the fields of a refusal, which are none if the write is accepted."""
        try:
            if kind == "update":
                self.model.update(manager, spec)
            else:
                self.model.apply(manager, spec, kind == "force")
        except Refused as refused:
            return 409, {told(path, THING) for path in refused.paths}
        except Emptied as emptied:
            return 422, {told(path, THING).removeprefix(".") for path in emptied.paths}
        return 200, set()

    def _server_writes(self, kind: str, manager: str, spec: Spec) -> None:
        world = self.world
        if kind != "update":
            world.apply(manager, spec, force=kind == "force")
        elif world.live is None:
            world.create(manager, spec)
        else:
            body = {**world.object, "spec": spec}
            body["metadata"] = {key: value for key, value in world.meta.items() if key != "managedFields"}
            world.put(manager, body)


def failure_of(act: Callable[[], object]) -> ApiFailure | None:
    try:
        act()
    except ApiFailure as failure:
        return failure
    return None


class Ownership(RuleBasedStateMachine):
    """Four managers write; each remembers what it applied last, and may drop a field of it or say it again."""

    def __init__(self) -> None:
        super().__init__()
        self.both = Both()
        self.applied: dict[str, Spec] = {}

    @rule(manager=MANAGERS, spec=SPECS, force=st.booleans())
    def apply(self, manager: str, spec: Spec, force: bool) -> None:
        self._write("force" if force else "apply", manager, spec)

    @rule(manager=MANAGERS, spec=SPECS)
    def update(self, manager: str, spec: Spec) -> None:
        self._write("update", manager, spec)

    @precondition(lambda self: self.both.model.spec)
    @rule(manager=MANAGERS, field=FIELDS, spec=SPECS)
    def change_one_field(self, manager: str, field: str, spec: Spec) -> None:
        rest = {key: value for key, value in (self.both.model.spec or {}).items() if key != field}
        self._write("update", manager, {**rest, **({field: spec[field]} if field in spec else {})})

    @precondition(lambda self: self.applied)
    @rule(data=st.data(), field=FIELDS)
    def drop(self, data: st.DataObject, field: str) -> None:
        manager = data.draw(st.sampled_from(sorted(self.applied)))
        left = {key: value for key, value in self.applied[manager].items() if key != field}
        self._write("apply", manager, left)

    @precondition(lambda self: self.applied)
    @rule(data=st.data(), force=st.booleans())
    def say_again(self, data: st.DataObject, force: bool) -> None:
        manager = data.draw(st.sampled_from(sorted(self.applied)))
        self._write("force" if force else "apply", manager, self.applied[manager])

    @precondition(lambda self: self.both.model.exists)
    @rule()
    def delete(self) -> None:
        self.both.delete()
        self.applied.clear()

    @invariant()
    def agree(self) -> None:
        self.both.agree()

    def _write(self, kind: str, manager: str, spec: Spec) -> None:
        accepted = self.both.write(kind, manager, spec)
        if kind != "update":
            self.applied[manager] = spec
            if accepted:
                self._means_nothing_the_second_time(kind, manager, spec)

    def _means_nothing_the_second_time(self, kind: str, manager: str, spec: Spec) -> None:
        if not spec:
            return  # an empty spec may be dropped with what it held, and be back, with its defaults, the next time
        before = self.both.world.live
        assert self.both.write(kind, manager, spec)
        assert self.both.world.live == before


TestOwnership = Ownership.TestCase
TestOwnership.settings = settings(stateful_step_count=20)


@pytest.mark.parametrize(
    "acts",
    [
        [
            ("apply", "A", {"named": [{"name": "n"}]}),
            ("update", "B", {"named": [{"name": "n", "v": "1"}]}),
            ("apply", "A", {}),
        ],
        [("update", "A", {"gm": {"a": "0"}}), ("force", "B", {"gm": {"a": "1"}}), ("apply", "B", {})],
        [("apply", "A", {"set": ["x"]}), ("update", "B", {}), ("apply", "C", {"mode": "fast"})],
    ],
)
def test_what_once_surprised(acts: list[Any]) -> None:
    both = Both()
    for kind, manager, spec in acts:
        both.write(kind, manager, spec)
