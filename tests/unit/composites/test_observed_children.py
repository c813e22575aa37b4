"""What is read for a composite's parent: children, externals, its namespace, the peers of it (PH-9, RUN-12)."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Forbidden, KindMissing, NotFound, Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET
from purekube.composites.composite import SecretUse
from purekube.composites.observe import observe_live, selects
from tests.support.composites import GADGET, PLANET, Read, composite, recording

LABELS = {"metadata": {"labels": {"tier": "web", "zone": ""}}}


def asking(key: Any, operator: Any, *values: str) -> dict[str, Any]:
    """A selector with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "manifest", "is_selected"),
    [
        (None, None, True),
        ({}, None, True),
        ({"matchLabels": {}}, None, True),
        ({"matchLabels": None, "matchExpressions": None}, LABELS, True),
        ({"matchLabels": {"tier": "web"}}, LABELS, True),
        ({"matchLabels": {"tier": "db"}}, LABELS, False),
        ({"matchLabels": {"tier": "web", "zone": "a"}}, LABELS, False),
        ({"matchLabels": {"tier": "web"}}, None, False),
        ({"matchLabels": {"tier": "web"}}, {"metadata": {"labels": None}}, False),
        (asking("tier", "In", "db", "web"), LABELS, True),
        (asking("tier", "In", "db"), LABELS, False),
        (asking("tier", "In"), LABELS, False),
        (asking("other", "In", "web"), LABELS, False),
        (asking("tier", "NotIn", "db"), LABELS, True),
        (asking("tier", "NotIn", "db", "web"), LABELS, False),
        (asking("other", "NotIn", "web"), LABELS, True),
        (asking("zone", "Exists"), LABELS, True),
        (asking("other", "Exists"), LABELS, False),
        (asking("zone", "DoesNotExist"), LABELS, False),
        (asking("other", "DoesNotExist"), LABELS, True),
        (asking("tier", "Gt", "web"), LABELS, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In"}]}, LABELS, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn"}]}, LABELS, True),
        ({"matchLabels": {"tier": "web"}, **asking("zone", "Exists")}, LABELS, True),
        ({"matchLabels": {"tier": "web"}, **asking("other", "Exists")}, LABELS, False),
        ({"matchLabels": {"tier": "db"}, **asking("zone", "Exists")}, LABELS, False),
        ({"matchExpressions": [*asking("zone", "Exists")["matchExpressions"], {"key": "tier"}]}, LABELS, False),
    ],
)
def test_a_selector_holds_where_each_label_and_each_expression_does(
    selector: Mapping[str, Any] | None, manifest: Manifest | None, is_selected: bool
) -> None:
    assert selects(selector, manifest) is is_selected


# --- what is read ----------------------------------------------------------------------------------------------------


@attrs.frozen
class _Page:
    items: tuple[Manifest, ...]


@attrs.define
class Answers:
    """A server of which each kind is listed, or refused; it notes what it was asked."""

    listed: Mapping[Kind, tuple[Manifest, ...] | Exception]
    found: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    asked: list[Any] = attrs.field(factory=list)

    async def list(self, kind: Kind, **how: Any) -> _Page:
        self.asked.append((kind, how))
        answer = self.listed[kind]
        if isinstance(answer, Exception):
            raise answer
        return _Page(answer)

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        self.asked.append((ref, metadata_only))
        if ref not in self.found:
            raise NotFound("there is none")
        return self.found[ref]


def observed(server: Any, **more: Any) -> Any:
    """The snapshot of a parent that recorded GADGET, of a composite with ConfigMaps."""
    described = composite(**{"child_kinds": (CONFIG_MAP,), **more})
    return run_sync(observe_live(server, described, recording(CONFIG_MAP, GADGET, of=described)))


CHILD = CONFIG_MAP.manifest("one", "team")
RIGHT = Right("list", "example.org", "gadgets", user="mary")
REFUSED = 'User "mary" cannot list resource "gadgets" in API group "example.org" at the cluster scope'
SELECTOR = "box.example.com/owner-uid=u-1"


def how(namespace: str | None = "team", metadata_only: bool = False) -> dict[str, Any]:
    """How children are listed."""
    return {"namespace": namespace, "label_selector": SELECTOR, "metadata_only": metadata_only}


