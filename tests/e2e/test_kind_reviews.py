"""PH-8: `controllers run` serves the reviews of a kind in Python, as `controllers manifests` configures them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from tests.e2e.test_webhooks import SYSTEM, laid, made
from tests.support.commands import Running, free_port, run
from tests.support.server_thread import served, wall_clock, wired

pytestmark = pytest.mark.slow

SERVICE = "vworkspace-controller-shops-webhook"
MODULE = """
import attrs
from purekube.reconcilers import Problem, Reconciler, Result, resource, reviewed

@attrs.frozen
class ShopSpec:
    size: int = 1
    host: str | None = None

@attrs.frozen
class ShopStatus:
    note: str = ""

def validate(admission):
    if admission.object.spec.host == "localhost":
        yield Problem("spec.host", f"{admission.user} must not open a shop at home")

def default(shop):
    return attrs.evolve(shop.spec, host=shop.spec.host or f"{shop.metadata.name}.example.com")

SHOP = reviewed(resource("example.com", "v1", "Shop", ShopSpec, ShopStatus), validate=validate, default=default)

class Shops(Reconciler):
    kind = SHOP
    async def reconcile(self, request):
        return Result(ShopStatus(request.object.spec.host))
"""


def shop(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "corner"}, "spec": spec}


def test_a_write_is_defaulted_and_refused_by_the_process_that_runs_the_controller(tmp_path: Path) -> None:
    (tmp_path / "reviewed_shops.py").write_text(MODULE)
    certificates, port = made(f"{SERVICE}.{SYSTEM}.svc"), free_port()
    (laid(tmp_path, certificates) / "authority").write_bytes(certificates.authority)
    here = str(tmp_path)
    names, trust = ("reviewed_shops:Shops",), ("--webhook-ca", tmp_path / "authority")

    untrusted = run("controllers", "manifests", *names, "--image=i", cold=True, PYTHONPATH=here)
    assert untrusted.status == 1
    assert "shops.example.com: needs a webhook (validation, defaults), which the API server has to trust" in (
        untrusted.err
    )

    server, services = ApiServer(now=wall_clock), {(SYSTEM, SERVICE): f"https://127.0.0.1:{port}"}
    with served(server, services=services) as url, wired(url) as wire:
        (tmp_path / "kc").write_text(yaml.safe_dump(kubeconfig(url)))
        words = ("controllers", "run", *names, "--kubeconfig", tmp_path / "kc", "--log-format=json", "--listen=")
        hooks = (f"--webhook-listen=127.0.0.1:{port}", f"--webhook-certificates={tmp_path}")
        crds = yaml.safe_load(run("controllers", "crds", *names, *trust, cold=True, PYTHONPATH=here).out)
        assert wire.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds).status == 201
        with Running(tmp_path / "run", *words, *hooks, cold=True, PYTHONPATH=here) as process:
            process.until(lambda: process.log("webhooks are served"), "the webhooks")
            printed = run("controllers", "manifests", *names, "--image=i", *trust, cold=True, PYTHONPATH=here)
            for one in yaml.safe_load_all(printed.out):
                if one["kind"].endswith("WebhookConfiguration"):
                    place = f"/apis/admissionregistration.k8s.io/v1/{one['kind'].lower()}s"
                    assert wire.send("POST", place, one).status == 201
            shops = "/apis/example.com/v1/namespaces/default/shops"
            refused = wire.send("POST", shops, shop(host="localhost"))
            assert refused.status == 422
            assert "spec.host: " in refused.json["message"]
            assert refused.json["details"]["causes"][0]["field"] == "spec.host"
            assert wire.send("POST", shops, shop(size=3)).json["spec"] == {"size": 3, "host": "corner.example.com"}
