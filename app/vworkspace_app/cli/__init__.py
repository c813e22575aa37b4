"""The commands and their options. Each does its work in `vworkspace_app.commands`."""

from vworkspace_app.cli.program import app

__all__ = ["app"]