def test_children_of_present_and_of_recorded_kinds_are_listed_by_the_uid_of_their_parent() -> None:
    server = Answers({CONFIG_MAP: (CHILD,), GADGET: KindMissing("it is gone")})
    found = observed(server)
    assert server.asked == [(CONFIG_MAP, how()), (GADGET, how())]
    assert found.objects == {ObjectRef(CONFIG_MAP, "team", "one"): CHILD}
    assert (found.missing_kinds, found.hidden_kinds) == ({GADGET}, {})
    assert (found.namespace, found.peers, found.failures) == (None, frozenset(), ())


def test_a_former_kind_that_may_not_be_listed_is_hidden_and_a_present_one_an_error() -> None:
    refused = Forbidden(REFUSED)
    found = observed(Answers({CONFIG_MAP: (CHILD,), GADGET: refused}))
    assert (found.hidden_kinds, found.missing_kinds) == ({GADGET: RIGHT}, frozenset())
    assert set(found.objects) == {ObjectRef(CONFIG_MAP, "team", "one")}
    wrong: tuple[dict[Kind, Any], ...] = (
        {CONFIG_MAP: refused, GADGET: ()},
        {CONFIG_MAP: (CHILD,), GADGET: Forbidden("a quota")},
    )
    for listed in wrong:
        with pytest.raises(Forbidden):
            observed(Answers(listed))


@pytest.mark.parametrize(
    ("more", "kind", "expected"),
    [
        ({}, SECRET, how()),
        ({"secrets": SecretUse.METADATA}, SECRET, how(metadata_only=True)),
        ({"secrets": SecretUse.TYPE}, SECRET, how()),
        ({"secrets": SecretUse.METADATA}, CONFIG_MAP, how()),
        ({}, PLANET, how(None)),
        ({"anywhere": frozenset({SECRET})}, SECRET, how(None)),
        ({"anywhere": frozenset({SECRET})}, CONFIG_MAP, how()),
    ],
)
def test_children_are_listed_where_they_may_be_and_with_as_much_as_is_read(
    more: dict[str, Any], kind: Kind, expected: dict[str, Any]
) -> None:
    server = Answers({kind: (), GADGET: (), CONFIG_MAP: ()})
    observed(server, child_kinds=(kind,), **more)
    assert (kind, expected) in server.asked


def test_the_kinds_of_one_parent_are_those_that_it_needs() -> None:
    server = Answers({DEPLOYMENT: (), GADGET: (), CONFIG_MAP: ()})
    observed(server, kinds_of=lambda parent: iter((DEPLOYMENT, GADGET)))
    assert [kind for kind, _ in server.asked] == [DEPLOYMENT, GADGET, CONFIG_MAP]


def test_externals_are_read_by_name_and_a_secret_without_its_data_where_nobody_asks_for_it() -> None:
    slim, full = ObjectRef(SECRET, "team", "slim"), ObjectRef(SECRET, "team", "full")
    reads = [(Read(SECRET), slim), (Read(SECRET, fields=(("data", "a"),)), full)]
    server = Answers({CONFIG_MAP: (), GADGET: ()}, {full: {"kind": "Secret"}})
    found = observed(server, external_refs=lambda parent: reads)
    assert server.asked[2:] == [(slim, True), (full, False)]
    assert found.objects == {full: {"kind": "Secret"}}


@pytest.mark.parametrize(("selector", "is_read"), [(None, False), ({}, False), ({"matchLabels": {"a": "b"}}, True)])
def test_the_namespace_is_read_where_a_selector_chooses_by_it(selector: Any, is_read: bool) -> None:
    team = NAMESPACE.manifest("team")
    server = Answers({CONFIG_MAP: (), GADGET: ()}, {ObjectRef(NAMESPACE, None, "team"): team})
    assert observed(server, namespaces=selector).namespace == (team if is_read else None)
    assert len(server.asked) == 2 + is_read


def test_peers_are_the_namespaces_that_name_the_namespace_of_the_parent() -> None:
    def letting(name: str, names: str) -> Manifest:
        return {"metadata": {"name": name, "annotations": {"box.example.com/peers": names}}}

    namespaces = (letting("a", "team"), letting("b", "other"), letting("c", "x, team"), NAMESPACE.manifest("d"))
    server = Answers({CONFIG_MAP: (), GADGET: (), NAMESPACE: namespaces})
    assert observed(server, asks_namespaces=True).peers == {"a", "c"}
    assert server.asked[-1] == (NAMESPACE, {})
    assert observed(server).peers == frozenset()
