"""The drivers of the operator: they await what the pure runtime in the core decides.

Everything runs under a virtual clock as well: time comes from the `Clock` port and anyio, nothing uses
threads, and what looks random is injected.
"""

from vworkspace_app.runtime.clock import SystemClock
from vworkspace_app.runtime.definitions import poke_when_served, slim_definition
from vworkspace_app.runtime.driver import Driver, Reconcile
from vworkspace_app.runtime.driver_account import DriverStats
from vworkspace_app.runtime.election import Elector, Fence, LeaseLost
from vworkspace_app.runtime.informer import InformerRunner
from vworkspace_app.runtime.informer_account import InformerStats
from vworkspace_app.runtime.informers import Informers
from vworkspace_app.runtime.observer import DriverObserver, LoggingObserver, Reconciled
from vworkspace_app.runtime.resync import resync

__all__ = [
    "Driver",
    "DriverObserver",
    "DriverStats",
    "Elector",
    "Fence",
    "InformerRunner",
    "InformerStats",
    "Informers",
    "LeaseLost",
    "LoggingObserver",
    "Reconcile",
    "Reconciled",
    "SystemClock",
    "poke_when_served",
    "resync",
    "slim_definition",
]
