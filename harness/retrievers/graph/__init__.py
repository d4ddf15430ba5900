"""A graph of entities and the documents that mention them, as a retriever."""
