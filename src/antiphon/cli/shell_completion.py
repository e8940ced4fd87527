"""Completion of the command line by a shell: the scripts for shells.

Owns where the scripts are installed. The scripts are click's: its one for bash needs bash 4.4.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from antiphon.errors import ConfigError

VARIABLE = "_ANTIPHON_COMPLETE"
"""The environment variable by which a shell's script asks for words: ``bash_complete``."""
_PLACES = {
    "bash": ("~/.bash_completions/antiphon.sh", "~/.bashrc", "source ~/.bash_completions/antiphon.sh"),
    "fish": ("~/.config/fish/completions/antiphon.fish", None, ""),
    "zsh": ("~/.zfunc/_antiphon", "~/.zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""The script of each shell, the file that the shell reads when it starts, and the line there that finds the script."""


def print_script(root: click.Command) -> None:
    """Print the script for the shell at work."""
    print(_make_script(root, _find_shell()), end="")


def install_script(root: click.Command) -> None:
    """Write the script where the shell at work finds it, and say where."""
    shell = _find_shell()
    script = _make_script(root, shell)
    if shell not in _PLACES:
        raise ConfigError(
            f"{shell}: append what antiphon --show-completion prints to the file that {shell} starts with"
        )
    place, start, line = _PLACES[shell]
    file = Path(place).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    if start is not None:
        path = Path(start).expanduser()
        said = path.read_text(encoding="utf-8") if path.is_file() else ""
        if line not in said.splitlines():
            path.write_text(f"{said.rstrip()}\n{line}\n".lstrip("\n"), encoding="utf-8")
    print(f"{shell} completion installed in {file}\nCompletion will take effect once you restart the terminal")


def _make_script(root: click.Command, shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"{shell or 'this shell'}: there is completion for {', '.join(_PLACES)} only")
    return kind(root, {}, "antiphon", VARIABLE).source()


def _find_shell() -> str:
    """Return the name of the shell that has started this process, where that can be read, else the user's."""
    with suppress(OSError):
        parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        if get_completion_class(parent) is not None:
            return parent
    return Path(os.environ.get("SHELL", "powershell" if os.name == "nt" else "")).name
