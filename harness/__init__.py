"""Run any retriever or memory system over public benchmarks and score it by ability."""

__version__ = "0.1.0"
