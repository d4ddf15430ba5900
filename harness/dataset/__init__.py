"""The normalised dataset: adapters' contract, catalogue, cache, reader and writer."""
