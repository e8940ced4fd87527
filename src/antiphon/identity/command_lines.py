"""What a command line would run: program, script, arguments, and the variables and folder that determine the code.

Reads a command line as the operating system and common interpreters do, so that a server is identified by what runs and
not by how it is written. It examines files and starts none. ``wire.origin`` computes hashes of the result.

Owns the syntax of ``npx``, ``uvx`` and similar programs, and of those that run images of containers, too: it states
whether a package has an exact version.

Where a command line cannot be read with certainty (an unknown option, a wrapper), the folder counts as well: at worst a
person is asked once more.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.wire.origin import Launch, identify_target


class _Syntax(Struct, frozen=True):
    """The syntax of a package runner such as ``npx``."""

    beginnings: tuple[str, ...]
    """Words that begin a run of a package that may first be downloaded."""
    alone: frozenset[str]
    """Options that take no further word."""
    with_package: frozenset[str]
    """Options whose argument is a package; all but ``--with`` name what to download instead of the command's name."""
    exact: str
    """A package with exactly one version: for npm ``name@1.2.3``, for Python ``name==1.2.3``, or a full commit hash."""
    with_word: frozenset[str] = frozenset()
    """Options whose argument is not a package."""


class _Tables(Struct, frozen=True):
    """The tables of ``command_lines.json``."""

    variables: tuple[str, ...]
    """Variables that make a loader, an interpreter, a package runner or a shell run something else."""
    folder_runners: frozenset[str]
    """Programs that search the current folder for what to run."""
    node_flags: frozenset[str]
    """Options of Node that take no further word and do not change which code runs."""
    package_runners: dict[str, _Syntax]


_TABLES = msgspec.json.decode(Path(__file__).with_name("command_lines.json").read_bytes(), type=_Tables)
_RUNNERS = {
    tuple(words.split()): kind for kind, syntax in _TABLES.package_runners.items() for words in syntax.beginnings
}
_WRAPPED = 4
"""Number of words at the beginning of a command line in which a runner is looked for."""
_LOCAL = re.compile(r"(?:\.{0,2}[/\\]|~|[A-Za-z]:[/\\]|file:).*")
"""A package on this disk; its location is part of the identity."""
_VERSIONED = re.compile(r"(?P<name>(?:@[\w.~-]+/)?[\w.~-]+(?:\[[\w,.-]*\])?)(?:@|==|>=|<=|~=|>|<|!=)[^/]*")


_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
"""Programs that run images."""
_RUN = (("run",), ("create",), ("container", "run"), ("container", "create"))
"""The words of such a program that run an image, which may first be downloaded."""
BEGINNINGS = _CONTAINERS | {beginning[0] for beginning in _RUNNERS}
"""The first words of all command lines that may download; ``is_pinned`` is true of any other."""
_IMAGE_ALONE = re.compile(
    r"-[itdPq]+|--(?:interactive|tty|detach|rm|init|privileged|read-only|publish-all|quiet|no-healthcheck)"
)
"""Options of such programs that take no further word."""
_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
"""An image that is the same for ever; a tag may be moved."""


def runner_of(words: Sequence[str]) -> str | None:
    """Return whose syntax a package runner follows (npx, uvx or pipx), or ``None`` if these words start none."""
    for beginning, kind in _RUNNERS.items():
        if tuple(words[: len(beginning)]) == beginning:
            return kind
    return None


def may_download(words: Sequence[str]) -> bool:
    """Return whether a command line may download a package or image first, also behind ``cmd /c`` or ``env``."""
    for at in range(min(len(words), _WRAPPED)):
        program = PurePath(words[at]).stem
        if program in _CONTAINERS or runner_of([program, *words[at + 1 :]]) is not None:
            return True
    return False


def is_pinned(words: Sequence[str]) -> bool:
    """Return whether every package has an exact version; not if an unknown option may hide a package."""
    if words and words[0] in _CONTAINERS:
        return _is_digest(words[1:])
    kind = runner_of(words)
    if kind is None:
        return True
    syntax = _TABLES.package_runners[kind]
    start = next(len(beginning) for beginning in _RUNNERS if tuple(words[: len(beginning)]) == beginning)
    packages: list[str] = []
    is_named = False
    at = start
    while at < len(words):
        option, equals, value = words[at].partition("=")
        if option in syntax.with_package:
            at += not equals
            packages.append(value if equals else "".join(words[at : at + 1]))
            is_named = is_named or (option != "--with" and not (kind == "uvx" and option == "-w"))
        elif option in syntax.with_word:
            at += not equals
        elif words[at].startswith("-") and words[at] != "--":
            if words[at] not in syntax.alone:
                return False
        elif words[at] != "--":
            packages += [] if is_named else [words[at]]
            break
        at += 1
    return bool(packages) and all(re.fullmatch(syntax.exact, one) or _LOCAL.fullmatch(one) for one in packages)


