"""What is created at most once in its owner's life (OPS-1, L20).

The intent stands in the owner's status before the create; a finalizer keeps the object until its uid stands there too.
So nothing is made twice, whenever the process dies.
"""

import attrs


@attrs.frozen
class CreateRecord:
    """What the owner's status says of one such object: an intent while `uid` is empty, done once it is not."""

    node: str
    name: str
    namespace: str = ""
    item: str = ""
    uid: str = ""
