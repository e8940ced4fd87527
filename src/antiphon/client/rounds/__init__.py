"""Input rounds, the client's side (from 2026-07-28)."""
