"""Labels a dataset: pools several systems, collects judgements, measures agreement, exports."""
