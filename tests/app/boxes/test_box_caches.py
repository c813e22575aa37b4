"""RUN-1, L21: what the caches of a box hold of Secrets."""

from tests.support.boxes import box_of, config, secret
from vworkspace_app.composites.caches import slim_secret


def test_data_of_a_tenants_secret_stays_out_of_memory_where_nothing_reads_it() -> None:
    drawn = {**secret("pw"), "apply": "IfAbsent", "generate": {"data.p": {"length": 8}}}
    assert not box_of(drawn, config("a", data={"name": "${pw.metadata.name}", "type": "${pw.type}"})).reads_secrets
    assert box_of(drawn, secret("copy", {"p": "${pw.data.p}"}, apply="IfAbsent")).reads_secrets
    assert box_of(secret("pw", {"p": "x"})).reads_secrets, "what is applied is compared"
    stored = {
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": "pw"},
        "data": {"p": "x"},
        "stringData": {"q": "y"},
    }
    assert slim_secret(stored) == {"kind": "Secret", "type": "Opaque", "metadata": {"name": "pw"}}
