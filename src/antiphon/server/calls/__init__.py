"""The life of a call: how it asks, is parked, is replayed, and ends."""
