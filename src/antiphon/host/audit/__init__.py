"""The record of every step: written, chained, exported."""
