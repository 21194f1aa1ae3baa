"""kbwiki: a folder of research compiled into a cited wiki, a typed graph and a shared memory."""

__version__ = "0.1.0"
