"""The suites of `tasor bench`: operators and networks built on demand, trained models found where
their packages are installed."""
