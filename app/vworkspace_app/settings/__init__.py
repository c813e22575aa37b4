"""The settings of the command `run`: one documented table, read from flags, environment and file, validated at once."""

from vworkspace_app.settings.loading import Loaded, load
from vworkspace_app.settings.table import RunSettings

__all__ = ["Loaded", "RunSettings", "load"]
