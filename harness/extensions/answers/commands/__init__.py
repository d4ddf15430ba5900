"""The commands answer, judge and semantic scoring."""
