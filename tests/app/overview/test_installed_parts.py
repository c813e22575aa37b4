"""`check` reads the accounts of a managed namespace, the credential and the webhooks' certificate (SEE-1)."""

from base64 import b64encode
from datetime import timedelta
from typing import Any

import anyio

from kubelab.http.authority import LIFETIME, certificates_for
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import NAMESPACE, SECRET, SERVICE_ACCOUNT
from purekube.apimachinery.timestamps import format_time
from purekube.boxes.webhooks.conversion_webhook import VALIDATING_CONFIGURATION
from tests.app.overview.test_lease_places import NOW, with_an_operator
from tests.support.uninstall_world import OWN_NS
from vworkspace_app.install import InstallOptions
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import TLS_SECRET
from vworkspace_app.overview.checking import installed
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.operations.settings import RUNNER
from vworkspace_core.overview.checkup import CheckResult


def test_check_looks_at_accounts_credential_and_certificate_SEE_1() -> None:
    api = with_an_operator({})

    def create(kind: Kind, name: str, namespace: str | None = None, **fields: Any) -> None:
        run_sync(api.create(kind.manifest(name, namespace, **fields), kind=kind, field_manager="test"))

    def found(point: str) -> tuple[CheckResult, str]:
        async def look() -> tuple[CheckResult, str]:
            findings = [one async for one in installed(api, InstallOptions(namespace=OWN_NS), NOW)]  # type: ignore[arg-type]
            (finding,) = (one for one in findings if one.point == point)
            return finding.verdict, finding.told

        return anyio.run(look)

    create(NAMESPACE, "team", metadata={"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}})
    create(SERVICE_ACCOUNT, RUNNER, "team")
    assert found("accounts in team") == (CheckResult.FAILED, "no service account vworkspace-release")
    create(SERVICE_ACCOUNT, "vworkspace-release", "team")
    assert found("accounts in team")[0] is CheckResult.OK

    assert found("credentials")[1].startswith("no Secret vworkspace-agent-credentials")
    keys = ("control-plane-base-url", "cluster-id", "token", "signing-public-key")
    create(SECRET, "vworkspace-agent-credentials", OWN_NS, stringData=dict.fromkeys(keys, "a"))
    assert found("credentials")[0] is CheckResult.OK

    expires = NOW + timedelta(days=13)
    tls = {"tls.crt": b64encode(certificates_for(["localhost"], expires - LIFETIME).certificate).decode()}
    create(SECRET, TLS_SECRET, OWN_NS, data=tls)
    create(VALIDATING_CONFIGURATION, NAME, webhooks=[])
    assert found("webhooks") == (CheckResult.WARNING, f"their certificate expires at {format_time(expires)}")
