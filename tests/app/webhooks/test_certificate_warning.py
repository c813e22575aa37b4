"""A certificate of the webhooks that nothing renews is warned of while it still serves (SEE-1)."""

from datetime import timedelta
from pathlib import Path

import anyio
import pytest
import structlog

from kubelab.clock import START, VirtualClock
from kubelab.http.authority import LIFETIME, certificates_for
from purekube.apimachinery.timestamps import format_time
from tests.app.observability.test_metrics import fresh, values
from tests.support.virtual_time import run
from vworkspace_app.webhooks import CertificateFiles, serving

EXPIRY = "vworkspace_operator_webhook_certificate_expiration_timestamp_seconds"
OVERDUE = "vworkspace_operator_webhook_certificate_overdue_timestamp_seconds"


@pytest.mark.parametrize(("days_left", "warnings"), [(13, 3), (15, 2), (17, 0)])
def test_a_certificate_that_expires_soon_is_logged_once_a_day(
    days_left: int, warnings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two and a half days are looked at. The metric has the time of expiry from the start."""
    monkeypatch.setattr(serving, "_RELOAD_SECONDS", 3600.0)
    expires = START + timedelta(days=days_left)
    made = certificates_for(["localhost"], expires - LIFETIME)
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    metrics = fresh()
    assert not {EXPIRY, OVERDUE} & values(metrics).keys(), "where no webhooks are served there is nothing to expire"

    async def follow() -> None:
        with anyio.move_on_after(2.5 * 24 * 3600):
            await CertificateFiles(tmp_path).follow(VirtualClock(), metrics)

    with structlog.testing.capture_logs() as logs:
        run(follow)
    logged = [entry["expires"] for entry in logs if "expires soon" in entry["event"]]
    assert logged == [format_time(expires)] * warnings
    assert values(metrics)[EXPIRY] == expires.timestamp()
    assert values(metrics)[OVERDUE] == (expires - timedelta(days=14)).timestamp()
