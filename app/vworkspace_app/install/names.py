"""The name of the operator's Deployment and other objects, and their labels. The module imports nothing else, so it is
fast to import.
"""

from typing import Final

NAME: Final = "vworkspace-operator"
OWN_NAMESPACE: Final = "vworkspace-system"
"""The namespace of an installation that names none."""
DEPLOYMENTS: Final = (NAME, f"{NAME}-shard-0")
"""The names that the operator's Deployment may have; of several shards, the first one's."""
INSTANCE_LABELS: Final = {"app.kubernetes.io/name": NAME}
"""The labels by which Services, budgets and policies select the operator's pods.

They contain no version, since selectors are immutable.
"""
APPLIED_BOXES: Final = "vworkspace-boxes"
"""The name of all objects of the installation that runs applied boxes (OperatorBoxes), including its ServiceAccount."""
