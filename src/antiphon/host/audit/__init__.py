"""The record of every step: making it, linking it to the one before, exporting it."""
