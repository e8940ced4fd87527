"""``antiphon review screen``: the queue and its requests on a whole terminal, the twin of the page, by ``textual``."""