def _is_digest(words: Sequence[str]) -> bool:
    """Return whether these words run an image that is named by its digest, and nothing else that could change."""
    start = next((len(run) for run in _RUN if tuple(words[: len(run)]) == run), None)
    if start is None:
        # It starts an existing container, or what a compose file says.
        return False
    at = start
    while at < len(words) and words[at].startswith("-"):
        # An unknown option is taken to need the next word. At worst that was the image, which then counts as unpinned.
        at += 1 if "=" in words[at] or _IMAGE_ALONE.fullmatch(words[at]) else 2
    return at < len(words) and _DIGEST.fullmatch(words[at]) is not None


def without_version(word: str) -> str:
    """Remove the version from a word that may name a package."""
    found = _VERSIONED.fullmatch(word)
    return found["name"] if found else word


_CHOOSES_CODE = re.compile("|".join(_TABLES.variables), re.IGNORECASE if os.name == "nt" else 0)
_ANY_CASE = re.compile(r"npm_config_.*|(?:\w+_)?proxy|\w+_(?:base_?url|api_base|endpoint(?:_url)?)", re.IGNORECASE)
"""Variables that programs read in any case: settings of npm, and those that send requests through or to another host,
such as ``HTTPS_PROXY`` and ``OPENAI_BASE_URL``."""
_LONGEST_SCRIPT = 1024 * 1024
"""Most bytes of a script that is run by itself; a longer file is a program."""
_LONGEST_FILE = 64 * 1024 * 1024
"""Most bytes of a file that is hashed: bundles of several megabytes are usual for Node."""
_SUFFIX = re.compile(r"\.(exe|cmd|bat|ps1)$", re.IGNORECASE)
_INTERPRETER = re.compile(
    r"(?P<name>python|pythonw|pypy|node|nodejs|ruby|perl|php|lua|java|bash|sh|zsh|dash|ksh|fish|pwsh|powershell|Rscript"
    r"|tsx|ts-node|bun|deno)-?(?P<major>\d*)(?:\.\d+)*t?(?:\.exe)?$"
)
_VERSION = re.compile(r"(?<![0-9.])(?P<major>v?\d+)(?:\.\d+){1,2}(?![0-9.])")
"""The version in a folder of a version manager: ``v22.11.0``, ``cpython-3.12.1-linux``."""
_LOOK_HERE = frozenset(["lua", "php", "java", "Rscript", "tsx", "ts-node"])
"""Interpreters that search the current folder for modules, classes or settings, wherever their script is."""
_SYSTEM_WRAPPERS = frozenset(["env", "/usr/bin/env", "/bin/env"])
"""The paths that are ``env`` for certain. Another program of that name may do anything."""
_SHIMS = (".python-version", ".node-version", ".nvmrc", ".ruby-version", ".tool-versions", "mise.toml", ".mise.toml")
"""Files in which pyenv and similar tools find the version that their wrappers run."""
_NODE_FILES = ("node_modules", ".npmrc", "bunfig.toml", ".yarnrc.yml", "pnpm-workspace.yaml")
"""Files and folders that determine where packages of Node come from."""


class _Place(Struct, frozen=True):
    """The folder and the variables with which a command line is read."""

    folder: str
    path: str
    env: Mapping[str, str]

    def absolute(self, word: str) -> str:
        """Return the file that a word names, links followed, whether it exists or not."""
        return os.path.realpath(Path(self.folder, word))


class _ReadArguments(Struct, frozen=True):
    """The result of reading a program's arguments."""

    arguments: tuple[str, ...]
    alike: tuple[str, ...]
    folder: str | None
    pinned: bool = True
    script: str | None = None
    """The file that is run, if the first word names one."""


def command_of(file: str | Path) -> list[str]:
    """Return the command line that runs a Python file: this interpreter and the file's absolute path."""
    return [sys.executable, str(Path(file).absolute())]


