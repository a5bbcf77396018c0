"""The benchmark networks, one module per family, each written node by node as exporters emit it."""
