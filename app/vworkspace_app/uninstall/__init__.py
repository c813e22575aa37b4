"""Removal of the operator from a cluster, in an order that loses no object and leaves none stuck (RUN-7)."""

from vworkspace_app.uninstall.installed_objects import Inventory, take_inventory
from vworkspace_app.uninstall.steps import Stuck, UninstallStep, Waiting, count_and_first, steps_of

__all__ = ["Inventory", "Stuck", "UninstallStep", "Waiting", "count_and_first", "steps_of", "take_inventory"]