def identity_of(target: str | Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Compute the identity of a server, by which grants, rules, blocks and settings refer to it.

    Args:
        target: its URL, its command line as a list of words, or the path of its ``.py`` file.
        env: environment variables that its configuration sets; none by default.
        cwd: the folder it is started in; by default the current one.
    """
    if isinstance(target, str):
        if "://" in target:
            return identify_target(target)
        target = command_of(target)
    return identify_target(launch_of(target, env=env, cwd=cwd))


def launch_of(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None) -> Launch:
    """Determine what a command line would run in a folder, by default the current one, with ``env`` added."""
    given = dict(env or {})
    if any("\0" in word for word in (*argv, *given, *given.values(), str(cwd or ""))):
        # No operating system can start this.
        return Launch(program=argv[0], arguments=tuple(argv[1:]), alike=tuple(argv))
    folder = os.path.realpath(cwd or ".")
    words, given, through, is_certain = _unwrap_command(list(argv), given)
    place = _Place(folder, given.get("PATH", os.environ.get("PATH", os.defpath)), given)
    found = _find_program(words[0], place)
    program, name = _name_program(found)
    read = _read_arguments(name, found, words[1:], place)
    # Those that choose the code that runs, or the host that it talks to.
    chosen = (one for one in given.items() if _CHOOSES_CODE.fullmatch(one[0]) or _ANY_CASE.fullmatch(one[0]))
    variables = tuple(sorted(chosen))
    counts = not is_certain or any(_is_relative(key, value) for key, value in variables)
    return Launch(
        program=program,
        arguments=(*(f"through:{_find_program(wrapper, place)}" for wrapper in through), *read.arguments),
        variables=variables,
        folder=folder if counts else read.folder,
        alike=(name, *read.alike),
        # Leave out what was only added to tell modules apart, and include the wrapper that was removed.
        shown=(*argv[: len(argv) - len(words) + 1], *read.arguments[: len(words) - 1]),
        pinned=read.pinned and not any(map(_runs_unpinned, words[1:])),
        script=_hash_script(found, _LONGEST_SCRIPT) if read.script is None else _hash_script(read.script),
    )


def _hash_script(file: str, longest: int = _LONGEST_FILE) -> str:
    """Return the SHA-256 of a script; nothing for a program that is none, or for a file that cannot be read."""
    path = Path(file)
    try:
        # A pipe or a device would be read for ever.
        if not path.is_file() or path.stat().st_size > longest:
            return ""
        body = path.read_bytes()
    except (OSError, ValueError):
        return ""
    # An interpreter runs its file whatever that contains; a program has zeros.
    is_script = longest == _LONGEST_FILE or b"\0" not in body
    return hashlib.sha256(body).hexdigest() if is_script else ""


def _is_relative(name: str, value: str) -> bool:
    """Return whether a variable determines code relative to the folder, as an empty entry of a path does."""
    if name in ("PATH", "PYTHONPATH", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH", "PERL5LIB", "RUBYLIB"):
        return any(not Path(part).is_absolute() for part in value.split(os.pathsep))
    return any(part.startswith(("./", "../", ".\\", "..\\")) for part in re.split(r"[\s=:,;]", value))


def _unwrap_command(words: list[str], env: dict[str, str]) -> tuple[list[str], dict[str, str], list[str], bool]:
    """Remove ``env NAME=VALUE...`` and ``cmd /c``, which only start another program.

    Returns the other words, the variables, the removed words of other programs, and whether all was understood.
    """
    through: list[str] = []
    while len(words) > 1:
        name = _plain_name(words[0])
        program = words[0]
        if name == "cmd" and words[1].lower() == "/c" and len(words) > 2:
            words = words[2:]
        elif name == "env" and not words[1].startswith("-"):
            at = 1
            while at < len(words) - 1 and "=" in words[at]:
                key, _, value = words[at].partition("=")
                env = {**env, key: value}
                at += 1
            words = words[at:]
        else:
            return words, env, through, name != "env"
        if program not in _SYSTEM_WRAPPERS and not (os.name == "nt" and program.lower() in ("cmd", "cmd.exe")):
            through.append(program)
    return words, env, through, True


def _plain_name(program: str) -> str:
    name = program[max(program.rfind("/"), program.rfind("\\")) + 1 :]
    return _SUFFIX.sub("", name) if "." in name else name


def _find_program(program: str, place: _Place) -> str:
    """Return the file of a program as the system finds it, links of folders followed; its name if there is none."""
    if os.sep in program or (os.altsep and os.altsep in program):
        candidates = [program]
    else:
        candidates = [str(Path(part, program)) for part in place.path.split(os.pathsep)]
    endings = [""] if os.name != "nt" else ["", *os.environ.get("PATHEXT", ".EXE;.CMD;.BAT").split(";")]
    for candidate in candidates:
        file = Path(place.folder, candidate)
        for ending in endings:
            whole = file.with_name(file.name + ending)
            # In this order: is_file raises for a folder of PATH that this user may not enter.
            if os.access(whole, os.X_OK) and whole.is_file():
                return str(Path(os.path.realpath(whole.parent), whole.name))
    return str(Path(place.folder, program)) if candidates == [program] else program


def _name_program(found: str) -> tuple[str, str]:
    """Return how a program is identified exactly, and its plain name.

    An interpreter of a virtual environment is identified by that environment; any other program without its minor
    version, so that an upgrade loses no grant.
    """
    path = Path(found)
    name = _plain_name(found)
    matched = _INTERPRETER.fullmatch(name)
    if matched is None:
        is_runner = runner_of([name]) is not None
        return (_VERSION.sub(r"\g<major>", found) if is_runner else found), name
    plain = {"pythonw": "python", "nodejs": "node"}.get(matched["name"], matched["name"])
    if plain in ("python", "pypy") and (path.parent.parent / "pyvenv.cfg").is_file():
        return f"environment:{path.parent.parent}", plain
    major = matched["major"] or ("3" if plain in ("python", "pypy") else "")
    folder = _VERSION.sub(r"\g<major>", str(path.parent)) if path.is_absolute() else ""
    return str(Path(folder, f"{plain}{major}")), plain


def _read_arguments(name: str, found: str, words: Sequence[str], place: _Place) -> _ReadArguments:
    runner = runner_of([name, *words])
    if runner is not None:
        alike = tuple(_remove_folders(without_version(word), place) for word in words)
        # Where the package, or the address of its registry, comes from.
        folder = place.folder
        if not any(_may_name_file(word, place) for word in words):
            # uvx and pipx read no file of a project; the runners of Node do.
            folder = None if runner in ("uvx", "pipx") else _find_above(place.folder, _NODE_FILES)
        return _ReadArguments(tuple(words), alike, folder, is_pinned([name, *words]))
    read = _READERS.get(name)
    if read is None and _INTERPRETER.fullmatch(name):
        read = _read_script
    seen = (read or _any_program)(name, words, place)
    if seen.folder is None and "shims" in Path(found).parent.name:
        return replace(seen, folder=_find_above(place.folder, _SHIMS))
    return seen


def _read_python(name: str, words: Sequence[str], place: _Place) -> _ReadArguments:
    """Read the arguments of Python (``python --help``); one option may hold several letters."""
    is_safe, by_variable = False, bool(place.env.get("PYTHONSAFEPATH"))
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        if word.startswith("--"):
            at += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for index, letter in enumerate(word[1:], 1):
            is_safe = is_safe or letter in "IP"
            # -E makes Python ignore its variables.
            by_variable = by_variable and letter != "E"
            if letter in "cm":
                joined = word[index + 1 :]
                what = joined or (words[at + 1] if at + 1 < len(words) else "")
                return _without_file(
                    letter, what, words, words[at + (1 if joined else 2) :], place, is_safe=is_safe or by_variable
                )
            if letter in "WX":
                at += not word[index + 1 :]
                break
        at += 1
    if at >= len(words) or words[at] == "-":
        return _ReadArguments(tuple(words), tuple(words), place.folder)
    return _with_file(words, at, place)


def _without_file(
    letter: str, what: str, words: Sequence[str], rest: Sequence[str], place: _Place, *, is_safe: bool
) -> _ReadArguments:
    """Read ``-m MODULE`` and ``-c CODE``. Both import from the current folder first, unless that is switched off."""
    alike = (f"-{letter}", what, *(_remove_folders(word, place) for word in rest))
    if is_safe:
        return _ReadArguments(tuple(words), alike, None)
    arguments = tuple(words)
    if letter == "m":
        stem = Path(place.folder, *what.split("."))
        files = (stem.with_name(f"{stem.name}.py"), stem / "__main__.py", stem / "__init__.py")
        # A module in the folder is another server than the installed one of the same name.
        present = [os.path.realpath(file) for file in files if file.is_file()]
        arguments += tuple(f"module:{file}" for file in present)
        return _ReadArguments(arguments, alike, place.folder, script=next(iter(present), None))
    return _ReadArguments(arguments, alike, place.folder)


def _read_node(name: str, words: Sequence[str], place: _Place) -> _ReadArguments:
    """Read the arguments of Node. Modules to preload are searched from the current folder."""
    at, folder = 0, None
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        option, equals, value = word.partition("=")
        if option in ("-r", "--require", "--import", "--loader", "--experimental-loader"):
            value = value if equals else "".join(words[at + 1 : at + 2])
            folder = folder if Path(value).is_absolute() else place.folder
            at += not equals
        elif option not in _TABLES.node_flags and not option.startswith("--max-"):
            # Code in the option itself, or an option that may take the next word: all words count
            # unchanged.
            return _ReadArguments(tuple(words), tuple(words), place.folder)
        at += 1
    if at >= len(words):
        return _ReadArguments(tuple(words), tuple(words), place.folder)
    return replace(_with_file(words, at, place), folder=folder)


def _read_script(name: str, words: Sequence[str], place: _Place) -> _ReadArguments:
    """Read the arguments of an interpreter whose first word that is no option is a script."""
    if words and not words[0].startswith("-") and Path(place.folder, words[0]).is_file():
        read = _with_file(words, 0, place)
        return replace(read, folder=place.folder) if name in _LOOK_HERE else read
    return _ReadArguments(tuple(words), tuple(_remove_folders(word, place) for word in words), place.folder)


def _with_file(words: Sequence[str], at: int, place: _Place) -> _ReadArguments:
    file = place.absolute(words[at])
    alike = (Path(words[at]).name, *(_remove_folders(word, place) for word in words[at + 1 :]))
    return _ReadArguments((*words[:at], file, *words[at + 1 :]), alike, None, script=file)


def _any_program(name: str, words: Sequence[str], place: _Place) -> _ReadArguments:
    """Read the arguments of an unknown program: the folder counts if any word may name a file in it."""
    alike = tuple(_remove_folders(word, place) for word in words)
    folder = place.folder if name in _TABLES.folder_runners else None
    # Before or after "run"; further on it may be an option of the server.
    at = 1 if words[:1] == ["run"] else 0
    if name == "uv" and list(words[at : at + 1]) == ["--directory"] and len(words) > at + 1:
        # Words after this one are relative to that folder.
        folder = place.absolute(words[at + 1])
    elif any(_starts_here(word) or _may_name_file(word, place) for word in words):
        folder = place.folder
    return _ReadArguments(tuple(words), alike, folder, _all_pinned((name, *words)))


def _starts_here(word: str) -> bool:
    """Return whether a word may be a program that another one starts, and that searches the folder (``nice make``)."""
    name = _plain_name(word)
    return name in _TABLES.folder_runners or _INTERPRETER.fullmatch(name) is not None


def _may_name_file(word: str, place: _Place) -> bool:
    """Return whether a word, or its part after ``=`` or before ``:``, may name something in the folder."""
    parts = {word, word.partition("=")[2], word.partition(":")[0], *word.split()} - {""}
    return any(
        part.startswith(("./", "../", ".\\", "..\\"))
        or (not Path(part).is_absolute() and len(part) < 256 and os.path.lexists(Path(place.folder, part)))
        for part in parts
    )


def _remove_folders(word: str, place: _Place) -> str:
    """Remove folders from a word: of a file only the name is left, of a folder nothing."""
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value or len(value) > 4096 or "\0" in value:
        return word
    path = Path(place.folder, value)
    is_path = os.sep in value or value in (".", "..") or value.startswith("~")
    if not is_path and not os.path.lexists(path):
        return word
    return f"{option}{equals}<folder>" if path.is_dir() else f"{option}{equals}{path.name}"


def _find_above(folder: str, names: Sequence[str]) -> str | None:
    """Return the nearest folder, from this one upwards, that has a file or folder with one of these names."""
    for each in (Path(folder), *Path(folder).parents):
        if any(os.path.lexists(each / name) for name in names):
            return str(each)
    return None


def _runs_unpinned(word: str) -> bool:
    """Return whether a word is a shell command that runs a package without a stated version."""
    # A whole program may be one word; nearly none names what could download something.
    may = " " in word and any(name in word for name in BEGINNINGS)
    return may and not _all_pinned(re.split(r"[\s;&|()'\"]+", word))


def _all_pinned(words: Sequence[str]) -> bool:
    """Return whether every package runner among these words has an exact version."""
    named = ((at, _plain_name(word)) for at, word in enumerate(words))
    return all(is_pinned([name, *words[at + 1 :]]) for at, name in named if name in BEGINNINGS)


_READERS: Mapping[str, Callable[[str, Sequence[str], _Place], _ReadArguments]] = {
    "python": _read_python,
    "pypy": _read_python,
    "node": _read_node,
    "bun": _any_program,
    "deno": _any_program,
}
