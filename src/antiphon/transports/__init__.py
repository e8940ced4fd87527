"""Bytes in, bytes out: the ways for frames to travel, each behind the ``Channel`` of ``antiphon.channel``.

``memory`` links two channels within one process, ``stdio_server`` speaks over a process's own standard streams,
``stdio_client`` starts a child process and speaks over its. The rest are their parts: ``lines`` (bytes to frames),
``inbox`` and ``room`` (waiting for frames, waiting for room), ``reader`` and ``writer`` (the two halves of a byte
stream), ``pipes`` and ``threads`` (the fast way and the way that always works), ``streams``, ``child`` and ``stderr``.

Transports own file descriptors, processes and the tasks that close them. They know neither messages nor revisions,
and they import no engine: whoever composes a program hands channels upwards.
"""

from __future__ import annotations
