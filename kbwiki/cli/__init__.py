"""The command line: one border at which our errors become messages and exit codes."""

import sys

from kbwiki.errors import KbwikiError

EXIT_INTERRUPTED = 130


def main(args: list[str] | None = None) -> int:
    """Run a command and return its exit code; ``args`` default to the process's own."""
    from kbwiki.cli.app import app

    try:
        app(args=args, prog_name="kbwiki")
    except KbwikiError as error:
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted. continue with: kbwiki build", file=sys.stderr)
        return EXIT_INTERRUPTED
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
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text.assemble(("hint: ", "bold"), error.hint))
