"""The tuner: better schedules than the analytical estimate's, found by measuring some of them.

Spaces of schedules (`space`, `task_space`), strategies that propose points of them (`strategy`),
models that score points before they are measured (`cost_model`), which task is worth the next
trials (`task_scheduler`), measuring (`measurer`) and what came of it (`outcome`, `records`).
"""
