"""This machine, for whatever layer asks: which hosts are it, and processes that do what would hold the event loop."""
