"""The requests of simulated administrators: they change and delete the Cluster object, and ask for new credentials."""

import base64
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_world import CLUSTER_ID, FORBIDDEN, OWN_NAMESPACE, SimulatedWorld
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.api.labels import cluster_name
from vworkspace_core.credentials.secret import CredentialKey, secret_ref, stored_credential
from vworkspace_core.jobs.wire import IntentName

OWN_CLUSTER: Final = ObjectRef(CLUSTER, None, cluster_name(CLUSTER_ID))
REPLACED: Final = "tok-replaced-"
"""The beginning of tokens that an administrator puts into the credentials Secret."""


@attrs.define
class ClusterActs:
    """The requests of simulated administrators in one simulated cluster."""

    world: SimulatedWorld

    def ask(self, act: Act, instance: ObjectRef) -> None:
        """Carry out an administrator's action. Some concern an `instance` too. Raises errors of the API server."""
        world = self.world
        match Do(act.do):
            case Do.FORBID:
                self._change({"policy": {"forbiddenVersions": [FORBIDDEN]}})
                world.change(instance, {"spec": {"chart": {"version": FORBIDDEN.partition("@")[2]}}})
            case Do.PERMIT:
                self._change({"policy": None})
            case Do.ROTATE if act.number % 2:
                payload = {"intent": IntentName.ROTATE_OPERATOR_CREDENTIALS.value}
                world.control.enqueue(
                    CLUSTER_ID, kind="intent", payload=payload, idempotency_key=f"rotation/{act.number}"
                )
            case Do.ROTATE:
                for asks in (False, True):  # each generation that asks is a new request
                    self._change({"rotateCredentials": asks})
            case _:
                world.delete(OWN_CLUSTER)

    def replace_lost_credential(self) -> None:
        """Put a new token into the Secret if a restore of etcd brought back one that has expired meanwhile."""
        secret = self.world.get(secret_ref(OWN_NAMESPACE))
        if secret is None or not self.world.was_restored:
            return
        if not self.world.accepts(stored_credential(secret).token):
            text = f"{REPLACED}{int(self.world.seconds)}"
            self.world.control.tokens.add(CLUSTER_ID, text)
            data = {CredentialKey.TOKEN: base64.b64encode(text.encode()).decode(), CredentialKey.PREVIOUS_TOKEN: None}
            self.world.change(secret_ref(OWN_NAMESPACE), {"data": data}, "admin")

    def _change(self, spec: dict[str, Any]) -> None:
        self.world.change(OWN_CLUSTER, {"spec": spec}, "admin")
