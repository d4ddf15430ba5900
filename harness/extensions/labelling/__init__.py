"""Labels a dataset: pools several systems, has people judge, measures agreement, and exports."""
