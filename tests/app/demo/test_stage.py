"""What the demo prints can be copied as it stands (U11)."""

import pytest

from vworkspace_app.demo.stage import Stage


def test_a_line_is_printed_as_it_is_whatever_a_terminal_makes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A backslash at the end of a line was doubled, and [text] in brackets taken for markup."""
    stage = Stage(payloads=True, plain=True)
    stage.say("curl -H 'a: b' \\")
    stage.say("kubectl get pods [bold]x[/bold]")
    stage.step(1, 0.0, "a step", {"command": "echo a \\"})

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["curl -H 'a: b' \\", "kubectl get pods [bold]x[/bold]"]
    assert lines[-1] == "command: echo a \\"
