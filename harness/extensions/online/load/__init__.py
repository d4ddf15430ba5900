"""Load of a retriever: throughput, latency, errors and recall with several clients."""
