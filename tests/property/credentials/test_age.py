"""RUN-5: since when the token is in its Secret, as the embedded API server's own bookkeeping tells."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import PatchType
from vworkspace_core.credentials.secret import Credentials, credentials_of, secret_ref, token_since

START = datetime(2026, 6, 1, tzinfo=UTC)
REF = secret_ref("vworkspace-system")


def data(**keys: str) -> dict[str, str]:
    return {key.replace("_", "-"): base64.b64encode(value.encode()).decode() for key, value in keys.items()}


def test_the_token_is_as_old_as_the_last_write_of_who_holds_it() -> None:
    now = START
    api = InProcessKube(ApiServer(now=lambda: now))

    def patched(manager: str, **keys: str) -> Any:
        patch = {"data": data(**keys)}
        return run_sync(api.patch(REF, patch, patch_type=PatchType.MERGE, field_manager=manager))

    run_sync(api.create(NAMESPACE.manifest("vworkspace-system"), kind=NAMESPACE, field_manager="admin"))
    secret = {**SECRET.manifest(REF.name, REF.namespace), "data": data(token="one", cluster_id="c")}
    assert token_since(run_sync(api.create(secret, kind=SECRET, field_manager="kubectl"))) == START

    now = START + timedelta(days=1)
    assert token_since(patched("somebody", approval_secret="x")) == START
    now = START + timedelta(days=2)
    assert token_since(patched("rotation", token="two")) == now


def test_without_bookkeeping_the_secret_itself_tells_and_else_nothing_does() -> None:
    assert token_since({"metadata": {"creationTimestamp": "2026-06-01T00:00:00Z"}}) == START
    assert token_since({"metadata": {}}) is None
    assert credentials_of({"metadata": {"creationTimestamp": "2026-06-01T00:00:00Z"}}).since == START


def test_the_same_credential_written_anew_is_no_news() -> None:
    assert Credentials(token="t", since=START) == Credentials(token="t", since=START + timedelta(days=1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["time", "fieldsV1", "f:data"]), inner),
    max_leaves=8,
)


@given(JSON, JSON)
def test_whatever_the_metadata_holds_it_never_raises(fields: Any, created: Any) -> None:
    token_since({"metadata": {"managedFields": fields, "creationTimestamp": created}})
