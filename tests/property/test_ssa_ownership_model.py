"""Any sequence of applies, updates, forces and drops by four managers gives what an independent model says."""

from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.ownership_model import Model, Refused, Spec, flat
from tests.property.ssa_world import World
from vworkspace_fake.apiserver.failure import ApiFailure

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
STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "force", "update"]), st.sampled_from(["A", "B", "C", "D"]), SPECS),
    min_size=1,
    max_size=12,
)


def normal(spec: Any) -> Any:
    """A spec whose sets and named lists are compared without order."""
    if spec is None:
        return None
    out = dict(spec)
    if "set" in out:
        out["set"] = sorted(out["set"])
    if "named" in out:
        out["named"] = sorted(out["named"], key=lambda item: str(item["name"]))
    return out


def owners(world: World) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    return {
        (entry["manager"], entry["operation"]): (set(flat(fields)) if (fields := entry["fieldsV1"]["f:spec"]) else {()})
        for entry in world.entries
    }


def text(path: tuple[str, ...]) -> str:
    """A path as conflicts print it."""
    if path[0] == "named":
        return f'.spec.named[name="{path[1]}"].{path[2]}'
    return ".".join((".spec", *path))


def act(world: World, kind: str, manager: str, spec: Spec) -> None:
    if kind != "update":
        world.apply(manager, spec, force=kind == "force")
    elif world.live is None:
        world.create(manager, spec)
    else:
        body = {**world.object, "spec": spec}
        body["metadata"] = {key: value for key, value in world.meta.items() if key != "managedFields"}
        world.put(manager, body)


@given(STEPS)
@example(
    [
        ("apply", "A", {"named": [{"name": "n"}]}),
        ("update", "B", {"named": [{"name": "n", "v": "1"}]}),
        ("apply", "A", {}),
    ]
)
@example([("update", "A", {"gm": {"a": "0"}}), ("force", "B", {"gm": {"a": "1"}}), ("apply", "B", {})])
@example([("apply", "A", {"set": ["x"]}), ("update", "B", {}), ("apply", "C", {"mode": "fast"})])
def test_values_and_owners_are_those_of_the_model(steps: list[tuple[str, str, Spec]]) -> None:
    world, model = World(), Model()
    for kind, manager, spec in steps:
        before = world.live
        held = attempt(model, kind, manager, spec)
        failure = failure_of(lambda: act(world, kind, manager, spec))  # noqa: B023 - called at once
        assert (failure is not None) == bool(held)
        if failure is not None:
            assert failure.status == 409
            assert {cause.field for cause in failure.causes} == {text(path) for path in held}
            assert world.live == before
            continue
        assert normal(world.object.get("spec")) == normal(model.spec)
        assert owners(world) == model.owners


def attempt(model: Model, kind: str, manager: str, spec: Spec) -> set[tuple[str, ...]]:
    """Let the model write; the fields that others hold where it may not."""
    try:
        if kind == "update":
            model.update(manager, spec)
        else:
            model.apply(manager, spec, kind == "force")
    except Refused as refused:
        return refused.paths
    return set()


def failure_of(act: Callable[[], object]) -> ApiFailure | None:
    try:
        act()
    except ApiFailure as failure:
        return failure
    return None
