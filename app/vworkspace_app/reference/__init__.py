"""Pages of the documentation that are made by running what they describe."""

from vworkspace_app.reference.operations_page import operations_page

__all__ = ["operations_page"]
