"""Connections that a server lends to its calls: at most so many, checked before use.

A call that is given up takes its query with it: what runs for nobody is cancelled in the server.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from kbwiki.db import Database, connect
from kbwiki.errors import DatabaseError

WAIT_S = 5.0
"""How long a call waits for a free connection."""


class Pool:
    """Lends connections of one kind; safe to share between threads.

    ``find_url`` returns the database's URL, asked anew for each connection that is made, for an
    embedded server may have moved. ``prepare`` settles what each may do.
    """

    def __init__(
        self,
        find_url: Callable[[], str],
        size: int,
        prepare: Callable[[Database], None],
        application: str,
    ) -> None:
        def make() -> psycopg.Connection[Any]:
            database = connect(find_url(), application)
            prepare(database)
            return database.connection

        class Made(psycopg.Connection[Any]):
            """Connects as `connect` does, whatever the pool says."""

            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                return make()

        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            "",
            connection_class=Made,
            min_size=0,
            max_size=size,
            timeout=WAIT_S,
            max_waiting=20 * size,
            max_idle=300,
            reconnect_timeout=1,
            check=ConnectionPool.check_connection,
            open=True,
            name=application,
        )

    @contextmanager
    def lend(self) -> Iterator[Database]:
        """Yield a connection that works; raise DatabaseError where there is none in time."""
        try:
            connection = self._pool.getconn()
        except (PoolTimeout, PoolClosed, TooManyRequests, psycopg.Error) as error:
            raise DatabaseError(
                "database: no connection was to be had.", "Is it up? Try again in a moment."
            ) from error
        try:
            yield Database(connection, "")
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=2)
