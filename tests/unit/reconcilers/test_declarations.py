"""PH-7, RUN-7: what a controller's class declares, its defaults, and each mistake with the words to mend it."""

from collections.abc import Collection, Sequence
from math import inf, nan
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, JOB, SECRET, Access
from purekube.composites.status_writers import StatusWriter
from purekube.reconcilers import Reconciler, Request, Resource, Result, Watcher, resource
from purekube.reconcilers.controllers import (
    ALL,
    AnyController,
    Controller,
    Feature,
    controller_access,
    controller_problems,
    features_of,
    finalizer_of,
    kind_of,
    manager_of,
    name_of,
    not_permitted,
    overrides,
    reference_problem,
    remedy,
    resource_of,
    status_writer_of,
    watched_of,
)
from purekube.reconcilers.watching import METADATA_ONLY, Watch, Watched


@attrs.frozen
class ShopSpec:
    """What a shop is to be."""


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready: int = 0


@attrs.frozen
class NoStatus:
    """Nothing to say."""


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
SILENT = resource("example.com", "v1", "Silent", ShopSpec, NoStatus)
NEWER = resource("example.com", "v2", "Shop", ShopSpec, ShopStatus)
RELEASE = Kind("helm.example", "v2", "Release", "releases")


class Shops(Reconciler[Any, Any]):
    kind = SHOP

    async def reconcile(self, request: Request[Any, Any]) -> Result[Any]:
        return Result()


class ShopAudit(Watcher[Any]):
    kind = SHOP


def made(base: type[AnyController] = Shops, name: str = "Shops", **declared: Any) -> AnyController:
    """Return a controller of a class of that name with these attributes."""
    controller: AnyController = type(name, (base,), declared)()
    return controller


OWN = frozenset({Feature.CONDITIONS, Feature.STATUS})
MARKED = frozenset({Feature.FINALIZER, Feature.SYNC})


@pytest.mark.parametrize(
    ("kind", "plain", "without"),
    [
        (SHOP, None, frozenset()),
        (SHOP, False, frozenset()),
        (SHOP, (), frozenset()),
        (SHOP, True, ALL),
        (SHOP, {Feature.RETRY}, {Feature.RETRY}),
        (SHOP, ["retry"], {Feature.RETRY}),
        (SHOP, {Feature.SYNC}, {Feature.SYNC}),
        (SHOP, {Feature.FINALIZER}, MARKED),
        (SHOP, {Feature.CONDITIONS}, {Feature.CONDITIONS}),
        (RELEASE, None, MARKED | OWN),
        (RELEASE, False, OWN),
        (RELEASE, (), OWN),
        (RELEASE, True, ALL),
        (RELEASE, {Feature.FINALIZER}, MARKED | OWN),
    ],
)
def test_the_features_of_a_controller_are_all_but_what_it_switches_off(
    kind: Any, plain: bool | Collection[str] | None, without: Collection[Feature]
) -> None:
    assert features_of(made(kind=kind, plain=plain)) == ALL - set(without)
    watcher = made(ShopAudit, kind=kind, plain=plain)
    assert features_of(watcher) == ALL - set(without) - OWN - {Feature.STATE}


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        ("Shops", "shops"),
        ("ShopAudit", "shop-audit"),
        ("HTTPRoutes", "http-routes"),
        ("MyHTTPRoute2Go", "my-http-route2-go"),
        ("A", "a"),
    ],
)
def test_a_controller_is_named_after_its_class(cls: str, name: str) -> None:
    ours, theirs = made(name=cls), made(name=cls, kind=RELEASE)

    assert name_of(ours) == name
    assert manager_of(ours) == f"vworkspace-controller.{name}"
    assert (finalizer_of(ours), finalizer_of(theirs)) == (f"example.com/{name}", f"controller.vworkspace.io/{name}")
    assert (kind_of(ours), resource_of(ours)) == (SHOP.kind, SHOP)
    assert (kind_of(theirs), resource_of(theirs)) == (RELEASE, None)


def named(own: str, **more: Any) -> AnyController:
    """Return a controller that says its name itself."""
    controller = made(**more)
    type(controller).name = own
    return controller


