"""Asks the laws of the engine at each write of the operator, and ends its process where a story says so."""

import attrs

from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.graph.node import ApplyPolicy, Until
from purekube_run.simulation.faults import Crash
from tests.support.graph_world import MARKS, SHOP, GraphWorld, NodeSpec

ERRORS: dict[str, OperatorError] = {
    "Invalid": Invalid("spec: refused by a test"),
    "Unavailable": Unavailable("no answer"),
    "Forbidden": Forbidden("refused by a webhook"),
}


def is_ready(live: Manifest) -> bool:
    """Whether its controller said so at its generation."""
    status = live.get("status") or {}
    said = get_path(status, "conditions", 0, "type")
    return (status.get("observedGeneration"), said) == (metadata(live).get("generation"), "Ready")


def wave_of(live: Manifest) -> int:
    """The wave recorded on an object."""
    return int(get_path(live, "metadata", "annotations", MARKS.wave) or 0)


@attrs.define
class Witness:
    """The rule of a `RefusingKube`."""

    world: GraphWorld
    refused: tuple[str, str, str] = ("", "", "")
    """Of which node, which verb, and with which error."""
    kill_at: int = 0
    """The number of the call at which the process ends; 0 for none."""
    created: list[ObjectRef] = attrs.field(factory=list)

    def __call__(self, verb: str, ref: ObjectRef) -> OperatorError | None:
        self.kill_at -= 1
        if not self.kill_at:
            raise Crash
        node = ref.name.partition("-")[0]
        if ref.kind == SHOP or verb == "get":
            return None
        if (node, verb) == self.refused[:2]:
            return ERRORS[self.refused[2]]
        self._judge(verb, ref, node)
        return None

    def _judge(self, verb: str, ref: ObjectRef, node: str) -> None:
        live = self.world.live(ref)
        if live is not None and verb != "create":
            assert self._is_ours(live), f"L8: {verb} {ref}"
        if verb == "create":
            self.created.append(ref)
        if verb in ("apply", "create"):
            self._in_order(ref, node)
        if verb == "delete" and live is not None:
            self._may_go(ref, live)

    def _is_ours(self, live: Manifest) -> bool:
        uid = self.world.shop.metadata.uid
        label = get_path(live, "metadata", "labels", MARKS.owner_uid)
        return uid in (label, get_path(live, "metadata", "ownerReferences", 0, "uid"))

    def _in_order(self, ref: ObjectRef, node: str) -> None:
        specs = {spec.id: spec for spec in self.world.decide.nodes}
        for to, until in specs[node].edges if node in specs else ():
            for target in self._refs(specs[to]) if until is not Until.NOTHING else ():
                there = self.world.live(target)
                assert there is not None or self._was_once(specs[to]), f"L4: {ref} before {target}"
                if until is Until.READY and there is not None:
                    assert is_ready(there), f"L4: {ref} before {target} is ready"

    def _refs(self, spec: NodeSpec) -> list[ObjectRef]:
        listed = self.world.shop.manifest["spec"].get("items", {}).get(spec.id, ())
        return [spec.ref(key) for key in listed] if spec.listed else [spec.ref()]

    def _was_once(self, spec: NodeSpec) -> bool:
        return spec.policy is ApplyPolicy.ONCE and any(
            record.node == spec.id and record.uid for record in self.world.shop.records
        )

    def _may_go(self, ref: ObjectRef, live: Manifest) -> None:
        shop, last = self.world.shop, self.world.decide.plans[-1]
        if shop.metadata.deletion_timestamp is not None:
            others = (other for other in self.world.objects.values() if self._is_labelled(other))
        else:
            label = get_path(live, "metadata", "labels", MARKS.node)
            assert label not in self._unknown(), f"L7: {ref} is deleted, and {label} is unknown"
            assert last.is_ready, f"L10: {ref} is deleted before all is ready"
            others = (
                self.world.objects[observation.ref]
                for observation in last.going
                if observation.ref in self.world.objects
            )
        assert wave_of(live) == max(map(wave_of, others)), f"L10, L11: {ref} goes before its turn"

    def _unknown(self) -> set[str]:
        """Nodes of which it is not known what they want."""
        faults = self.world.shop.manifest["spec"].get("fault", {})
        excluded = self._excluded()
        return {node.id for node in self.world.decide.nodes if node.id in faults and node.id not in excluded}

    def _excluded(self) -> set[str]:
        """Nodes that are known not to be wanted: by themselves, or since what their rendering reads is not."""
        spec = self.world.shop.manifest["spec"]
        faults, found = spec.get("fault", {}), set[str]()
        for node in self.world.decide.graph.nodes.values():
            fault = faults.get(node.id, "")
            edges = (edge for edge in self.world.decide.graph.edges[node.id] if edge.until is not Until.NOTHING)
            follows = not fault.startswith("render") and any(edge.to in found for edge in edges)
            if not fault.startswith("include") and (node.id in spec.get("without", ()) or follows):
                found.add(node.id)
        return found

    def _is_labelled(self, live: Manifest) -> bool:
        return bool(get_path(live, "metadata", "labels", MARKS.owner_uid) == self.world.shop.metadata.uid)
