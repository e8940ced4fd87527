"""``antiphon review screen``: the queue and its requests on a whole terminal, like the page, drawn by ``textual``."""
