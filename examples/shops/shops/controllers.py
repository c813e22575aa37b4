"""What the entry point names."""

import os

from shops.reconciler import Shops
from shops.service import HttpShopService


def shops() -> Shops:
    """The reconciler, with the service that the environment names."""
    return Shops(HttpShopService(os.environ.get("SHOPS_URL", "http://localhost:8080")))
