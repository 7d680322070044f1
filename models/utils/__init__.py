"""Bases of the methods."""
