"""The tensor compiler: from tensor expressions and schedules to tuned C libraries.

It knows no graph and no ONNX; those are one layer up, in `graphopt`.
"""
