"""Runs one server and ends it, with all its children, when this program's standard input closes.

The pipe closes when the tests say so, and also when they die without a word: no server outlives them. Run as a
file with one argument, a JSON object: the command, the user to run it as, and the signal that asks it to end.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import psutil

PATIENCE = 10
"""Seconds between asking and killing."""


def end(server: psutil.Process, polite: int) -> None:
    """Ask the server to end, and kill what is left of it: children may sit in process groups of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [server, *server.children(recursive=True)]
        server.send_signal(polite)
        psutil.wait_procs([server], timeout=PATIENCE)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def main(task: str) -> int:
    """The server's own exit code."""
    wanted = json.loads(task)
    user = {"user": wanted["user"], "group": wanted["user_group"], "extra_groups": ()} if wanted["user"] else {}
    server = subprocess.Popen(wanted["command"], stdin=subprocess.DEVNULL, start_new_session=True, **user)
    seen, ending = psutil.Process(server.pid), threading.Event()

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        ending.set()
        end(seen, wanted["polite"])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    code = server.wait()
    if ending.is_set():
        watcher.join()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)  # what it left behind when it ended by itself
    return code


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the pipe alone decides; ignored for good, the server would inherit it
    sys.exit(main(sys.argv[1]))
