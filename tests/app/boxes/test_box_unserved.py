"""A box that needs a webhook, where none is served: it says so at its start (PH-8)."""

from pathlib import Path

from structlog.testing import capture_logs

from tests.support.box_site import example
from vworkspace_app.commands.extensions import warn_unserved
from vworkspace_app.settings import RunSettings


def test_a_box_that_needs_a_webhook_which_is_not_served_says_so_and_what_to_give() -> None:
    boxes = [example("registry"), example("webapp")]
    with capture_logs() as lines:
        warn_unserved(RunSettings(), boxes)
    (line,) = lines
    assert (line["log_level"], line["box"]) == ("warning", "registry")
    assert line["needs"] == "conversion of v1alpha1, 2 rules, filling in spec.tls.secretName"
    assert "--webhook-listen" in line["remedy"]
    with capture_logs() as lines:
        warn_unserved(RunSettings(webhook_listen="127.0.0.1:9443", webhook_certificates=Path()), boxes)
    assert lines == []
