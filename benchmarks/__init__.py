"""Measures Tasor against its peers on operators, networks and trained models.

Not part of the installed package: it may import `tasor`, and nothing imports it but its tests.
"""
