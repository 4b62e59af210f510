"""A parser of command lines that reports what is wrong in one sentence, with what was probably meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, NoReturn

from otel_itl.cli.argument_types import Kind
from otel_itl.core.spelling import did_you_mean

_LONG_OPTION: Final = re.compile(r"--[a-z][a-z-]*")


class CommandParser(argparse.ArgumentParser):
    """A parser that reports an error in one sentence, under the name of the command that it is about."""

    _words: Sequence[str] = ()
    """The arguments that are being parsed; empty before and after."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        # argparse takes `-1` for a value, and `-1/0.05` or `-5%` for an option.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments as `argparse` does; an error meanwhile names an option that is not known."""
        self._words = [] if args is None else list(args)
        try:
            return super().parse_known_args(args, namespace)
        finally:
            self._words = ()

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with code 2.

        A misspelled option is often the cause of another error, such as a required option that is missing. It is
        reported instead.
        """
        misspelled = self._find_unknown_option()
        if misspelled is not None:
            message = self.describe_unknown([misspelled])
        print(f"{self.prog}: {message.removesuffix('.')} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def add_commands(self) -> None:
        """Take one of the commands that `add_command` adds as the first argument."""
        self._commands = self.add_subparsers(title="commands", metavar="COMMAND")
        self.set_defaults(run=lambda _: self.error(f"name a command: {self._names_of_commands()}"))

    def add_command(self, name: str, short: str) -> CommandParser:
        """Add a command, which one line describes in the list of all; return its parser."""
        description, epilog = read_help(name)
        made: CommandParser = self._commands.add_parser(name, help=short, description=description, epilog=epilog)
        return made

    def parse_command_line(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse arguments; unlike `parse_args`, name what was probably meant.

        Raises:
            SystemExit: the arguments are not accepted, or ask for the help.
        """
        command = next((argument for argument in arguments if not argument.startswith("-")), None)
        if command is not None and command not in self._commands.choices:
            meant = did_you_mean(command, self._commands.choices)
            self.error(f"{command!r} is not a command: it takes {self._names_of_commands()}.{meant}")
        parsed: argparse.Namespace
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: CommandParser = self if command is None else self._commands.choices[command]
            parser.error(parser.describe_unknown(unknown))
        return parsed

    def describe_unknown(self, unknown: Sequence[str]) -> str:
        """Return the message on arguments that are not known, with the option that was probably meant."""
        name = unknown[0].partition("=")[0]
        meant = did_you_mean(name, _LONG_OPTION.findall(self.format_usage())) if name.startswith("-") else ""
        return f"unrecognized arguments: {' '.join(unknown)}.{meant}"

    def _find_unknown_option(self) -> str | None:
        """Return the first long option being parsed that is neither known nor an abbreviation; None: there is none."""
        for word in () if hasattr(self, "_commands") else self._words:
            name = word.partition("=")[0]
            if name == "--":
                return None
            is_known = any(option.startswith(name) for option in self._option_string_actions)
            if _LONG_OPTION.fullmatch(name) and not is_known:
                return word
        return None

    def _names_of_commands(self) -> str:
        *others, last = self._commands.choices
        return f"{', '.join(others)} or {last}"


def read_help(name: str) -> tuple[str, str]:
    """Return what `help/NAME.txt` has for the help: the text above the options, and the one below."""
    text = (files("otel_itl.cli") / "help" / f"{name}.txt").read_text(encoding="utf-8")
    above, _, below = text.partition("---\n")
    return above, below


def add_option(parser: Any, name: str, kind: Kind, text: str, **more: Any) -> None:
    """Add an argument of a kind to a parser or to a group of it; `text` is its help."""
    parser.add_argument(name, type=kind.convert, metavar=kind.metavar, help=text, **more)


def add_flag(parser: Any, name: str, text: str) -> None:
    """Add an option without a value to a parser or to a group of it; `text` is its help."""
    parser.add_argument(name, action="store_true", help=text)
