"""Harvests worlds from the tests that build them: `python -m pytest -p tests.corpus.harvest -n 0 tests/property/…`.

A plugin of pytest that looks over the shoulder of every decision and every step of a machine, and writes what was given
and what came of it to the file that `CORPUS_HARVEST` names, one JSON a line; of worlds with the same outcome, but for
numbers, only one. `python -m tests.corpus.choose` takes a small set of them that runs through everything. Neither is
needed to compare: the corpus is data.
"""

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import attrs

from purekube.controller.informer import machine as informer
from purekube.controller.informer.messages import DEFAULT_POLICY, InformerState
from purekube.controller.lease import machine as lease
from purekube.controller.lease.messages import LeaseState
from tests.corpus.neutral import Json, UnsayableError, canonical, decision_data, to_data
from tests.corpus.play import DECISIONS
from vworkspace_core.credentials import machine as rotation
from vworkspace_core.jobs import machine
from vworkspace_core.jobs.scope import JobScope

LARGEST = 40_000
"""Characters of a world: the worst objects are for the tests of bounds."""
MOST_EVENTS = 120

_SEEN: set[str] = set()
_OUT = open(os.environ.get("CORPUS_HARVEST", os.devnull), "a", encoding="utf-8")  # noqa: SIM115


def shape(data: Json) -> str:
    """`data` without its numbers."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", canonical(data))


def _keep(about: str, given: Json, result: Json) -> None:
    key = f"{about} {shape(result)}"
    text = canonical({"of": about, "given": given, "result": result})
    if key not in _SEEN and len(text) < LARGEST:
        _SEEN.add(key)
        _OUT.write(text + "\n")


def _replace(original: Callable[..., Any], watched: Callable[..., Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(("vworkspace_", "tests.")) and name not in (__name__, "tests.corpus.play"):
            for attribute, found in list(vars(module).items()):
                if found is original:
                    setattr(module, attribute, watched)


def _watch_decision(about: str, decide: Callable[..., Any]) -> None:
    def watched(*args: Any) -> Any:
        try:
            given = [to_data(one) for one in args]
        except (UnsayableError, ValueError):
            return decide(*args)
        decision = decide(*args)
        _keep(about, given, decision_data(decision))
        return decision

    _replace(decide, watched)


@attrs.define(eq=False)
class _Node:
    """One state of a machine: how it came to be, and whether it was left again."""

    state: Any
    parent: "_Node | None"
    entry: Json
    effects: Json
    feature: str
    first: Json = None
    left: bool = False


@attrs.define
class _Traces:
    about: str
    nodes: dict[int, _Node] = attrs.field(factory=dict)
    features: set[str] = attrs.field(factory=set)

    def begin(self, state: Any, first: Json, effects: Json) -> None:
        if len(self.nodes) > 5000:
            self.flush()
        self.nodes[id(state)] = _Node(state, None, None, effects, "", first)

    def follow(self, before: Any, after: Any, entry: Json, effects: Json) -> None:
        node = self.nodes.get(id(before))
        if node is None or node.state is not before:
            return
        feature = f"{entry[0].get('~')} {shape(effects)}"
        if after is before:
            node = attrs.evolve(node)
        node.left = True
        self.nodes[id(after)] = _Node(after, node, entry, effects, feature)

    def flush(self) -> None:
        leaves = [node for node in self.nodes.values() if not node.left]
        for leaf in leaves:
            path, node = [leaf], leaf
            while node.parent is not None:
                node = node.parent
                path.append(node)
            path.reverse()
            found = {one.feature for one in path}
            if found <= self.features or len(path) > MOST_EVENTS:
                continue
            self.features |= found
            root = path[0]
            result = [] if root.effects is None else [root.effects]
            result += [one.effects for one in path[1:]]
            _keep(self.about, {**root.first, "happens": [one.entry for one in path[1:]]}, result)
        self.nodes.clear()


_JOBS, _CREDENTIAL, _LEASE, _INFORMER = map(_Traces, ("jobs", "credential", "lease", "informer"))


def _watch_jobs() -> None:
    original = machine.step

    def watched(state: Any, event: Any, now: Any) -> Any:
        after, effects = original(state, event, now)
        try:
            usual = JobScope(state.scope.cluster_id, security=state.scope.security)
            if state == machine.AgentState(usual) and id(state) not in _JOBS.nodes:
                _JOBS.begin(state, {"cluster": usual.cluster_id, "security": to_data(usual.security)}, None)
            told = [*map(to_data, effects), {"next deadline": to_data(machine.next_deadline(after))}]
            _JOBS.follow(state, after, [to_data(event), to_data(now)], told)
        except UnsayableError:
            pass
        return after, effects

    _replace(original, watched)


def _watch_credential() -> None:
    begin, original = rotation.start, rotation.step

    def begun(kept: Any, now: Any, *, jitter: float = 0.0) -> Any:
        state, effects = begin(kept, now, jitter=jitter)
        told = [*map(to_data, effects), {"next deadline": to_data(rotation.next_deadline(state))}]
        _CREDENTIAL.begin(state, {"kept": to_data(kept), "at": to_data(now), "jitter": jitter}, told)
        return state, effects

    def watched(state: Any, event: Any, now: Any) -> Any:
        after, effects = original(state, event, now)
        told = [*map(to_data, effects), {"next deadline": to_data(rotation.next_deadline(after))}]
        _CREDENTIAL.follow(state, after, [to_data(event), to_data(now)], told)
        return after, effects

    _replace(begin, begun)
    _replace(original, watched)


def _watch_lease() -> None:
    original = lease.step

    def watched(state: Any, event: Any, moment: Any) -> Any:
        after, effects = original(state, event, moment)
        names = {"namespace": state.namespace, "name": state.base, "identity": state.identity}
        try:
            first = LeaseState(state.namespace, state.base, state.identity, shard=state.shard)
            if state == first and id(state) not in _LEASE.nodes:
                _LEASE.begin(state, {**names, "shard": str(state.shard), "policy": to_data(moment.policy)}, None)
            entry = [to_data(event), [moment.now, to_data(moment.wall), moment.jitter]]
            _LEASE.follow(state, after, entry, [*map(to_data, effects)])
        except UnsayableError:
            pass
        return after, effects

    _replace(original, watched)


def _watch_informer() -> None:
    original = informer.step

    def watched(state: Any, event: Any, now: float, jitter: float, policy: Any = DEFAULT_POLICY) -> Any:
        after, effects = original(state, event, now, jitter, policy)
        try:
            if state == InformerState() and id(state) not in _INFORMER.nodes:
                _INFORMER.begin(state, {"policy": to_data(policy)}, None)
            _INFORMER.follow(state, after, [to_data(event), [now, jitter]], [*map(to_data, effects)])
        except UnsayableError:
            pass
        return after, effects

    _replace(original, watched)


def pytest_runtest_teardown() -> None:
    """What a test left open is written when it ends."""
    for traces in (_JOBS, _CREDENTIAL, _LEASE, _INFORMER):
        traces.flush()


def pytest_unconfigure() -> None:
    """The file is whole."""
    _OUT.close()


for _about, _decide in DECISIONS.items():
    _watch_decision(_about, _decide)
_watch_jobs()
_watch_credential()
_watch_lease()
_watch_informer()
