"""The suite that owners of a control plane can run, on both faces of the embedded one (PULL-11)."""

from typing import Any

import pytest

from tests.support.control_planes import in_process, over_http
from vworkspace_app.conformance.checks.credentials import *  # noqa: F403
from vworkspace_app.conformance.checks.error_bodies import *  # noqa: F403
from vworkspace_app.conformance.checks.event_batches import *  # noqa: F403
from vworkspace_app.conformance.checks.open_jobs import *  # noqa: F403
from vworkspace_app.conformance.checks.polls import *  # noqa: F403


@pytest.fixture(params=[pytest.param(in_process, id="in-process"), pytest.param(over_http, id="http")])
def subject(request: pytest.FixtureRequest) -> Any:
    return request.param