def test_a_name_of_its_own_goes_before_that_of_the_class() -> None:
    assert name_of(named("mine")) == "mine"


TITLE = StatusWriter(SHOP.kind, "controller shops")


@pytest.mark.parametrize(
    ("controller", "writer"),
    [
        (made(), TITLE),
        (made(plain={Feature.CONDITIONS}), TITLE),
        (made(plain={Feature.STATUS}), TITLE),
        (made(plain=OWN), None),
        (made(plain=True), None),
        (made(kind=RELEASE), None),
        (made(ShopAudit), None),
        (made(kind=SILENT), StatusWriter(SILENT.kind, "controller shops")),
        (made(kind=SILENT, plain={Feature.CONDITIONS}), None),
    ],
)
def test_a_controller_writes_statuses_where_it_has_conditions_or_fields_PH_9(
    controller: AnyController, writer: StatusWriter | None
) -> None:
    assert status_writer_of(controller) == writer


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refers_to(self: Any, object: Any) -> Sequence[ObjectRef]:
    return ()


def wakes(self: Any, object: Manifest) -> Sequence[ObjectRef]:
    return ()


NUMBERS = "timeout must be seconds, more than 0, not"
NAMED = "must be such as shop-audit, 40 letters at most"
READS = (
    "reads other kinds, and nothing says which object reads which: write `refers_to(self, object)`,"
    " or `wakes(self, object)`"
)
KINDS = 'such as Kind("apps", "v1", "Deployment", "deployments")'
STANDARD = "must be in CamelCase and none of Ready, Reconciling, Stalled"
FEATURES = "conditions, echo, filter, finalizer, limit, retry, state, status, sync"


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({}, ""),
        ({"kind": None}, "says no kind: write `kind = …`, with what `resource(…)` made, or a Kind"),
        ({"kind": "Shop"}, "says no kind: write `kind = …`, with what `resource(…)` made, or a Kind"),
        ({"timeout": 0}, f"{NUMBERS} 0"),
        ({"timeout": "60"}, f"{NUMBERS} '60'"),
        ({"timeout": None}, f"{NUMBERS} None"),
        ({"timeout": nan}, f"{NUMBERS} nan"),
        ({"timeout": inf}, ""),
        ({"timeout": 0.5}, ""),
        ({"timeout": 1}, ""),
        ({"resync": 0}, "resync must be seconds, more than 0, or None, not 0"),
        ({"resync": -1.5}, "resync must be seconds, more than 0, or None, not -1.5"),
        ({"resync": "60"}, "resync must be seconds, more than 0, or None, not '60'"),
        ({"resync": nan}, "resync must be seconds, more than 0, or None, not nan"),
        ({"resync": 0.5}, ""),
        ({"resync": None}, ""),
        ({"workers": 0}, "workers must be 1 or more, not 0"),
        ({"workers": "4"}, "workers must be 1 or more, not '4'"),
        ({"workers": 1}, ""),
        ({"plain": {"retry", "none", "fog"}}, f"plain names fog, none: give {FEATURES}"),
        ({"plain": ["retry"]}, ""),
        ({"plain": None}, ""),
        ({"plain": ALL}, ""),
        ({"plain": True}, ""),
        ({"reads": (SECRET,)}, READS),
        ({"reads": (SECRET,), "refers_to": refers_to}, ""),
        ({"reads": (SECRET,), "wakes": wakes}, ""),
        ({"refers_to": refers_to}, ""),
        ({"wakes": wakes}, "`wakes` is asked only about objects of `reads`, which names no kind"),
        ({"owns": [JOB]}, ""),
        ({"owns": {JOB}}, ""),
        ({"owns": JOB}, f"owns must be a list of kinds, {KINDS}, not {JOB!r}"),
        ({"owns": "v1/Pod"}, f"owns must be a list of kinds, {KINDS}, not 'v1/Pod'"),
        ({"owns": ["v1/Pod"]}, f"owns must name kinds, {KINDS}, not 'v1/Pod'"),
        ({"owns": [SHOP]}, "owns must name kinds: give SHOP.kind, not the Resource"),
        ({"reads": ["v1/Pod"]}, f"reads must name kinds, {KINDS}, not 'v1/Pod'"),
        ({"reads": SECRET}, f"reads must be a list of kinds, {KINDS}, not {SECRET!r}"),
        ({"conditions": ("Warm", "A1")}, ""),
        ({"conditions": ("Ready",)}, f"the condition 'Ready' {STANDARD}"),
        ({"conditions": ("a b",)}, f"the condition 'a b' {STANDARD}"),
        ({"conditions": ("1a",)}, f"the condition '1a' {STANDARD}"),
        ({"conditions": ("a" * 63,)}, ""),
        ({"conditions": ("a" * 64,)}, f"the condition {'a' * 64!r} {STANDARD}"),
    ],
)
def test_each_mistake_of_a_declaration_is_told_with_its_remedy(declared: dict[str, Any], problem: str) -> None:
    assert controller_problems([made(**declared)]) == ((f"Shops: {problem}",) if problem else ())


