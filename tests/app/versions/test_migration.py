"""PH-8: the migration of stored objects, where the API server asks for time."""

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import KubeRequest, KubeVerb
from purekube.reconcilers import conversion, resource, versioned
from purekube_run.simulation.faults import Fault
from purekube_run.versions.migration import migrate
from tests.support.controller_site import ControllerSite, ShopSpec, ShopStatus, play

OLD = resource("example.com", "v1alpha1", "Ship", ShopSpec, ShopStatus)
SHIP = versioned(
    resource("example.com", "v1", "Ship", ShopSpec, ShopStatus),
    conversion(
        OLD, resource("example.com", "v1", "Ship", ShopSpec, ShopStatus), up=lambda spec: spec, down=lambda spec: spec
    ),
)


def test_a_migration_waits_as_long_as_the_server_asks() -> None:
    """API Priority and Fairness refuses a storm of writes with 429 and Retry-After."""
    waits: list[float] = []
    refusals = [Unavailable("too many requests", retry_after=30, may_have_happened=False), Unavailable("no answer")]

    def schedule(request: KubeRequest) -> Fault | None:
        return Fault(refusals.pop(0)) if request.verb is KubeVerb.PATCH and refusals else None

    async def story(site: ControllerSite) -> None:
        crd = SHIP.crd()
        for version in crd["spec"]["versions"]:
            version["storage"] = version["name"] == "v1alpha1"
        await site.admin.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
        await site.create("ship", kind=OLD.kind, spec={})
        name = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHIP.kind.crd_name)
        await site.edit(name, {"spec": {"versions": SHIP.crd()["spec"]["versions"]}})

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await site.clock.sleep(seconds)

        site.faults.schedule = schedule
        assert await migrate(site.api, [SHIP.kind.crd_name], lambda told: None, sleep, dry_run=False) == []
        assert get_path(await site.get(name), "status", "storedVersions") == ["v1"]

    play(story)
    assert waits == [30, 1.0]
