"""A program in a network of its own reaches nothing but itself, and is otherwise started as any other."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from antiphon.client.connection import isolation
from antiphon.client.connection.isolation import NetworkNamespace
from antiphon.client.connection.targets import Command
from antiphon.transports.stdio.client import child_environment

TELL = (
    "import json, os, signal, sys\nprint(json.dumps([os.getuid(), os.getgid(), sys.argv, {**os.environ}, os.getcwd()]))"
)
LOOPBACK = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    print(server.accept()[1] == client.getsockname())
"""
LEAVE = """
import ctypes, os, sys
tries = []
for pid in (sys.argv[1], "1"):
    for name in ("user", "net", "mnt"):
        try:
            tries.append(ctypes.CDLL(None).setns(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), 0))
        except OSError:
            tries.append(-1)
print(set(tries))
"""


def run_alone(alone: NetworkNamespace, code: str, *words: str, **env: str) -> str:
    """Run Python code in the network as a command of a server would be; return what it has printed."""
    command = alone.move_command(Command(argv=[sys.executable, "-c", code, *words], env=env))
    done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr


def test_nothing_of_this_machine_or_the_network_is_reached(alone: NetworkNamespace):
    """A port that is open here is closed there, an address cannot be routed, and both are counted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        reach = f"import socket; socket.create_connection({place!r}, 5)"
        assert alone.count_attempts() == 0
        assert "refused" in run_alone(alone, reach)
    assert alone.count_attempts() == 1
    assert "unreachable" in run_alone(alone, "import socket; socket.create_connection(('192.0.2.1', 443), 5)")
    assert alone.count_attempts() == 2


def test_its_own_loopback_works(alone: NetworkNamespace):
    """Servers that speak to a process of their own over it go on working."""
    assert run_alone(alone, LOOPBACK) == "True"


def test_a_program_cannot_go_back_to_the_network_of_this_machine(alone: NetworkNamespace):
    """No namespace of ours can be entered, also by the superuser."""
    assert run_alone(alone, LEAVE, str(os.getpid())) == "{-1}"


def test_a_program_is_started_as_it_would_be_without_isolation(alone: NetworkNamespace):
    """User, group, words, folder and all variables are the same."""
    env = {"NAME": "a=b\n", "LC_ALL": "C.UTF-8", "PYTHONPATH": "nowhere"}
    user, group, words, variables, folder = json.loads(run_alone(alone, TELL, "--x", "", **env))
    assert (user, group, words, folder) == (os.getuid(), os.getgid(), ["-c", "--x", ""], str(Path.cwd()))
    assert variables == child_environment(env)


def test_a_program_that_ends_the_holder_gains_nothing(alone: NetworkNamespace):
    """Whatever is started then does not start at all, and nothing is raised."""
    assert run_alone(alone, f"import os; os.kill({alone._holder.pid}, 9)") == ""
    assert "cannot be started: No such file or directory: /proc/" in run_alone(alone, LOOPBACK)
    assert alone.count_attempts() == 0


def test_a_system_that_forbids_it_says_so_and_nothing_is_left():
    """Where no further namespace may be made, the program ends with all that could hold its output open."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *isolation._PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == os.strerror(errno.ENOSPC)
