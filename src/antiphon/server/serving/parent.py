"""The process that starts workers, accepts connections, and hands each to the worker with the fewest.

Only this process listens, so a worker that dies or is replaced loses only the connections that it serves, and none that
wait to be accepted. A worker that is held up gets no new ones, since it does not report that its own have ended. A
worker is this program, started again: it inherits no threads, locks or connections, and it runs the present code when
it replaces another one (SIGHUP).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from antiphon.errors import AntiphonError
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.machine.listening_sockets import accept_rest
from antiphon.replicas.engines.unix import Hub
from antiphon.server.serving import worker_link

log = logging.getLogger("antiphon.server")

START = 60.0
"""Seconds within which a worker must begin to serve."""

STOP = 30.0
"""Seconds that a worker has to end: five for its open requests, the rest for the lifespan of the server."""

FINISH = 600.0
"""Seconds that a replaced worker has for its open requests, which may wait for a person."""

_HURRY = 5.0
"""The same when the workers are replaced again, or the server stops."""

_TURN = 5.0
"""Seconds after which the next worker is replaced, even if the one before still has open requests."""

_PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 15.0)
"""Seconds before a worker that died is started again, by the number of early deaths in a row."""

_EARLY = 10.0
"""Seconds of life below which a death is early."""

_AGAIN = 0.05
"""Seconds until connections are accepted again after no worker could take one."""

_AT_ONCE = 64
"""Most connections that are accepted in one pass of the event loop."""


class Worker:
    """One process that serves, as its parent sees it."""

    def __init__(
        self, number: int, heard: Callable[[Worker, worker_link.Message, socket.socket | None], object], hub: Hub
    ) -> None:
        self.number = number
        self.name = ""
        """Its name in the cluster; empty until it serves."""
        self.given = 0
        """Number of connections it was given."""
        self.ended_connections = 0
        """Number of these that have ended, by its last report."""
        self.is_ready = False
        self.is_leaving = False
        self.since = asyncio.get_running_loop().time()
        self.began = asyncio.Event()
        """Set when it serves, or has ended without serving."""
        self.ended = asyncio.Event()
        self.over = asyncio.Event()
        """Set when it has ended or was replaced."""
        self._is_told = False
        self._ending: asyncio.Task[None] | None = None
        """Ends it, after the hub has given it up."""
        self.process, (ours, self._life, shared) = _start_worker()
        hub.serve(shared, self._replace_worker)
        self.link = worker_link.WorkerLink(ours)
        self.link.start(lambda message, connection: heard(self, message, connection))
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop,), name=f"worker {number}", daemon=True).start()

    @property
    def open(self) -> int:
        """Number of connections it was given that have not ended."""
        return self.given - self.ended_connections

    @property
    def is_serving(self) -> bool:
        """Whether it can be given connections."""
        return self.is_ready and not self.is_leaving and not self.ended.is_set()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self.process.wait()
        with contextlib.suppress(RuntimeError):
            # The loop may be closed already if the process had to be killed.
            loop.call_soon_threadsafe(self._note_end)

    def _note_end(self) -> None:
        self.link.close()
        self._life.close()
        self.ended.set()
        self.over.set()
        self.began.set()

    def _replace_worker(self) -> None:
        """Have another one take its place: the others cannot reach it any more, nor can it reach them."""
        log.warning("worker %d has read nothing of what the others sent for too long, and is ended", self.number)
        self._ending = asyncio.get_running_loop().create_task(self.leave())

    async def has_begun(self) -> bool:
        """Wait until it serves, and return whether it does; kill it if that takes more than ``START``."""
        try:
            async with asyncio.timeout(START):
                await self.began.wait()
        except TimeoutError:
            log.warning("worker %d did not begin to serve within %g s, and is killed", self.number, START)
            self.signal(signal.SIGKILL)
        if self.is_ready:
            return True
        await self.ended.wait()
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def finish(self, grace: float) -> None:
        """Tell it to give its connections back, and to end within these seconds and ``STOP``."""
        self._is_told = True
        self.link.send(worker_link.Leave(grace))

    async def leave(self, grace: float = 0.0) -> None:
        """Let it finish its open requests, and end; kill it if it does not.

        ``grace``: seconds in which it gives its connections to other workers and finishes; with 0 it closes them.
        """
        self.is_leaving = True
        if grace or self._is_told:
            self.finish(grace or _HURRY)
        else:
            self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP + grace):
                await self.ended.wait()
        except TimeoutError:
            log.warning("worker %d did not end within %g s, and is killed", self.number, STOP + grace)
            self.signal(signal.SIGKILL)
            await self.ended.wait()

    @property
    def fate(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"


def _start_worker() -> tuple[subprocess.Popen[bytes], list[socket.socket]]:
    """Start this program again, as a worker; return its process, and our ends of what ``worker_link.Ends`` has.

    Ctrl-C reaches all processes of a terminal. A worker is started with SIGINT blocked, so that only its parent acts on
    it; the parent gets a SIGINT that arrives meanwhile when the worker was started.
    """
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        pairs: list[tuple[socket.socket, socket.socket]] = []
        for _ in range(3):
            own, other = socket.socketpair()
            pairs.append((ours.enter_context(own), theirs.enter_context(other)))
        files = [other.fileno() for _, other in pairs]
        environment = {**os.environ, worker_link.VARIABLE: ",".join(map(str, files))}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]], stdin=subprocess.DEVNULL, env=environment, pass_fds=files
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ours.pop_all()
    return process, [own for own, _ in pairs]


class Parent:
    """Keeps a number of workers running, and gives them the connections that arrive."""

    def __init__(
        self, count: int, listening: Sequence[socket.socket], on_listening: Callable[[int], object] | None = None
    ) -> None:
        self._count = count
        self._listening = listening
        self.on_listening = on_listening
        """Called with the port when the first worker serves; ``None`` from then on."""
        self._key = os.urandom(32)
        self._hub = Hub()
        """The sessions and messages that workers share, unless the server has a cluster of its own."""
        self._workers: dict[int, Worker] = {}
        """The workers by number."""
        self._others: set[Worker] = set()
        """Replacements that do not serve yet, and workers that were replaced."""
        self._keepers: list[asyncio.Task[None]] = []
        self._rolling: asyncio.Task[None] | None = None
        self._is_roll_wanted = False
        self._finishing: set[asyncio.Task[None]] = set()
        """Waits for replaced workers, which finish their open requests."""
        self._failures = 0
        self._turn = 0
        self._held: deque[tuple[socket.socket, worker_link.TakeConnection]] = deque()
        """Connections that no worker could take yet."""
        self._again: asyncio.TimerHandle | None = None
        """The timer until connections are accepted again."""
        self._stopping = asyncio.Event()
        self._failed: str | None = None
        # Started with nohup (SIGHUP ignored), it goes on without its terminal.
        self._ends_with_terminal = _has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    async def run(self) -> None:
        """Serve until a signal says to stop.

        Raises ``AntiphonError``: no worker could be started; each has printed why.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        self._keepers = [loop.create_task(self._keep(number)) for number in range(1, self._count + 1)]
        for each in self._listening:
            each.setblocking(False)
        self._accept_again()
        await self._stopping.wait()
        await self._end()
        if self._failed is not None:
            raise AntiphonError(self._failed)

    # --- workers ------------------------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep one worker running: start it, and another one each time it ends; give up if none serves."""
        while not self._stopping.is_set():
            is_late = False
            try:
                worker = self._workers[number] = self._start(number)
            except OSError as error:
                fate = f"could not be made: {error}"
                self._give_up(fate)
            else:
                if await worker.has_begun():
                    worker = await self._wait_over(number)
                    self._tell_others()
                else:
                    self._give_up(f"{worker.fate}; its output is above")
                fate = worker.fate
                is_late = asyncio.get_running_loop().time() - worker.since >= _EARLY
            self._failures = 0 if is_late else self._failures + 1
            if not self._stopping.is_set():
                log.warning("worker %d %s; another one is started", number, fate)
                await asyncio.sleep(_PAUSES[min(max(0, self._failures - self._count), len(_PAUSES) - 1)])

    async def _wait_over(self, number: int) -> Worker:
        """Wait until the worker of a number ends that is not replaced by another one, and return it."""
        while True:
            worker = self._workers[number]
            await worker.over.wait()
            if self._workers[number] is worker:
                return worker

    def _start(self, number: int) -> Worker:
        """Start a worker; raise ``OSError`` where there are too many processes or open files, for example."""
        worker = Worker(number, self._heard, self._hub)
        worker.link.send(worker_link.Welcome(self._key))
        return worker

    def _give_up(self, fate: str) -> None:
        """Stop if no worker serves, and every one of them has failed."""
        if not any(each.is_serving for each in self._workers.values()) and self._failures + 1 >= self._count:
            self._failed = f"no worker could be started: the last one {fate}"
            self._stop()

    def _heard(self, worker: Worker, message: worker_link.Message, connection: socket.socket | None) -> None:
        match message:
            case worker_link.Ready():
                worker.name = message.name
                worker.is_ready = True
                worker.began.set()
                self._tell_others()
                on_listening, self.on_listening = self.on_listening, None
                if on_listening is not None and not self._stopping.is_set():
                    on_listening(self._listening[0].getsockname()[1])
            case worker_link.Closed():
                worker.ended_connections = message.count
            case worker_link.Move() if connection is not None:
                self._place(connection, worker_link.TakeConnection(message.request), message.name)
            case _:
                pass

    def _serving(self) -> list[Worker]:
        return [each for each in self._workers.values() if each.is_serving]

    def _tell_others(self) -> None:
        """Tell the workers which of them can be given connections."""
        others = worker_link.Others([each.name for each in self._serving()])
        for worker in self._workers.values():
            worker.link.send(others)

    # --- connections --------------------------------------------------------------------------------------------

    def _accept_again(self) -> None:
        self._again = None
        while self._held and self._hand_over(*self._held[0]):
            self._held.popleft()[0].close()
        if self._held:
            self._pause()
        elif not self._stopping.is_set():
            for each in self._listening:
                asyncio.get_running_loop().add_reader(each.fileno(), self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        """Accept what has connected, and give each connection to the worker with the fewest."""
        for _ in range(_AT_ONCE):
            if self._held or not self._serving():
                self._pause()
                return
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                # For example, too many files are open.
                log.warning("connections cannot be accepted now: %s", error)
                self._pause()
                return
            self._place(connection, worker_link.TakeConnection())

    def _place(self, connection: socket.socket, take: worker_link.TakeConnection, name: str = "") -> None:
        """Give a connection to the worker of this name, or else to the one with the fewest, once one takes it."""
        if self._hand_over(connection, take, name):
            connection.close()
        else:
            self._held.append((connection, take))
            self._pause()

    def _hand_over(self, connection: socket.socket, take: worker_link.TakeConnection, name: str = "") -> bool:
        self._turn += 1

        def rank(each: Worker) -> tuple[bool, int, int]:
            return each.name != name, each.open, (each.number + self._turn) % self._count

        for worker in sorted(self._serving(), key=rank):
            if worker.link.hand_over(connection, take):
                worker.given += 1
                return True
        return False

    def _pause(self) -> None:
        """Accept nothing for a moment: no worker could take it."""
        if self._again is None:
            loop = asyncio.get_running_loop()
            for each in self._listening:
                loop.remove_reader(each.fileno())
            self._again = loop.call_later(_AGAIN, self._accept_again)

    # --- signals ------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        if self._stopping.is_set():
            # A second signal: do not wait.
            for worker in (*self._workers.values(), *self._others):
                worker.signal(signal.SIGKILL)
        self._stopping.set()

    def _hung_up(self) -> None:
        """Replace the workers one by one; or stop, if the signal says that the terminal is gone."""
        if self._ends_with_terminal and not _has_terminal():
            self._stop()
        else:
            self.roll()

    def roll(self) -> None:
        """Replace the workers one by one, by ones that run the present code; the old ones go on if a new one fails."""
        self._is_roll_wanted = True
        if self._rolling is None or self._rolling.done():
            self._rolling = asyncio.get_running_loop().create_task(self._roll_while_wanted())

    def end_starting(self) -> None:
        """Kill the workers that do not serve yet, since the code that they load has changed again."""
        for each in (*self._workers.values(), *self._others):
            if not each.began.is_set():
                each.signal(signal.SIGKILL)

    async def _roll_while_wanted(self) -> None:
        """Replace the workers; if another SIGHUP comes meanwhile, once more, since the code may have changed again."""
        while self._is_roll_wanted:
            self._is_roll_wanted = False
            await self._roll()

    async def _roll(self) -> None:
        log.info("the workers are replaced, one after the other")
        for each in self._others:
            # Workers that were replaced earlier and have not ended yet must not add up.
            each.finish(_HURRY)
        for number in list(self._workers):
            try:
                new = self._start(number)
            except OSError as error:
                log.warning("the workers are not replaced: the new one could not be made: %s", error)
                return
            self._others.add(new)
            has_begun = await new.has_begun()
            self._others.discard(new)
            if not has_begun:
                if not self._is_roll_wanted:
                    log.error("the workers are not replaced: the new one %s; the old ones go on", new.fate)
                return
            old, self._workers[number] = self._workers[number], new
            self._others.add(old)
            # The old worker gets no more connections.
            old.is_leaving = True
            old.over.set()
            self._tell_others()
            finishing = start_in(self._finishing, self._finish(old))
            await asyncio.wait((finishing,), timeout=_TURN)
        log.info("the workers are replaced")

    async def _finish(self, old: Worker) -> None:
        await old.leave(FINISH)
        self._others.discard(old)

    async def _end(self) -> None:
        for each in self._listening:
            asyncio.get_running_loop().remove_reader(each.fileno())
        if self._again is not None:
            self._again.cancel()
        rest = [
            (connection, worker_link.TakeConnection()) for each in self._listening for connection in accept_rest(each)
        ]
        for connection, take in (*self._held, *rest):
            # To a worker that answers it before it leaves, if one takes it.
            self._hand_over(connection, take)
            connection.close()
        await end_tasks(*self._keepers, *self._finishing, self._rolling)
        for worker in self._workers.values():
            worker.is_leaving = True
        self._tell_others()
        await asyncio.gather(*(each.leave() for each in (*self._workers.values(), *self._others)))
        await self._hub.close()


def _has_terminal() -> bool:
    """Tell whether this process belongs to a terminal that is open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
