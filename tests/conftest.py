"""What holds for all tests: programs they start keep nothing where the developer's do, and can be interrupted."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.certificates import write_certificate

# Hypothesis fails an example that takes longer than 200 ms, and a test whose examples are slow to draw: on a busy
# machine, any of them. What is slow is found by the benchmarks.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

ROOM = 2 << 30
"""Bytes that must be free where the tests keep their files: ten times what they take."""


def pytest_configure() -> None:
    """Keep the files of tests in memory where there is room: a store waits for the disk at each of its transactions."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK) or os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(memory).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folders alone whose tests the marks leave out: to import their libraries takes seconds."""
    name = collection_path.name
    is_left_out = name in {"browser", "interop"} and f"not {name}" in config.option.markexpr
    return (is_left_out and collection_path.parent == Path(__file__).parent) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a marked test outside the folders that the target of its mark names: it would never run."""
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r'pytest .*-m "?(\w+).*?((?: tests/\S+)+) \$\(ARGS\)', makefile)
    folders = {mark: tuple(named.split()) for mark, named in targets}
    for item in items:
        for mark in item.iter_markers():
            if not item.nodeid.startswith(folders.get(mark.name, "")):
                raise pytest.UsageError(
                    f"make runs the tests with the mark {mark.name} in {folders[mark.name]} only, not {item.nodeid}"
                )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collecting the tests makes, a million objects, out of all garbage collections.

    While they are made there is no garbage, and to look for it takes a third of the time. Later, tests that look for
    leaks collect often, and each time all of these objects would be looked at: most of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


TOLD_BY_MACHINE = ("CI", "SSH_CONNECTION", "SSH_TTY", "BROWSER", "NO_COLOR", "FORCE_COLOR", "EDITOR", "VISUAL", "NETRC")
"""Variables that some machines set and that change what programs here do; a test sets those that it is about."""


@pytest.fixture(scope="session", autouse=True)
def state_of_their_own(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[None]:
    """Give the tests, and programs that they start, a state folder of their own, no keyring and no machine's wishes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in TOLD_BY_MACHINE:
            patch.delenv(name, raising=False)
        patch.setitem(os.environ, "XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        if "not interop" in pytestconfig.option.markexpr and "ANTIPHON_LIVE" not in os.environ:
            # No test calls a public site, yet many clients would read the certificates of all authorities: 20 ms each.
            patch.setitem(os.environ, "SSL_CERT_FILE", str(write_certificate(tmp_path_factory.mktemp("trusted"))[0]))
        # The library chooses once in a process: without this, one that a test defined, wherever it was asked first.
        patch.setitem(os.environ, "PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_stores() -> Iterator[float]:
    """Wait for a store as long as a machine may be busy: a transaction has taken six seconds on one.

    The value is the usual time.
    """
    from antiphon.sql import database_store

    usual = database_store.PATIENCE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_store, "PATIENCE", 60.0)
        yield usual


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let programs that the tests start be interrupted, though the tests run in a shell's background or under nohup."""
    # There these are ignored, and what is ignored is inherited; a handler is not.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
