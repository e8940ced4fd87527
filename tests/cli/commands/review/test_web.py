"""``antiphon review --web``: the store's queue as a page, until Ctrl-C."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from antiphon.host import Queue
from antiphon.host.store import open_store
from antiphon.machine.public_names import describe_install
from antiphon.web.site import ARMING
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, ROOT, environment
from tests.cli.waiting import waiting
from tests.support.without_page import hide_page_packages
from tests.web.pages import visitor

ADDRESS = re.compile(r"Review page: (http://\S+)\n")


@contextmanager
def served(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the page in a process of its own; yields the process and the address it prints."""
    command = [*COMMAND, "review", *options]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(BROWSER=""), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = ADDRESS.match(process.stderr.readline())
        assert found
        assert process.stderr.readline() == "(the address opens it once, in one browser)\n"
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


async def opened(address: str) -> str:
    """Open the page, and return what it shows."""
    async with visitor(follow_redirects=True) as client:
        return (await client.get(address)).text


def csrf(page: str) -> str:
    """Read the token of a page."""
    found = re.search(r'<meta name="csrf" content="([^"]+)"', page)
    assert found, page
    return found[1]


async def test_a_request_of_another_process_is_approved_on_the_page(tmp_path: Path, cli: Cli):
    """Whoever asked has the answer; Ctrl-C ends the page quietly."""
    async with waiting(tmp_path / "host.db", cli) as desk:
        asked = await desk.ask()
        question = await desk.pending()
        with served("--web", "--store", desk.place) as (process, address):
            origin = address.partition("/open")[0]
            async with visitor(follow_redirects=True) as client:
                page = (await client.get(address)).text
                assert question.id in page
                shown = (await client.get(f"{origin}/review/{question.id}")).text
                digest = re.search(r'name="digest" value="(\w+)"', shown)
                stamp = re.search(r'name="shown" value="([\w.]+)"', shown)
                assert digest
                assert stamp
                whole = re.search(r'name="hash" value="(\w+)"', shown)
                assert whole
                # What was sent just now is not decided at once: the page waits as a person would.
                await asyncio.sleep(ARMING)
                headers = {"Origin": origin, "X-CSRF-Token": csrf(page), "Accept": "application/json"}
                data = {"digest": digest[1], "hash": whole[1], "shown": stamp[1]}
                done = await client.post(f"{origin}/review/{question.id}/approve", data=data, headers=headers)
            assert done.json()["done"] == "Approved."
            assert (await asked).text == "one"
            process.send_signal(signal.SIGINT)
            _, said = await asyncio.to_thread(process.communicate, timeout=60)
            assert (process.returncode, "Traceback" in said) == (130, False)


async def test_a_restart_keeps_the_queue(tmp_path: Path, cli: Cli):
    """The page is killed; the next one has the question still, at an address of its own."""
    async with waiting(tmp_path / "host.db", cli) as desk:
        await desk.ask()
        question = await desk.pending()
        for _ in range(2):
            with served("web", "--store", desk.place) as (process, address):
                async with visitor(follow_redirects=True) as client:
                    assert question.id in (await client.get(address)).text
                process.kill()


def test_a_new_store_is_made(tmp_path: Path):
    """The page may be there before the first question is."""
    with served("--web", "--store", str(tmp_path / "new.db")) as (_, address):
        assert "Nothing is waiting" in asyncio.run(opened(address))

    async def pending() -> int:
        store = open_store(tmp_path / "new.db")
        found = await Queue(store).pending()
        await store.aclose()
        return len(found)

    assert asyncio.run(pending()) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "the page is served on this machine only"),
        (("--store", "memory"), "a store in memory is seen by its own process only"),
        (("--port", "65536"), "65536"),
    ],
)
def test_what_cannot_be_is_wrong_usage(options: tuple[str, ...], said: str, cli: Cli):
    """With the reason."""
    where = () if "--store" in options else ("--store", "new.db")
    done = cli("review", "--web", *where, *options)
    assert done.code == 2
    assert said in done.err


def test_missing_packages_are_named_with_the_remedy(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """In one line, with exit code 2."""
    hide_page_packages(monkeypatch)
    done = cli("review", "--web", "--store", "new.db")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "needs more packages" in done.err
    assert describe_install("host") in done.err


@pytest.mark.parametrize(
    ("typed", "code"), [("correct horse\nbattery\n", 0), ("horse\n", 1), ("", 1), (f"{'x' * 1001}\n", 1)]
)
def test_a_password_becomes_what_the_file_of_people_has(typed: str, code: int):
    """From a pipe the first line; one that is too short or too long is refused, with a sentence."""
    command = [*COMMAND, "review", "password"]
    made = subprocess.run(
        command, input=typed, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert made.returncode == code
    if code:
        assert (made.stdout, "12 to 1000 characters" in made.stderr) == ("", True)
    else:
        assert PasswordHasher().verify(made.stdout.strip(), "correct horse")