@pytest.mark.parametrize("name", ["a", "a-1", "a" * 40])
def test_a_name_is_a_short_label(name: str) -> None:
    assert controller_problems([named(name)]) == ()
    for wrong in (f"-{name}", f"{name}-", f"1{name}", f"{name}.", f"{name}{'a' * 40}", f"{name}\n", name.upper()):
        assert controller_problems([named(wrong)]) == (f"Shops: the name {wrong!r} {NAMED}",)


def test_all_mistakes_are_told_of_all_controllers_in_their_order() -> None:
    first, second = made(timeout=0, workers=0), made(name="Others", conditions=("Ready", "1"))

    assert controller_problems(iter([first, second])) == (
        f"Shops: {NUMBERS} 0",
        "Shops: workers must be 1 or more, not 0",
        f"Others: the condition 'Ready' {STANDARD}",
        f"Others: the condition '1' {STANDARD}",
    )
    assert controller_problems([made(ShopAudit, conditions=("Ready",))]) == (), "a watcher has none"


def test_two_controllers_of_one_name_are_told() -> None:
    """Of two instances of a class the second is told; of two classes the one that comes later."""
    same, other = made(kind=RELEASE), named("shops", name="Other", kind=RELEASE)
    again = type(same)()
    called = "is called shops, as {} is: write another `name`"

    assert controller_problems([same, other]) == (f"Other: {called.format('Shops')}",)
    alike = made(name="Shops", kind=RELEASE)
    assert type(alike) is not type(same)
    assert controller_problems([same, alike]) == (f"Shops: {called.format('Shops')}",), "of another module"
    assert controller_problems([same, again]) == (f"Shops: {called.format('Shops')}",)
    assert controller_problems([same, named("x", kind=RELEASE)]) == ()
    assert controller_problems([same, Renamed("a"), Renamed("b")]) == ()
    assert len(controller_problems([Renamed("a"), Renamed("b"), Renamed("a")])) == 1


@attrs.frozen
class Renamed(ShopAudit):
    """A class whose instances have names of their own."""

    name: str = ""  # type: ignore[misc]


def test_two_writers_of_one_status_are_told_PH_9() -> None:
    told = (
        "the controller shops and the controller others would both write the status of Shop objects "
        "(shops.example.com), and each would undo the other: run one of them, or let one say "
        "`plain = {Feature.CONDITIONS, Feature.STATUS}` and return no status"
    )

    assert controller_problems([made(), made(name="Others", kind=NEWER)]) == (told,)
    assert controller_problems([made(), made(name="Others", plain=OWN)]) == ()
    broken = controller_problems([made(), made(name="Others", workers=0)])
    assert broken == ("Others: workers must be 1 or more, not 0",), "only what is sound is compared"


# --- rights -----------------------------------------------------------------------------------------------------------

FIRST = (Access(CUSTOM_RESOURCE_DEFINITION, ("list", "watch")), Access(EVENT, ("create", "patch")))
FOLLOWED, STATUS = Access(SHOP.kind, ("list", "watch")), Access(SHOP.kind, ("patch",), "status")
GET, PATCH = Access(SHOP.kind, ("get",)), Access(SHOP.kind, ("patch",))


