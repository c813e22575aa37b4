"""Pages of the documentation that are made by running what they describe."""

from vworkspace_app.reference.commands_page import commands_page
from vworkspace_app.reference.operations_page import operations_page

__all__ = ["commands_page", "operations_page"]
