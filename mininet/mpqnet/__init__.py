"""Mininet experiments over emulated links."""
