"""How vendors write requests, answers and errors, and what of it a host can be asked."""
