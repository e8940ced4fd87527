"""A file that cannot be loaded."""

from antiphon import Server

server = Server("broken")
answer = 1 / 0
