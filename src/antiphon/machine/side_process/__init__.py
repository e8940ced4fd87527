"""Work on input of peers that must not block the event loop, done in a process that can be killed.

``pool`` starts the processes and sends them work; ``child`` runs in them. The work itself is a module-level function
from bytes to bytes, in the module of its subject.
"""
