"""A conformance kit for retrievers: what any plug-in must get right before its numbers count."""
