"""Bytes in, bytes out: the ways for frames to travel, each behind the ``Channel`` of ``antiphon.channel``.

``memory`` links two channels within one process; ``stdio``, ``http``, ``sse`` and ``websocket`` each have a ``server``
and a ``client``. What they share is beside them: ``inbox`` and ``outbox`` (frames that wait), ``backpressure``
(waiting for room), ``deadline`` and ``recording`` (a channel that shows what passes).

Transports own file descriptors, processes and the tasks that close them. They know neither messages nor revisions,
and they import no engine: whoever composes a program hands channels upwards.
"""

from __future__ import annotations
