"""How vendors write requests, answers and errors, and which parts of a request a host can serve."""
