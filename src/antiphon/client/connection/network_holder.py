"""The program with which ``isolation`` starts others: run by its path, without our package and without their variables.

Alone it makes a network that reaches nothing but its own loopback, says "ready", and holds it until its input ends.
With a process id and a command it joins the network of that process, and becomes the command. User, groups and files
stay what they are. What it starts cannot leave the network, not even as the superuser, because a namespace of users
takes from it all rights over other namespaces.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

NEW_USER, NEW_NETWORK, SET_FLAGS, UP = 0x10000000, 0x40000000, 0x8914, 1  # as Linux numbers them
PREFIX, MARK = "ANTIPHON_SET_", "ANTIPHON_CHILD"  # of the command's variables; what the reaper finds it by


def _call_system(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def hold_network() -> None:
    """Make the network, bring its loopback up, say so, and hold it until standard input ends."""
    import fcntl  # not above: whoever joins the network, before each start of a server, needs neither
    import socket

    try:
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.close(writer)  # so that the end of the other copy is seen if it may not leave
            os._exit(map_ids(os.getppid()) if os.read(reader, 1) else 1)
        _call_system("unshare", NEW_USER | NEW_NETWORK)
        os.write(writer, b".")
        if os.waitpid(child, 0)[1]:
            raise OSError("the ids of users cannot be mapped")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            fcntl.ioctl(asked, SET_FLAGS, b"lo".ljust(16, b"\0") + UP.to_bytes(2, sys.byteorder) + bytes(14))
    except OSError as error:
        os.write(1, f"{error.strerror or error}\n".encode())
        return
    os.write(1, b"ready\n")
    sys.stdin.read()


def map_ids(pid: int) -> int:
    """Give a process the ids that it had, all of them if we may; return an exit code."""
    from pathlib import Path

    for kind, own in (("uid", os.geteuid()), ("gid", os.getegid())):
        place = Path(f"/proc/{pid}")
        ranges = [line.split() for line in (place.parent / "self" / f"{kind}_map").read_text().splitlines()]
        try:
            (place / f"{kind}_map").write_text("".join(f"{first} {first} {count}\n" for first, _, count in ranges))
        except OSError:
            try:
                (place / "setgroups").write_text("deny")
                (place / f"{kind}_map").write_text(f"{own} {own} 1")
            except OSError:
                return 1
    return 0


def join_network(pid: str, command: list[str]) -> None:
    """Join the network of a process, and become the command; its variables are those with the prefix."""
    for name, kind in (("user", NEW_USER), ("net", NEW_NETWORK)):
        _call_system("setns", os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
    # Python ignores these two, and a program inherits that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    env = {name.removeprefix(PREFIX): text for name, text in os.environ.items() if name.startswith((PREFIX, MARK))}
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    try:
        join_network(sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else hold_network()
    except OSError as error:
        sys.exit(f"antiphon: the server {sys.argv[2]!r} cannot be started: {error.strerror}: {error.filename}")
