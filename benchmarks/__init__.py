"""Measures what takes too long for a test: the search, rules, conformance, another generator.

Not part of the installed package: it may import `tasor`, and nothing imports it but its tests.
"""
