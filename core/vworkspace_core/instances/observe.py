"""Live reads of the snapshot for a decision, through the `KubeApi` port.

The operator takes it from its caches instead; this is for what a cache must not decide (taking an instance down), and
for simulations that have none.
"""

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import INSTANCE_UID, namespace_is_terminating
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS, read_refs, watched_refs
from vworkspace_core.instances.helm_storage import release_records


async def observe_live(api: KubeApi, source: ApplicationInstance) -> InstanceObserved:
    """Read everything that a decision about `source` needs. Raises what `KubeApi.get` and `list` raise."""
    meta = source.metadata
    reading = LiveReads(api)
    namespace = await reading.get(ObjectRef(NAMESPACE, None, meta.namespace))
    reading.lenient = namespace_is_terminating(namespace)
    selector = f"{INSTANCE_UID}={bounded_name(meta.uid)}"
    for kind in DOWNSTREAM_KINDS:
        await reading.add_labelled(kind, meta.namespace, selector)
    for ref in watched_refs(source):
        await reading.add_full(ref)
    for ref in read_refs(source, reading.objects):
        await reading.add_full(ref)
    # Read live too: the instances are deleted right after their definition, and their events may arrive before its
    # event.
    definition = await reading.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, APPLICATION_INSTANCE.crd_name))
    ending = bool(get_path(definition, "metadata", "deletionTimestamp"))
    observed = InstanceObserved(namespace, reading.objects, frozenset(reading.missing), definition_ending=ending)
    reading.objects |= await release_records(api, source, observed)
    return observed
