"""`python -m tests`: all tests, in two lanes at the same time.

Most of them wait for Java to start, for servers and for deadlines: one lane alone leaves half of two cores idle. What
needs one Spark session is in one lane, all else in the other. Each lane ends with the tests that took longest.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

LANES = (
    ("tests/acceptance", "tests/chaos", "tests/servers", "tests/unit"),
    ("tests/spark", "tests/golden"),
)


def main() -> int:
    """Run the lanes; the first is shown as it goes, the others once they have ended."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{number}.log") for number in range(len(LANES))]
        started = [
            subprocess.Popen(_command(lane), stdout=None if number == 0 else log.open("w"), stderr=subprocess.STDOUT)
            for number, (lane, log) in enumerate(zip(LANES, logs, strict=True))
        ]
        try:
            codes = [process.wait() for process in started]
        except BaseException:
            for process in started:
                process.terminate()
            raise
        for lane, log in list(zip(LANES, logs, strict=True))[1:]:
            print(f"\n{' '.join(lane)}:\n{log.read_text()}", flush=True)
        return max(map(abs, codes))


def _command(lane: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "pytest", "--durations=40", *lane, *sys.argv[1:]]


if __name__ == "__main__":
    sys.exit(main())
