"""The stages' names and one line of help each, in the order of `build`; cheap to import."""

STAGES: dict[str, str] = {
    "ingest": "Read files into sources and chunks.",
    "extract": "Find candidates and claims in each source.",
    "resolve": "Decide what the concepts are and where they are named.",
    "write": "Write one article for each concept and each source.",
    "link": "Link concepts that one statement names.",
    "classify-edges": "Give each edge one of the directed types.",
    "embed": "Make a vector for each chunk, concept and article.",
    "answer": "Answer filed questions anew whose sources changed.",
    "export": "Write the wiki as Markdown files.",
}
