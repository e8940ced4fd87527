"""What a command line would run: the same for the same files, another for anything that runs other code."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from antiphon.identity import command_of, identity_of, launch_of
from antiphon.wire.origin import identify_target, list_coarser

VARIABLES = [
    "PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "NODE_PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "HOME",
    "npm_config_registry",
    "UV_INDEX_URL",
    "PIP_INDEX_URL",
    "BASH_ENV",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "PERL5OPT",
    "VIRTUAL_ENV",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a server in it, which is the current one; another beside it has the same files."""
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "server.py").touch()
        (folder / "server.js").touch()
        (folder / "data").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs, the only one in PATH."""
    return put_programs(tmp_path / "bin", monkeypatch)


def put_programs(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> Path:
    """Make a folder of programs that are found."""
    folder.mkdir(parents=True)
    for name in ("python", "python3", "python3.12", "node", "npx", "uvx", "uv", "sh", "env", "shop", "make"):
        (folder / name).touch(mode=0o755)
    if monkeypatch is not None:
        monkeypatch.setenv("PATH", str(folder))
    return folder


def same(one: Sequence[str], other: Sequence[str], **where: object) -> bool:
    """Tell whether two command lines are one server."""
    return identity_of(one) == identity_of(other, **where)  # pyright: ignore[reportArgumentType]


def alike(one: Sequence[str], other: Sequence[str], cwd: Path | None = None) -> bool:
    """Tell whether what denies one of them denies the other."""
    told = list_coarser(launch_of(other, cwd=cwd))
    return list_coarser(launch_of(one))[0] == told[0]


# --- the same server ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        ["python3", "server.py"],
        ["python3.12", "./server.py"],
        ["python", "data/../server.py"],
        ["env", "python", "server.py"],
        ["{bin}/python3", "{here}/server.py"],
    ],
)
def test_one_file_is_one_server_however_it_is_spelled(here: Path, programs: Path, spelling: list[str]):
    """Whichever name of the interpreter is typed, and however its file is written."""
    words = [word.format(here=here, bin=programs) for word in spelling]
    assert same(["python", "server.py"], words)


def test_a_folder_of_path_that_cannot_be_looked_into_is_passed_over(
    here: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
):
    """As the system does: of another user's, or of a name that is too long (which root cannot enter, either)."""
    usual = identity_of(["shop", "server.py"])
    monkeypatch.setenv("PATH", f"{here}/{'x' * 300}:{programs}")
    assert identity_of(["shop", "server.py"]) == usual


def test_a_link_to_a_file_is_the_file(here: Path, programs: Path):
    """And a link that comes to point elsewhere is another server."""
    link = here / "link.py"
    link.symlink_to("server.py")
    first = identity_of(["python", "link.py"])
    assert first == identity_of(["python", "server.py"])
    link.unlink()
    link.symlink_to(here.parent / "there" / "server.py")
    assert identity_of(["python", "link.py"]) != first


def test_a_script_is_the_same_from_every_folder(here: Path, programs: Path):
    """Python and Node look for nothing in the current folder where a script is named."""
    words = ["python", str(here / "server.py"), "--port", "1"]
    assert same(words, words, cwd=str(here.parent / "there"))
    assert same(["node", str(here / "server.js")], ["node", str(here / "server.js")], cwd=str(here.parent))


def test_an_upgrade_loses_no_grant(tmp_path: Path, here: Path):
    """The minor version of an interpreter is no part of its name, nor of the folder of a version manager."""
    old, new = (put_programs(tmp_path / "versions" / name / "bin") for name in ("v22.1.0", "v22.11.3"))
    assert same([f"{old}/node", "server.js"], [f"{new}/node", "server.js"])
    assert same([f"{old}/npx", "pkg@1.2.3"], [f"{new}/npx", "pkg@1.2.3"])
    assert same([f"{old}/python3.12", "server.py"], [f"{new}/python3", "server.py"])


def test_another_major_version_is_another_server(tmp_path: Path, here: Path):
    """It runs the same file with another meaning."""
    old, new = (put_programs(tmp_path / "versions" / name / "bin") for name in ("v20.1.0", "v22.1.0"))
    assert not same([f"{old}/node", "server.js"], [f"{new}/node", "server.js"])


