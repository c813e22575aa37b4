"""The printed admission webhooks in the cluster of a story: found by its API server, in force, and no longer."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import AlreadyExists, Invalid, NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from tests.support.e2e_world import CLUSTER, OWN_NS, UNGATED_NS, World, instance
from vworkspace_app.install.webhook_manifests import SERVICE
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

SERVICES: Final = Kind("", "v1", "Service", "services")
REFUSED: Final = ObjectRef(APPLICATION_INSTANCE, UNGATED_NS, "guarded")
LABELS: Final = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}


@attrs.frozen
class Guard:
    """The webhook `configurations` of `world`, whose Service leads to a `port` of this machine."""

    world: World
    port: int
    configurations: tuple[Manifest, ...]

    @classmethod
    def of(cls, world: World, port: int, manifests: Iterable[Manifest]) -> "Guard":
        """The configurations among `manifests`."""
        found = tuple(manifest for manifest in manifests if manifest["kind"].endswith("WebhookConfiguration"))
        assert [manifest["kind"] for manifest in found] == [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ]
        return cls(world, port, found)

    async def stand(self) -> None:
        """The webhooks are asked from now on, also about what the operator itself writes."""
        reached = self.world.reached
        assert reached is not None
        if reached.is_fresh:
            reached.services[OWN_NS, SERVICE] = f"https://127.0.0.1:{self.port}"
        else:
            self.world.have(on_this_machine(), SERVICES)
        for manifest in self.configurations:
            configuration = manifest if reached.is_fresh else with_port(manifest, self.port)
            self.world.create_object(configuration, configuration_kind(manifest))
        await self.world.until(self._refuses, "the webhooks in force")

    async def leave(self) -> None:
        """Nobody is asked any more; the operator is gone already. A server of the story's own needs no cleaning."""
        assert self.world.reached is not None
        if self.world.reached.is_fresh:
            return
        for manifest in self.configurations:
            self._delete(ObjectRef(configuration_kind(manifest), None, manifest["metadata"]["name"]))
        self._delete(ObjectRef(SERVICES, OWN_NS, SERVICE))
        await self.world.until(self._takes, "the webhooks out of force")

    def _refuses(self) -> bool:
        return self._try(lambda error: isinstance(error, Invalid) and "denied the request" in str(error))

    def _takes(self) -> bool:
        return self._try(lambda error: error is None)

    def _try(self, wanted: Callable[[OperatorError | None], bool]) -> bool:
        """What comes of creating an instance where the webhooks let none be."""
        meta = {"name": REFUSED.name, "namespace": REFUSED.namespace, "labels": LABELS}
        try:
            self.world.create_object({**instance(), "metadata": meta}, APPLICATION_INSTANCE)
        except AlreadyExists:  # still going
            return False
        except OperatorError as error:
            return wanted(error)
        self._delete(REFUSED)
        return wanted(None)

    def _delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            self.world.delete_object(ref)


def configuration_kind(manifest: Manifest) -> Kind:
    plural = f"{manifest['kind'].lower()}s"
    return Kind("admissionregistration.k8s.io", "v1", manifest["kind"], plural, namespaced=False)


def on_this_machine() -> dict[str, Any]:
    """A kube-apiserver goes where a Service of this type leads, and expects the Service's certificate there."""
    return {**SERVICES.manifest(SERVICE, OWN_NS), "spec": {"type": "ExternalName", "externalName": "localhost"}}


def with_port(manifest: Manifest, port: int) -> dict[str, Any]:
    """The configuration with another port of the Service: such a Service has none of its own."""
    webhooks = []
    for webhook in manifest["webhooks"]:
        client = webhook["clientConfig"]
        webhooks.append({**webhook, "clientConfig": {**client, "service": {**client["service"], "port": port}}})
    return {**manifest, "webhooks": webhooks}
