"""The graph: its operators, ONNX in and out, rewrite rules and the search over them.

It proves nothing: proofs reach it as data, keyed by the digest of the rule they belong to.
"""
