"""The machine of a measurement, and how medians are printed."""

import os
import platform
import statistics
from collections.abc import Sequence


def describe() -> str:
    """Return one line: processor, cores, Python."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            names = [row.partition(":")[2].strip() for row in info if row.startswith("model name")]
        model = names[0] if names else model
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"


def line(what: str, samples: Sequence[float], unit: str, aim: str = "") -> str:
    """Return `what: median (min to max of n) unit`, with the aim if there is one."""
    middle, low, high = statistics.median(samples), min(samples), max(samples)
    digits = 0 if middle >= 100 else 2
    told = (
        f"{what}: median {middle:,.{digits}f} {unit} (min {low:,.{digits}f}, max {high:,.{digits}f}, n={len(samples)})"
    )
    return f"{told}; aim: {aim}" if aim else told
