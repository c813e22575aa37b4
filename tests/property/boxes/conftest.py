"""The laws of a box need the core alone; those of a roll-out run the process that takes boxes, which is the app's."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("anyio") else ["test_rollout_world.py"]
