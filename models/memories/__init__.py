"""Memories that fill by another rule than the reservoir, for the methods that need one."""