@pytest.mark.parametrize(
    ("controller", "rights"),
    [
        (made(), (FOLLOWED, PATCH, GET, STATUS)),
        (made(plain=True), (FOLLOWED, GET, STATUS)),
        (made(watch=Watch(fields=METADATA_ONLY)), (FOLLOWED, GET, PATCH, GET, STATUS)),
        (made(ShopAudit), (FOLLOWED, PATCH)),
        (made(ShopAudit, watch=Watch(fields=(".spec",))), (FOLLOWED, GET, PATCH)),
        (made(kind=RELEASE), (Access(RELEASE, ("list", "watch")),)),
        (made(kind=RELEASE, plain=()), (Access(RELEASE, ("list", "watch")), Access(RELEASE, ("patch",)))),
        (
            made(ShopAudit, plain=True, owns=(JOB,), reads=(Watched(SECRET),)),
            (
                FOLLOWED,
                Access(SHOP.kind, ("update",), "finalizers"),
                Access(JOB, ("list", "watch")),
                Access(SECRET, ("list", "watch")),
            ),
        ),
    ],
)
def test_the_rights_of_a_controller_are_those_of_its_features_RUN_7(
    controller: AnyController, rights: tuple[Access, ...]
) -> None:
    assert controller_access([controller]) == (*FIRST, *rights)


def test_several_controllers_have_the_rights_of_each_RUN_7() -> None:
    assert controller_access([]) == FIRST
    assert controller_access([made(ShopAudit), made(plain=True)]) == (*FIRST, FOLLOWED, PATCH, FOLLOWED, GET, STATUS)


def test_a_missing_right_is_told_with_the_command_that_grants_it_RUN_7() -> None:
    here, everywhere = Right("get", "", "secrets", "team"), Right("list", "", "secrets")
    command = "vworkspace-operator controllers rbac shops"

    for right in (here, everywhere):
        told = not_permitted(made(), right)
        assert told == f"the controller shops may not {right}. To fix: {remedy(made(), right)}"
    assert remedy(made(), here) == f"{command} --namespace team | kubectl apply --server-side -f -"
    assert remedy(made(), everywhere) == f"{command} | kubectl apply --server-side -f -"
    for account, option in (("vworkspace-controller-shops", ""), ("other", " --service-account other")):
        user = f"system:serviceaccount:vworkspace-system:{account}"
        refused = attrs.evolve(everywhere, user=user)
        assert remedy(made(), refused) == f"{command}{option} | kubectl apply --server-side -f -"


def test_a_kind_is_watched_by_its_metadata_unless_more_is_asked_for() -> None:
    whole = Watched(SECRET, Watch())

    assert watched_of([CONFIG_MAP, whole]) == (Watched(CONFIG_MAP, Watch(fields=())), whole)
    assert watched_of(()) == ()


def test_a_method_counts_as_overridden_wherever_it_is() -> None:
    class Base(ShopAudit):
        def wakes(self, object: Manifest) -> Sequence[ObjectRef]:
            return ()

    class Leaf(Base):
        pass

    assert [overrides(one, Controller.wakes) for one in (ShopAudit(), Base(), Leaf())] == [False, True, True]
    assert not overrides(Leaf(), Controller.refers_to)


def test_a_controller_has_modest_defaults() -> None:
    controller = made()

    assert (controller.timeout, controller.resync, controller.workers) == (60.0, None, 8)
    assert (controller.watch, controller.owns, controller.reads) == (Watch(), (), ())
    assert list(controller.refers_to(None)) == list(controller.wakes({})) == []
    assert isinstance(SHOP, Resource)


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (ObjectRef(SECRET, "team", "a"), "it returned a Secret of v1, and no ConfigMap of v1 or Job of batch/v1"),
        (ObjectRef(JOB, None, "a"), "it returned a Job of batch/v1 without a namespace"),
        (ObjectRef(JOB, "team", "a"), ""),
    ],
)
def test_a_reference_to_what_is_not_watched_is_told(ref: ObjectRef, told: str) -> None:
    assert reference_problem(ref, [CONFIG_MAP, JOB]) == told
