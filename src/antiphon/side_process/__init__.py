"""Work on what peers send that must not hold the event loop, done in a process that can be killed.

``pool`` starts the processes and hands them work; ``child`` is what runs in them. The work itself stands with its
subject, as a module-level function from bytes to bytes.
"""
