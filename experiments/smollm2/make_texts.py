"""Cuts texts into the dialogues of perplexity.json, a line of jsonl each, on stdout.

    python make_texts.py book.txt ... > texts.jsonl

A dialogue is DIALOGUE_TURNS pieces of PIECE words that follow each other in the text, some 7,000 tokens of
SmolLM2 in English.  A turn is a piece: its last REFERENCE words are the reference, the QUESTION words before
them stand in the question's place, the rest is the context.  What is left of a text is dropped.
"""
import json
import pathlib
import sys

DIALOGUE_TURNS, PIECE, QUESTION, REFERENCE = 7, 760, 40, 96


def turn(words):
    reference = len(words) - REFERENCE
    question = reference - QUESTION
    return {"context": " ".join(words[:question]), "question": " ".join(words[question:reference]),
            "references": [" " + " ".join(words[reference:])]}


def main():
    size = DIALOGUE_TURNS * PIECE
    for path in map(pathlib.Path, sys.argv[1:]):
        words = path.read_text(encoding="utf-8").split()
        for first in range(0, len(words) - size + 1, size):
            turns = [turn(words[at:at + PIECE]) for at in range(first, first + size, PIECE)]
            print(json.dumps({"id": f"{path.stem}-{first}", "turns": turns}))


if __name__ == "__main__":
    main()
