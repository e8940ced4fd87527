"""Signing in with a name and a password: who gets in, what guessing costs, and a file of people that is not right."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from antiphon.errors import ConfigError
from antiphon.host.config.settings import SignIn
from antiphon.web import password_sign_in
from antiphon.web.password_sign_in import MAX_CHECKING, MAX_FILE, MAX_WRONG, PAUSE, read_people
from tests.web.signing import ROLES, Browser, Team, is_let_in, team

SECRET = "correct horse é"
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
HASH = CHEAP.hash(SECRET)
"""Made to be checked quickly."""
PEOPLE = f"""
[ann]
password = "{HASH}"
name = "Ann Lee"
groups = ["finance"]

[dee]
password = "{HASH}"
groups = ["platform"]

[eve]
password = "{HASH}"
"""


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also hash for a name that is not there with parameters that take no time."""
    monkeypatch.setattr(password_sign_in, "PasswordHasher", lambda: CHEAP)


@asynccontextmanager
async def small_team(folder: Path, people: str = PEOPLE) -> AsyncIterator[Team]:
    """Serve a page with a file of people."""
    (folder / "people.toml").write_text(people)
    async with team(passwords=str(folder / "people.toml")) as made:
        yield made


async def enter(made: Team, name: str, password: str = SECRET, then: str = "/", **headers: str) -> Attempt:
    """Send the form as a browser does."""
    browser = await made.browser()
    form = {"name": name, "password": password, "then": then}
    sent = {"Origin": made.origin, **headers}
    return Attempt(browser, await browser.client.post("/sign-in", data=form, headers=sent, follow_redirects=False))


class Attempt:
    """One attempt to sign in: the browser, and what it was answered."""

    def __init__(self, browser: Browser, answer: httpx.Response) -> None:
        self.browser, self.answer = browser, answer

    @property
    def fault(self) -> str:
        """What the form says is wrong; empty if nothing is."""
        return self.answer.text.partition('role="alert">')[2].partition("<")[0]


async def test_a_person_of_the_file_is_let_in_and_named_in_the_record(tmp_path: Path):
    """The issuer is the page itself; the browser is led to what it had asked for."""
    async with small_team(tmp_path) as made:
        asked = await (await made.browser()).client.get("/history?x=1", follow_redirects=False)
        form = await (await made.browser()).client.get(asked.headers["location"])
        assert 'name="then" value="/history?x=1"' in form.text
        ann = await enter(made, "ann", then="/history?x=1")
        assert (ann.answer.status_code, ann.answer.headers["location"]) == (303, "/history?x=1")
        session = next(each for each in ann.answer.headers.get_list("set-cookie"))
        assert "HttpOnly" in session
        assert "SameSite=strict" in session
        await ann.browser.client.get("/")
        question, task = await made.asked()
        page = (await ann.browser.client.get("/")).text
        ann.browser.csrf = page.partition('name="csrf" content="')[2].partition('"')[0]
        assert (await ann.browser.decide(question, "approve")).status_code == 200
        assert await task
        (record,) = [each for each in made.host.audit.records() if each.step == "review"]
        assert (record.by, record.people) == (f"Ann Lee <{made.origin} sub:ann>", (f"{made.origin} sub:ann",))
        assert (await ann.browser.post("/sign-out")).status_code == 200
        assert not await is_let_in(ann.browser)


async def test_a_password_that_was_typed_elsewhere_is_the_same(tmp_path: Path):
    """Letters that one system sends composed, another sends in two parts."""
    async with small_team(tmp_path) as made:
        assert (await enter(made, "ann", "correct horse e\u0301")).answer.status_code == 303


@pytest.mark.parametrize(
    ("name", "password"),
    [("ann", "wrong"), ("ann", ""), ("nobody", SECRET), ("Ann", SECRET), ("", ""), ("ann", HASH)],
    ids=["wrong", "none", "name", "letter", "nothing", "hash"],
)
async def test_nobody_else_is_let_in_and_learns_which_names_there_are(tmp_path: Path, name: str, password: str):
    """The same sentence, whatever was wrong."""
    async with small_team(tmp_path) as made:
        tried = await enter(made, name, password)
        assert (tried.answer.status_code, tried.fault) == (403, "Name or password is wrong.")
        assert not await is_let_in(tried.browser)
        chinese = await enter(made, name, password, **{"Accept-Language": "zh-CN"})
        assert chinese.fault == "用户名或密码不正确。"


