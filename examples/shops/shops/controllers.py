"""The function that the entry point in `pyproject.toml` names."""

import os

from shops.reconciler import Shops
from shops.service import HttpShopService


def shops() -> Shops:
    """Return the reconciler, with the service whose URL is in the environment variable SHOPS_URL."""
    return Shops(HttpShopService(os.environ.get("SHOPS_URL", "http://localhost:8080")))
