"""Code of tests in a process of its own, and the memory that a call takes there."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path


def run(code, *, timeout=50, flags=(), **environment):
    """Output of a fresh interpreter, which can import what lies beside this file; its error output is part of the failure."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    settings = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **environment,
    }
    command = [sys.executable, *flags, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def measured(call):
    """Bytes of anonymous memory that a call takes at most, above what the process had before (Linux)."""
    base, peak, over = _anonymous(), [0], threading.Event()

    def watch():
        while not over.is_set():
            peak[0] = max(peak[0], _anonymous())
            time.sleep(0.002)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    call()
    over.set()
    thread.join()
    return peak[0] - base


def _anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024
