"""The settings of Python's runtime for a process that runs for months: less memory, and less garbage collection."""

import gc
import linecache
from asyncio.sslproto import SSLProtocol
from typing import Final

_COLLECTED_AFTER: Final = 5_000
"""The number of new objects after which Python looks for unused cycles. With Python's default of 700, this takes 6 % of
a busy operator's processor time, and finds next to nothing.
"""
_TLS_BUFFER: Final = 32 * 1024
"""The bytes of the read buffer of a TLS connection. asyncio of CPython 3.11 allocates 256 kB for each, which is 8 MB
for the watches and requests of one operator; a TLS record has at most 16 kB.
"""


def reduce_footprint() -> None:
    """Make the buffers of TLS connections smaller, and let the garbage collector run less often.

    Everything that is loaded by now is exempt from garbage collection. attrs keeps the source of each method that it
    generates for tracebacks, which is 2 MB: it is dropped. These settings affect the whole process, so only a main
    program may call this function, never a library.
    """
    SSLProtocol.max_size = _TLS_BUFFER
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
