"""Dataset adapters, one module per dataset family, and the file readers they share.

Imported as `harness.datasets.adapters`, because another package owns the name `adapters`.
"""