def test_an_interpreter_of_a_virtual_environment_is_that_environment(tmp_path: Path, here: Path):
    """Whatever its names are, and another environment is another server: its packages run."""
    for name in ("one", "two"):
        venv.create(tmp_path / name, with_pip=False, symlinks=os.name != "nt")
    own = launch_of([str(tmp_path / "one" / "bin" / "python"), "server.py"])
    assert own.program == f"environment:{os.path.realpath(tmp_path / 'one')}"
    assert same([f"{tmp_path}/one/bin/python", "server.py"], [f"{tmp_path}/one/bin/python3", "server.py"])
    assert not same([f"{tmp_path}/one/bin/python", "server.py"], [f"{tmp_path}/two/bin/python", "server.py"])


def test_a_file_is_run_by_this_interpreter(here: Path):
    """``antiphon call server.py`` and ``Client("server.py")`` mean the same as its command line."""
    assert command_of("server.py") == [sys.executable, str(here / "server.py")]
    assert identity_of("server.py") == identity_of([sys.executable, "server.py"])


def test_an_address_stays_an_address():
    """Nothing is looked for on this disk."""
    assert identity_of("https://example.com/mcp") == identify_target("https://example.com/mcp")


# --- another server -----------------------------------------------------------------------------------------------


def test_the_same_words_in_another_folder_are_another_server(here: Path, programs: Path):
    """``python server.py`` is another file there."""
    words = ["python", "server.py"]
    assert not same(words, words, cwd=str(here.parent / "there"))


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", "server"],
        ["python", "-um", "server"],
        ["python", "-mserver"],
        ["python", "-c", "import server"],
        ["python", "-W", "error", "-c", "import server"],
        ["node", "-e", "require('server')"],
        ["node", "--require", "./data", "/server.js"],
        ["node", "--import", "tsx", "/server.js"],
        ["node", "--env-file", "data", "/server.js"],
        ["sh", "-c", "./server.py"],
        ["shop", "--config", "data"],
        ["shop", "--config=data"],
        ["shop", "data:/data"],
        ["make", "serve"],
        ["uv", "run", "shop"],
        ["env", "-i", "shop"],
    ],
)
def test_the_folder_counts_where_it_chooses_code(here: Path, programs: Path, words: list[str]):
    """Modules, code in the words, preloaded files, wrappers, and files that a program may read."""
    assert not same(words, words, cwd=str(here.parent / "there"))


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-P", "-m", "server"],
        ["python", "-Im", "server"],
        ["shop", "--port", "8000"],
        ["uvx", "pkg==1.2.3"],
        ["npx", "-y", "pkg@1.2.3"],
        ["node", "--no-warnings", "/server.js"],
        ["node", "--import", "/preload.js", "/server.js"],
        ["uv", "--directory", "/srv/shop", "run", "server"],
    ],
)
def test_the_folder_does_not_count_where_it_chooses_nothing(here: Path, programs: Path, words: list[str]):
    """A server that is installed is the same from every folder."""
    assert same(words, words, cwd=str(here.parent / "there"))


@pytest.mark.parametrize("name", ["node_modules", ".npmrc"])
def test_packages_of_a_folder_make_another_server(here: Path, programs: Path, name: str):
    """Npx takes what is installed there, or from the registry that is named there, before anything else."""
    words = ["npx", "-y", "pkg@1.2.3"]
    before = identity_of(words)
    (here / name).mkdir()
    assert identity_of(words) != before
    assert identity_of(words, cwd=str(here / "data")) == identity_of(words), "the folder that has them counts"


