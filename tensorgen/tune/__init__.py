"""The tuner: the spaces of schedules, searched by measuring some of them."""
