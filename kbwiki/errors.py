"""Every error that kbwiki raises for an expected fault.

The tree::

    KbwikiError
    ├── InputError       a file, argument or text that cannot be used as given
    │   └── QuarantineError  a page that is most likely none: an error, a login, a cookie wall
    ├── ConfigError      a setting, key or installed package that is missing or wrong
    ├── DatabaseError    the database is away, too old, or refused what we asked
    ├── SchemaError      the database's schema and this program do not fit each other
    ├── ModelError       an embedding or language model failed or does not fit the store
    ├── NotFoundError    a name that the store does not hold
    └── BudgetError      the next call would cost more than was allowed

The command line and the MCP server are the only two places that catch them.
"""


class KbwikiError(Exception):
    """An expected fault: ``where: what.`` and, as the hint, what to do next.

    ``quoted`` are words of the store that end the hint, such as names that are near: to agents they
    are data.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", quoted: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.quoted = quoted

    def __str__(self) -> str:
        return " ".join(filter(None, (self.message, self.hint, self.quoted)))


class InputError(KbwikiError):
    """A file, argument or text that cannot be used as given."""


class QuarantineError(InputError):
    """A web page that is most likely none; a person may say that it is one."""


class ConfigError(KbwikiError):
    """A setting, key or installed package that is missing or wrong."""


class DatabaseError(KbwikiError):
    """The database is away, too old, or refused what was asked."""


class SchemaError(DatabaseError):
    """The database's schema and this program do not fit each other."""


class ModelError(KbwikiError):
    """An embedding or language model failed or does not fit the store."""


class NotFoundError(KbwikiError):
    """A name that the store does not hold."""


class BudgetError(KbwikiError):
    """The next call would cost more than was allowed."""

    exit_code = 3