async def test_who_has_no_role_is_told_so(tmp_path: Path):
    """The password was right, so the person may know."""
    async with small_team(tmp_path) as made:
        eve = await enter(made, "eve")
        assert "has no role here" in eve.fault
        assert not await is_let_in(eve.browser)


@pytest.mark.parametrize("name", ["ann", "nobody"])
async def test_guessing_has_to_pause(tmp_path: Path, name: str):
    """After some wrong passwords even the right one is refused for a while; other names are not."""
    async with small_team(tmp_path) as made:
        for _ in range(MAX_WRONG):
            assert (await enter(made, name, "wrong")).fault == "Name or password is wrong."
        assert (await enter(made, name)).fault.startswith("Too many wrong passwords")
        assert (await enter(made, "dee")).answer.status_code == 303
        made.ahead += PAUSE + 1
        assert (await enter(made, name, "wrong")).fault == "Name or password is wrong."
        assert (await enter(made, name)).fault.startswith("Too many wrong passwords")
        made.ahead += PAUSE + 1
        assert (await enter(made, name)).answer.status_code == (303 if name == "ann" else 403)
        if name == "ann":
            assert (await enter(made, name, "wrong")).fault == "Name or password is wrong."
            assert (await enter(made, name)).answer.status_code == 303


async def test_a_clock_that_is_set_back_makes_no_pause_longer(tmp_path: Path):
    """Who mistyped is not kept out for as long as the clock was set, and who guesses pauses as before."""
    async with small_team(tmp_path) as made:
        for _ in range(MAX_WRONG):
            await enter(made, "ann", "wrong")
        made.ahead -= 3600
        assert (await enter(made, "ann", "wrong")).fault == "Name or password is wrong."
        assert (await enter(made, "ann")).fault.startswith("Too many wrong passwords")
        made.ahead += PAUSE + 1
        assert (await enter(made, "ann")).answer.status_code == 303


