"""The options of the command `cluster` and those of the library that serves it."""

from inspect import signature

import attrs

from kubelab.command import HELP, ServeOptions
from vworkspace_app.commands.servers import serve_cluster


def test_the_command_has_every_option_of_the_library() -> None:
    """`listen` is host and port."""
    options = {field.name for field in attrs.fields(ServeOptions)} - {"host", "port"}
    parameters = signature(serve_cluster).parameters
    assert parameters.keys() - {"listen", "bare", "token"} == options
    assert HELP.keys() <= parameters.keys()
