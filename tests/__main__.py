"""`python -m tests`: all tests but the long forms, several files at the same time.

Most of them wait for Java to start, for servers and for deadlines: one worker for each core would leave cores idle. A
file stays with one worker, which has one Spark session for all its files, and so do files that share servers or a
warehouse. Those that take longest come first, in the order of their folders. What took longest is listed at the end.
"""

import os
import subprocess
import sys

WORKERS = max(2, (os.cpu_count() or 1) * 3 // 2)


def main() -> int:
    """Run them; arguments go to pytest."""
    several = [f"--numprocesses={WORKERS}", "--dist=loadscope", "--no-loadscope-reorder"]
    return subprocess.run([sys.executable, "-m", "pytest", *several, "--durations=60", *sys.argv[1:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
