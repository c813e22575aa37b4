"""The strategies of the kit need the core alone; its clusters run controllers, which are the app's."""

from importlib.util import find_spec

collect_ignore = (
    []
    if find_spec("anyio")
    else ["test_kit_cluster.py", "test_kit_laws.py", "test_kit_pure_reconciler.py", "test_kit_shop.py"]
)
