"""The time and memory of this process: its servers are other processes and do not count."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import NamedTuple


class Instant(NamedTuple):
    """A moment and the CPU time used until then, or the difference of two moments."""

    seconds: float
    cpu: float

    def until(self, later: Instant) -> Instant:
        """The time and the CPU time from this moment to a later one."""
        return Instant(later.seconds - self.seconds, later.cpu - self.cpu)


def now() -> Instant:
    """The present moment."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Instant(time.perf_counter(), usage.ru_utime + usage.ru_stime)


def cpu_of(pid: int) -> float:
    """CPU seconds of another process so far; 0 where the system cannot tell."""
    try:
        # Linux makes a clock's number from a process's: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def resident() -> float:
    """KiB of memory in use now; the highest value so far where the system cannot tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024
