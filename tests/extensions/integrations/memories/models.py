"""What the models of the loopback endpoint know: rules, in the formats that memories ask for."""

from __future__ import annotations

import json
import re

from openai_endpoint import Chat


def mem0(chat: Chat) -> str:
    """Each sentence of the new messages is a fact."""
    said = chat.between("## New Messages\n", "\n## ")
    facts = [fact for line in said.splitlines() for fact in _sentences(line)]
    return json.dumps({"memory": [{"id": str(i), "text": fact} for i, fact in enumerate(facts)]})


def graphiti(chat: Chat) -> str:
    """Each line of an episode is a fact, between its speaker and the world."""
    said = [_said(line) for line in episode(chat).splitlines()]
    match chat.schema:
        case "ExtractedEntities":
            names = dict.fromkeys([*(speaker for speaker, _ in said), "world"])
            found = [{"name": name, "entity_type_id": 0} for name in names]
            return json.dumps({"extracted_entities": found})
        case "ExtractedEdges":
            return json.dumps({"edges": [_edge(*turn) for turn in said]})
        case "NodeResolutions":
            return json.dumps({"entity_resolutions": []})
        case "EdgeDuplicate":
            return json.dumps({"duplicate_facts": [], "contradicted_facts": []})
        case "EdgeTimestamps":
            return json.dumps({"valid_at": None, "invalid_at": None})
        case "SummarizedEntities":
            return json.dumps({"summaries": []})
    raise ValueError(f"no rule for {chat.schema!r}")


def episode(chat: Chat) -> str:
    """What Graphiti asks to be read; its prompts mark it in three ways."""
    found = re.search(r"<(CURRENT[ _]MESSAGE|TEXT)>(.*?)</\1>", chat.text, re.DOTALL)
    return found[2].strip() if found else ""


def _said(line: str) -> tuple[str, str]:
    speaker, colon, said = line.partition(": ")
    return (speaker, said) if colon else ("somebody", line)


def _edge(speaker: str, said: str) -> dict[str, str]:
    return {
        "source_entity_name": speaker,
        "target_entity_name": "world",
        "relation_type": "SAID",
        "fact": f"{speaker} says: {said}",
    }


def _sentences(line: str) -> list[str]:
    _, _, said = line.partition(": ")
    return [sentence for sentence in re.split(r"(?<=[.!?]) ", said) if sentence]
