"""Input rounds on the client (from 2026-07-28)."""
