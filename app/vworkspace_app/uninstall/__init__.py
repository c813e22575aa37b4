"""Removal of the operator from a cluster, in an order in which nothing is lost or left hanging (RUN-7)."""

from vworkspace_app.uninstall.inventory import Inventory, take_inventory
from vworkspace_app.uninstall.steps import Step, Stuck, Waiting, listed, steps_of

__all__ = ["Inventory", "Step", "Stuck", "Waiting", "listed", "steps_of", "take_inventory"]
