"""Runs a program under Frida's Stalker, which follows the main thread and counts calls.

Usage: stalk.py OUT PROGRAM ARGUMENT...; the module frida must be installed (pip install frida). The program is no child of this one, so
its CPU time, as it was when last looked at, is written to OUT, in seconds.
"""

import glob
import sys
import threading
import time

import frida

SCRIPT = """
const calls = new Map();
rpc.exports = {
  follow(thread) {
    Stalker.follow(thread, {
      events: { call: true },
      onCallSummary(summary) {
        for (const [target, count] of Object.entries(summary)) calls.set(target, (calls.get(target) || 0) + count);
      },
    });
  },
};
"""


def cpu_seconds(pid, before):
    try:
        return sum(int(open(path).read().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) * 1e-9 or before
    except OSError:
        return before


def main():
    out, *command = sys.argv[1:]
    done = threading.Event()
    device = frida.get_local_device()
    pid = device.spawn(command[0], argv=command, stdio="inherit")
    session = device.attach(pid)
    session.on("detached", lambda *reason: done.set())
    script = session.create_script(SCRIPT)
    script.load()
    device.resume(pid)
    # A thread that has not run yet cannot be followed.
    time.sleep(0.01)
    script.exports_sync.follow(pid)
    seconds = 0.0
    while not done.wait(0.01):
        seconds = cpu_seconds(pid, seconds)
    with open(out, "w") as file:
        file.write(f"{seconds}\n")


if __name__ == "__main__":
    main()
