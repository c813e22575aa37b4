"""RUN-1, L21: what the caches of a box hold of Secrets."""

from purekube.composites.composite import SecretUse
from purekube_run.composites.caches import slim_secret
from tests.support.boxes import box_of, config, secret


def test_data_of_a_tenants_secret_stays_out_of_memory_where_nothing_reads_it() -> None:
    drawn = {**secret("pw"), "apply": "IfAbsent", "generate": {"data.p": {"length": 8}}}
    named, typed = {"name": "${pw.metadata.name}"}, {"type": "${pw.type}"}
    assert box_of(drawn, config("a", data=named)).secrets is SecretUse.METADATA
    assert box_of(drawn, config("a", data={**named, **typed})).secrets is SecretUse.TYPE
    assert box_of(drawn, secret("copy", {"p": "${pw.data.p}"}, apply="IfAbsent")).secrets is SecretUse.CONTENT
    assert box_of(secret("pw", {"p": "x"})).secrets is SecretUse.CONTENT, "what is applied is compared"
    assert box_of(config("a")).secrets is SecretUse.METADATA, "those of a former file are only pruned"
    stored = {
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": "pw"},
        "data": {"p": "x"},
        "stringData": {"q": "y"},
    }
    assert slim_secret(stored) == {"kind": "Secret", "type": "Opaque", "metadata": {"name": "pw"}}
