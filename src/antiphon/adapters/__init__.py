"""Tools of servers for the frameworks in which agents are built, with the host's policy, budget and audit.

Each framework has a module and an extra of its own; nothing of a framework is loaded by another module. pytest has a
plugin here, which needs none.
"""
