"""Proofs: whether a graph rewrite is true and for which shapes, or a counterexample to it.

Only `tasor` imports it.
"""