def test_a_module_that_appears_in_the_folder_is_another_server(here: Path, programs: Path):
    """It would run instead of the installed one."""
    before = identity_of(["python", "-m", "shop"])
    (here / "shop.py").touch()
    assert identity_of(["python", "-m", "shop"]) != before


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_choose_code_make_another_server(here: Path, programs: Path, name: str):
    """Set by an entry; also by ``env`` in its command line."""
    words = ["python", str(here / "server.py")]
    assert not same(words, words, env={name: "/other"})
    assert identity_of(words, env={name: "/other"}) != identity_of(words, env={name: "/elsewhere"})
    if name != "PATH":
        assert identity_of(["env", f"{name}=/other", *words]) == identity_of(words, env={name: "/other"})


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "all_proxy", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AWS_ENDPOINT_URL"]
)
def test_variables_that_choose_the_host_make_another_server(here: Path, programs: Path, name: str):
    """What a server is sent then goes to somebody else."""
    words = ["python", str(here / "server.py")]
    assert not same(words, words, env={name: "http://other.example"})


def test_other_variables_make_no_other_server(here: Path, programs: Path):
    """A key that is renewed costs no grant."""
    words = ["python", "server.py"]
    assert same(words, words, env={"API_KEY": "one", "LOG_LEVEL": "debug"})


def test_a_relative_entry_of_a_path_makes_the_folder_count(here: Path, programs: Path):
    """It finds other modules in another folder."""
    words, env = ["python", str(here / "server.py")], {"PYTHONPATH": "lib"}
    assert identity_of(words, env=env) != identity_of(words, env=env, cwd=str(here.parent))


def test_a_program_is_found_in_the_path_of_its_entry(here: Path, programs: Path, tmp_path: Path):
    """As the operating system finds it: the variables of the entry hold for it."""
    other = put_programs(tmp_path / "other")
    assert launch_of(["shop"], env={"PATH": str(other)}).program == str(other / "shop")
    assert launch_of(["shop"]).program == str(programs / "shop")


@pytest.mark.parametrize("words", [["python", "server.py", "x"], ["python", "-O", "server.py"], ["shop"]])
def test_other_arguments_make_another_server(here: Path, programs: Path, words: list[str]):
    """They are what the program does."""
    assert not same(["python", "server.py"], words)


# --- what denials go by -------------------------------------------------------------------------------------------


def test_a_change_of_folder_escapes_no_denial(here: Path, programs: Path):
    """Not by the current folder, nor by another place for the file, the interpreter or what it is given."""
    there = here.parent / "there"
    assert alike(["python", "server.py"], ["python", "server.py"], there)
    assert alike(["python", "server.py"], ["/elsewhere/bin/python3", "-u", str(there / "server.py")])
    assert alike(["python", "-m", "server"], ["python", "-um", "server"], there)
    assert alike(["shop", str(here)], ["/opt/shop", str(there)])
    assert alike(["npx", "pkg@1.0.0"], ["npx", "pkg@2.0.0"])
    assert alike(["uvx", "pkg==1.0"], ["uvx", "pkg"], there)


def test_another_server_is_not_alike(here: Path, programs: Path):
    """Another file, module or package is denied by itself."""
    assert not alike(["python", "server.py"], ["python", "other.py"])
    assert not alike(["python", "-m", "server"], ["python", "-m", "other"])
    assert not alike(["npx", "pkg@1.0.0"], ["npx", "other@1.0.0"])


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", "pkg"],
        ["{bin}/npx", "-y", "pkg"],
        ["env", "X=1", "npx", "pkg"],
        ["cmd", "/c", "npx", "-y", "pkg"],
        ["sh", "-c", "cd /srv && exec npx -y pkg"],
        ["shop", "npx", "pkg@latest"],
    ],
)
def test_a_package_without_an_exact_version_is_not_pinned(here: Path, programs: Path, words: list[str]):
    """However it is wrapped."""
    assert not launch_of([word.format(bin=programs) for word in words]).pinned


@pytest.mark.parametrize("words", [["npx", "-y", "pkg@1.2.3"], ["python", "server.py"], ["python", "server.py", "npx"]])
def test_what_has_one_version_is_pinned(here: Path, programs: Path, words: list[str]):
    """A file, or a package with its version."""
    assert launch_of(words).pinned


# --- shown to people ----------------------------------------------------------------------------------------------