async def test_a_pause_tells_nobody_which_names_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However many names were guessed before, another one is not paused yet; and a real one goes on pausing."""
    monkeypatch.setattr(password_sign_in, "_UNKNOWN", 2)
    async with small_team(tmp_path) as made:
        for _ in range(MAX_WRONG):
            await enter(made, "ann", "wrong")
        said = {(await enter(made, f"guess {number}")).fault for number in range(12)}
        assert said == {"Name or password is wrong."}
        assert (await enter(made, "ann")).fault.startswith("Too many wrong passwords")


async def test_attempts_at_the_same_time_are_counted_each(tmp_path: Path):
    """And more than a few wait for nobody: each takes much memory."""
    async with small_team(tmp_path) as made:
        tried = await asyncio.gather(*(enter(made, "ann", "wrong") for _ in range(2 * MAX_CHECKING)))
        assert sum(each.fault == "Name or password is wrong." for each in tried) == MAX_WRONG
        assert not any(each.answer.status_code == 303 for each in tried)


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_form_of_another_page_signs_nobody_in(tmp_path: Path, headers: dict[str, str]):
    """Or somebody would decide in the name of whoever made that page."""
    async with small_team(tmp_path) as made:
        assert (await enter(made, "ann", **headers)).answer.status_code == 403


@pytest.mark.parametrize("then", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:1", ""])
async def test_no_form_leads_to_another_site(tmp_path: Path, then: str):
    """Neither the one that is shown nor the one that is sent."""
    async with small_team(tmp_path) as made:
        assert (await enter(made, "ann", then=then)).answer.headers["location"] == "/"
        form = await (await made.browser()).client.get("/sign-in", params={"then": then})
        assert 'name="then" value="/"' in form.text


async def test_a_change_of_the_file_counts_at_the_next_sign_in(tmp_path: Path):
    """Also one that breaks it: then nobody gets in, and strangers learn nothing about the file."""
    async with small_team(tmp_path) as made:
        assert (await enter(made, "ann")).answer.status_code == 303
        (tmp_path / "people.toml").write_text(PEOPLE.replace("[ann]", "[anne]"))
        assert (await enter(made, "ann")).answer.status_code == 403
        assert (await enter(made, "anne")).answer.status_code == 303
        (tmp_path / "people.toml").write_text("[ann")
        broken = await enter(made, "anne")
        assert broken.fault.startswith("Nobody can sign in")
        assert "people.toml" not in broken.answer.text


async def test_a_hash_that_cannot_be_checked_is_a_broken_file(tmp_path: Path):
    """Its form is right, and its salt too short for the library."""
    broken = PEOPLE.replace(HASH, "$argon2id$v=19$m=64,t=1,p=1$YQ$aGFzaGhhc2g")
    async with small_team(tmp_path, broken) as made:
        assert (await enter(made, "ann")).fault.startswith("Nobody can sign in")


@pytest.mark.parametrize(
    ("people", "said"),
    [
        ("[ann", "people.toml: "),
        ("[ann]\nname = 'Ann'", "password"),
        ("[ann]\npassword = 'secret'", r"\[ann\] password is not a hash"),
        ("[ann]\npassword = '$argon2i$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$aGFzaA'", r"\[ann\] password is not a hash"),
        ("[ann]\npassword = '$argon2id$v=19$m=99999999,t=3,p=4$c29tZXNhbHQ$aGFzaA'", r"\[ann\] password is not a hash"),
        ("[ann]\npassword = '$argon2id$v=19$m=65536,t=9999,p=4$c29tZXNhbHQ$aGFzaA'", r"\[ann\] password is not a hash"),
        (
            "[ann]\npassword = '$argon2id$v=19$m=999999,t=1,p=9999$c29tZXNhbHQ$aGFzaA'",
            r"\[ann\] password is not a hash",
        ),
        # Named, because the hash differs in each process: workers must collect tests of the same names.
        pytest.param(f'["\u00e9"]\npassword = "{HASH}"\n["e\u0301"]\npassword = "{HASH}"', "twice", id="twice"),
        ("ann = " + "[" * 9999, "people.toml: "),
        ("[ann]\npasswort = ''", r"\[ann\] .*passwort"),
        ("ann = 1", r"\[ann\] Expected"),
        ("#" * (MAX_FILE + 1), "larger than"),
        (b"\xff", "people.toml: "),
    ],
)
def test_a_file_that_is_not_right_is_named_at_the_start(tmp_path: Path, people: str | bytes, said: str):
    """With the person, and how to make what is missing."""
    path = tmp_path / "people.toml"
    path.write_bytes(people if isinstance(people, bytes) else people.encode())
    with pytest.raises(ConfigError, match=said):
        read_people(path)


def test_a_file_that_stays_as_it_is_is_parsed_once(tmp_path: Path):
    """Or a stranger's attempts would each take a large team's page a second; a change counts all the same."""
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE)
    first = read_people(path)
    assert read_people(path)["ann"] is first["ann"]
    path.write_text(PEOPLE.replace("Ann Lee", "Ann Low"))
    assert read_people(path)["ann"].name == "Ann Low"


def test_a_file_that_is_not_there_or_a_pipe_is_an_error(tmp_path: Path):
    """It is not waited for."""
    with pytest.raises(ConfigError, match="No such file"):
        read_people(tmp_path / "people.toml")
    os.mkfifo(tmp_path / "people.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_people(tmp_path / "people.toml")


def test_others_cannot_read_the_file_afterwards(tmp_path: Path):
    """Hashes of short passwords can be guessed by whoever has them."""
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE)
    path.chmod(0o644)
    assert set(read_people(path)) == {"ann", "dee", "eve"}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"issuer": "https://id.example.org"},
        {"client_id": "review"},
        {"passwords": "/etc/people.toml", "issuer": "https://id.example.org", "client_id": "review"},
        {"passwords": "/etc/people.toml", "client_id": "review"},
        {"passwords": "/etc/people.toml", "client_secret": "X"},
        {"passwords": "people.toml"},
    ],
)
def test_people_sign_in_in_one_way(said: dict[str, Any]):
    """Half a provider, both ways, and none are mistakes."""
    with pytest.raises(ValueError, match=r"either|whole path"):
        SignIn(url="https://review.example.org", roles=ROLES, **said)
