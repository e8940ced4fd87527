"""Transports: the ways in which frames travel, each behind the ``Channel`` of ``antiphon.channel``.

``queued`` links two channels within one process; ``stdio``, ``http``, ``sse`` and ``websocket`` each have a ``server``
and a ``client``. Shared parts are ``inbox`` and ``queued`` (frames that wait, and waiting for room)
and ``recording`` (a channel that shows all messages).

Transports own file descriptors, processes and the tasks that close them. They know neither messages nor revisions, and
import no engine: the program that combines the parts passes channels upwards.
"""

from __future__ import annotations
