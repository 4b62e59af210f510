"""From the words of a command line to the program that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, PathFinder
from pathlib import Path
from shutil import which
from typing import Final, NamedTuple

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import BAD_USAGE

CANNOT_EXECUTE: Final = 126
NOT_FOUND: Final = 127
"""As shells have them."""

_PYTHON_SUFFIXES: Final = (".py", ".pyw", ".pyz")


class CannotLaunchError(CommandError):
    """The program cannot be started.

    Args:
        sentence: names the program and what to do.
        exit_code: of the command.
    """

    def __init__(self, sentence: str, exit_code: int = BAD_USAGE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class Command(NamedTuple):
    """A program and its arguments."""

    executable: str
    """The path of the program."""
    arguments: tuple[str, ...]
    """The program's name first, as the caller wrote it."""


def resolve_command(words: Sequence[str], *, module: str | None = None) -> Command:
    """Find the program of a command line; what follows the program belongs to it, untouched.

    Args:
        words: a Python file or any command, and its arguments; with `module`, the arguments alone.
        module: a Python module to run, as `python -m` does.

    Raises:
        CannotLaunchError: there is no such file or command, or it cannot be executed.
    """
    if module is not None:
        _check_module(module)
        return Command(sys.executable, (sys.executable, "-m", module, *words))
    name = words[0]
    if name.lower().endswith(_PYTHON_SUFFIXES):
        if not os.path.lexists(name):
            raise CannotLaunchError(f"{name} does not exist.")
        return Command(sys.executable, (sys.executable, *words))
    return Command(_find_executable(name), tuple(words))


def _check_module(module: str) -> None:
    """Check that Python finds a module, as far as that is seen without importing anything.

    Raises:
        CannotLaunchError: it does not.
    """
    package = module.partition(".")[0]
    path = [str(Path.cwd()), *sys.path]
    if BuiltinImporter.find_spec(package) is None and PathFinder.find_spec(package, path) is None:
        raise CannotLaunchError(f"there is no module {package!r} in the environment of {sys.executable}.")


def _find_executable(name: str) -> str:
    """Return the path of a command: on PATH, else beside this Python, whose environment need not be activated.

    Raises:
        CannotLaunchError: it is not there, or is not executable.
    """
    beside_python = str(Path(sys.executable).parent)
    found = which(name) or which(name, path=beside_python)
    if found is not None:
        return found
    unusable = which(name, mode=os.F_OK) or (name if os.sep in name and os.path.lexists(name) else None)
    if unusable is not None and Path(unusable).is_dir():
        raise CannotLaunchError(f"{name} is a directory: name a command, or a Python file in it.", CANNOT_EXECUTE)
    if unusable is not None:
        raise CannotLaunchError(
            f"{name} is not executable: chmod +x {unusable}, or name the program that runs it.", CANNOT_EXECUTE
        )
    if os.sep in name:
        raise CannotLaunchError(f"{name} does not exist.", NOT_FOUND)
    hint = f"; the file of that name here is ./{name}" if Path(name).is_file() else ""
    raise CannotLaunchError(f"there is no command {name!r} on PATH{hint}.", NOT_FOUND)
