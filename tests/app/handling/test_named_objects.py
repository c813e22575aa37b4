"""What KIND/NAME on the command line may refer to, and what is said where it refers to nothing (SEE-1)."""

import os

import pytest

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.commands.verbs import approve
from vworkspace_app.verbs import kinds_named
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION


def test_a_command_that_acts_says_which_objects_it_is_for() -> None:
    with pytest.raises(CommandError) as raised:
        kinds_named("website/site", acts=True)
    assert str(raised.value) == (
        "this command is for instances (appinst/NAME) and Operations (op/NAME), not for a website; "
        "of an object in namespace website: site -n website"
    )
    assert raised.value.status == USAGE


@pytest.mark.parametrize(("name", "kind"), [("appinst/a", APPLICATION_INSTANCE), ("Operation/a", OPERATION)])
def test_a_command_that_acts_takes_the_words_of_kubectl(name: str, kind: object) -> None:
    assert kinds_named(name, acts=True) == ((kind,), "a")


def test_an_account_without_a_name_is_asked_who_approves_OPS_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with a user id of its own, `approve` ended in a traceback."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(CommandError, match="--by is missing"):
        approve("op/restore")
