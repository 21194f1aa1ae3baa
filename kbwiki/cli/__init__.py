"""The command line: one border at which our errors become messages and exit codes."""

import os
import signal
import sys
from contextlib import suppress

from kbwiki.errors import KbwikiError

EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """A run was stopped by Ctrl-C or SIGTERM; the message is the line to tell.

    No KeyboardInterrupt, which Typer would swallow together with its message. Both signals are
    ignored from then on.
    """


def main(args: list[str] | None = None) -> int:
    """Run a command and return its exit code; ``args`` default to the process's own."""
    if args is None and sys.getfilesystemencoding() != "utf-8":
        # File names of pages must be the same bytes in every locale.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-m", "kbwiki", *sys.argv[1:]])
    try:
        return _run(args)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
    if args is None:
        leave()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return EXIT_INTERRUPTED


def leave() -> None:
    """End this process as interrupted, at once: threads that are still at work are not joined."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


def _run(args: list[str] | None) -> int:
    from kbwiki.cli.app import app

    try:
        app(args=args, prog_name="kbwiki")
    except KbwikiError as error:
        _print_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of a pipe has gone (`kbwiki list | head`): nothing is wrong.
        sys.stdout = None
        return 0
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    return 0


def _print_error(error: KbwikiError) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    # A name may hold bytes that were no UTF-8.
    message, hint = (
        text.encode("utf-8", "backslashreplace").decode()
        for text in (error.message, f"{error.hint} {error.quoted}".strip())
    )
    console.print(Text.assemble(("error: ", "bold red"), message))
    if hint:
        console.print(Text.assemble(("hint: ", "bold"), hint))
