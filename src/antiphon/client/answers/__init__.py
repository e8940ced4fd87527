"""Answering what a server asks: checks, consent, the answerers, and the call that an ask belongs to."""
