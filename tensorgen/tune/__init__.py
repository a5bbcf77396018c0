"""The tuner: better schedules than the analytical estimate's, found by measuring.

Spaces of schedules (`space`, `task_space`), strategies that propose points of them (`strategy`),
models that score points before they are measured (`cost_model`), and which task is worth the next
trials (`task_scheduler`).
"""
