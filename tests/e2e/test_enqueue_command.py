"""The owner's command that offers jobs to `conformance control-plane`, when it does not end."""

import time

import anyio
import pytest

from purekube.apimachinery.errors import Permanent
from vworkspace_app.conformance.over_http import ControlPlaneAt


def test_a_command_that_does_not_end_fails_the_check_and_is_named() -> None:
    at = ControlPlaneAt("http://127.0.0.1:1", "c", "token", "", "sleep 30", enqueue_seconds=0.2)

    async def offered() -> None:
        async with at() as subject:
            await subject.enqueue("c", {"kind": "apply"})

    began = time.monotonic()
    with pytest.raises(Permanent, match="--enqueue-command did not end within"):
        anyio.run(offered)
    assert time.monotonic() - began < 25
