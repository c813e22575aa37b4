"""The labels by which the children of pure reconcilers are found."""

from typing import Final

from purekube.graph.owner import Marks

DOMAIN: Final = "controller.vworkspace.io"
MARKS: Final = Marks(DOMAIN)
CONTROLLER_NAME: Final = f"{DOMAIN}/name"
"""Label of every child: the controller that it belongs to."""
