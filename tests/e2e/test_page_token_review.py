"""SEE-3: a real API server says whose a token is, and whether its owner may look at the page."""

from pathlib import Path

import anyio
import pytest

from purekube_http import KubeApiClient, load_config
from purekube_run.process.yaml_documents import Format, dump
from tests.support.lent_server import lent
from tests.support.server_thread import Wire, wired_to
from vworkspace_app.page.access import PATH, TokenReview, judged

pytestmark = pytest.mark.slow

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def token_of(wire: Wire, name: str) -> str:
    """A service account's."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert wire.send("POST", accounts, {"metadata": {"name": name}}).status == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = wire.send("POST", f"{accounts}/{name}/token", request)
    assert answer.status == 201, answer.raw
    return str(answer.json["status"]["token"])


def test_whoever_may_get_the_path_is_let_in_and_nobody_else_SEE_3(tmp_path: Path) -> None:
    with lent() as found:
        with wired_to(found) as wire:
            tokens = {name: token_of(wire, name) for name in ("jane", "joe")}
            rule = {"nonResourceURLs": [PATH], "verbs": ["get"]}
            role = {"metadata": {"name": "vworkspace-page"}, "rules": [rule]}
            assert wire.send("POST", f"{RBAC}/clusterroles", role).status == 201
            binding = {
                "metadata": {"name": "vworkspace-page"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "vworkspace-page"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "jane"}],
            }
            assert wire.send("POST", f"{RBAC}/clusterrolebindings", binding).status == 201
        (tmp_path / "kc").write_text(dump([found.kubeconfig()], Format.YAML), encoding="utf-8")

        async def verdicts() -> list[TokenReview]:
            async with KubeApiClient(load_config(tmp_path / "kc")) as api:
                return [await judged(api, token) for token in (tokens["jane"], tokens["joe"], "nobody's")]

        assert anyio.run(verdicts) == [TokenReview.ALLOWED, TokenReview.FORBIDDEN, TokenReview.UNKNOWN]
