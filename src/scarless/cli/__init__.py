"""The command line: analyses of tables (`inspect`, `fit`, `predict`, `export`) and experiments (`compare`)."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from scarless.cli import experiments, tables
from scarless.cli.screen import INCOMPLETE_INSTALLATION, REFUSED, every_character, fail, stopped
from scarless.outside.extras import install
from scarless.outside.plain_words import plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 success, 1 error, 2 wrong argument or missing package, 130 stopped."""
    options = make_parser().parse_args(arguments)
    missing = [name for name in options.packages if find_spec(name) is None]
    if missing:
        return fail(
            f"this command needs {', '.join(missing)}. Install it with {install(options.extra)}.",
            INCOMPLETE_INSTALLATION,
        )
    try:
        with warnings.catch_warnings(), every_character():
            warnings.showwarning = _print_warning
            return int(options.command(options))
    except KeyboardInterrupt:
        return stopped("Stopped.")
    except ImportError as error:
        return fail(str(error), INCOMPLETE_INSTALLATION)
    except OSError as error:
        complete = error.filename and error.strerror
        return fail(f"{error.filename}: {error.strerror}" if complete else str(error), REFUSED)
    except (ValueError, TypeError, RuntimeError) as error:
        return fail(str(error), REFUSED)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a note, without the line of Python that raised it."""
    print(f"Note: {plain(message)}", file=sys.stderr, flush=True)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="scarless",
        description="Learn from positive and unlabelled data with biased labels.",
        epilog="Exit codes: 0 success; 1 error, with a message; 2 wrong argument or missing package; 130 stopped.",
    )
    parser.add_argument("--version", action="version", version=f"scarless {version('scarless')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    tables.add_commands(commands)
    experiments.add_commands(commands)
    return parser
