"""A certificate of the webhooks that nothing renews is warned of while it still serves (SEE-1)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
import structlog

from kubelab.http.authority import LIFETIME, certificates_for
from purekube_run.process.machine import SystemClock
from vworkspace_app.webhooks import CertificateFiles


@pytest.mark.parametrize(("left", "is_soon"), [(timedelta(days=13), True), (timedelta(days=15), False)])
def test_a_certificate_that_expires_soon_is_logged_once_a_day(tmp_path: Path, left: timedelta, is_soon: bool) -> None:
    made = certificates_for(["localhost"], datetime.now(UTC) - LIFETIME + left)
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    files = CertificateFiles(tmp_path)

    async def follow() -> None:
        with anyio.move_on_after(0.1):
            await files.follow(SystemClock())

    with structlog.testing.capture_logs() as logs:
        anyio.run(follow)
    told = [entry for entry in logs if entry["log_level"] == "warning"]
    assert len(told) == is_soon
    if is_soon:
        assert "expires soon" in told[0]["event"]
        assert told[0]["expires"] > datetime.now(UTC).strftime("%Y-%m-%d")