def test_people_see_what_would_run(here: Path, programs: Path):
    """The whole path of the file, the folder where it counts, and the names of the variables that choose code."""
    assert launch_of(["python", "server.py"]).shown == ("python", str(here / "server.py"))
    assert launch_of(["env", "python", "server.py"]).shown == ("env", "python", str(here / "server.py"))
    (here / "shop.py").touch()
    assert launch_of(["python", "-m", "shop"]).shown == ("python", "-m", "shop")


def test_what_no_system_starts_is_no_failure():
    """A word with a NUL in it, a program that is not there: whoever starts it says why it cannot be."""
    assert launch_of(["python", "a\0b"]).program == "python"
    assert launch_of(["no-such-program"]).program == "no-such-program"


@pytest.mark.parametrize(
    "words",
    [
        ["uv", "run", "server.py", "--directory", "/data"],
        ["nice", "python", "-m", "shop"],
        ["timeout", "60", "/usr/bin/node", "-e", "1"],
        ["xvfb-run", "npm", "start"],
        ["composer", "start"],
    ],
)
def test_the_folder_counts_where_a_program_starts_another_that_looks_there(words: list[str], here: Path):
    """An option of the server's is none of the runner's, and a wrapper changes nothing of what is wrapped."""
    assert identity_of(words) != identity_of(words, cwd=str(here.parent / "there"))


@pytest.mark.parametrize("interpreter", ["lua", "php", "java", "Rscript", "tsx", "ts-node"])
def test_the_folder_counts_for_interpreters_that_load_from_it(interpreter: str, here: Path):
    """Even where the script is elsewhere: modules, classes, settings or a profile are taken from the folder."""
    words = [interpreter, str(here / "server.js")]
    assert identity_of(words) != identity_of(words, cwd=str(here.parent / "there"))


def test_a_variable_that_python_ignores_makes_no_folder_safe(here: Path):
    """With -E, PYTHONSAFEPATH does not count."""
    env, elsewhere = {"PYTHONSAFEPATH": "1"}, str(here.parent / "there")
    assert identity_of(["python", "-E", "-m", "shop"], env=env) != identity_of(
        ["python", "-E", "-m", "shop"], env=env, cwd=elsewhere
    )
    assert identity_of(["python", "-m", "shop"], env=env) == identity_of(
        ["python", "-m", "shop"], env=env, cwd=elsewhere
    )


@pytest.mark.parametrize("wrapper", [["{}/env"], ["{}/cmd", "/c"], ["./env"]])
def test_a_program_of_a_wrappers_name_is_no_wrapper(wrapper: list[str], here: Path):
    """It may run anything: no permission of the server behind it holds, but its blocks do."""
    (here / "env").touch(mode=0o755)
    (here / "cmd").touch(mode=0o755)
    words = ["python", str(here / "server.py")]
    disguised = launch_of([*(word.format(here) for word in wrapper), *words])
    assert identify_target(disguised) != identity_of(words)
    assert list_coarser(disguised)[0] == list_coarser(launch_of(words))[0]


@pytest.mark.parametrize(
    "name", ["BASH_FUNC_echo%%", "MAKEFILES", "NIX_PATH", "COMPOSE_FILE", "GRADLE_OPTS", "TCLLIBPATH", "SSL_CERT_FILE"]
)
def test_variables_of_shells_and_builders_choose_code(name: str, here: Path):
    """Functions that a shell takes over, files that make reads, paths of other builders."""
    assert identity_of(["bash", str(here / "server.js")]) != identity_of(
        ["bash", str(here / "server.js")], env={name: "/other"}
    )


@pytest.mark.parametrize(
    ("line", "pinned"),
    [
        ("docker run -i notes:1", False),
        ("/usr/bin/docker run -i notes", False),
        ("env docker run notes", False),
        (f"docker run -i notes@sha256:{'0' * 64}", True),
        ("yarn start", True),
        ("uv run server.py", True),
    ],
)
def test_a_launch_of_an_image_is_pinned_by_its_digest(line: str, pinned: bool):
    """The launch of an image without a digest is not pinned, so no permission outlasts the process."""
    assert launch_of(line.split()).pinned is pinned
