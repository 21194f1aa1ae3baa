"""Words on the command line that look like options: a question may begin with dashes."""

import re
from collections.abc import Collection
from typing import Any

from typer.core import TyperCommand, TyperOption

_OPTION = re.compile(r"--?[A-Za-z][\w-]*(=.*)?", re.DOTALL)


class WordsCommand(TyperCommand):
    """A command on a text, which is taken for one even where it begins with a dash."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; what no option can look like goes behind the mark that ends them."""
        takes_value = {
            name
            for option in self.params
            if isinstance(option, TyperOption) and not option.is_flag and not option.count
            for name in option.opts
        }
        return super().parse_args(ctx, words_last(args, takes_value))


def words_last(args: list[str], takes_value: Collection[str]) -> list[str]:
    """Return arguments in which words that begin with a dash stand behind ``--``.

    >>> words_last(["--- what", "-k", "3", "--source", "- a"], {"-k", "--source"})
    ['-k', '3', '--source', '- a', '--', '--- what']
    """
    options: list[str] = []
    words: list[str] = []
    for at, arg in enumerate(args):
        if arg == "--":
            return [*options, "--", *words, *args[at + 1 :]]
        is_value = at > 0 and args[at - 1] in takes_value
        is_words = arg.startswith("-") and arg != "-" and not _OPTION.fullmatch(arg)
        (words if is_words and not is_value else options).append(arg)
    return [*options, "--", *words] if words else options
