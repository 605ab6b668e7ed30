"""How `einsum` writes the two products of an attention: in which order the dimensions lie."""

from __future__ import annotations

Order = tuple[int, ...] | None
"""A permutation of dimensions; None: they lie right."""


def of_scores(equation: str) -> tuple[Order, Order] | None:
    """Orders that make queries and keys (…, tokens, features) for scores of (…, queries, keys); None: no such product.

    `bqhd,bkhd->bhqk`: both (0, 2, 1, 3).
    """
    query, key, scores = _terms(equation)
    if len(scores) < 2 or not _plain(query, key, scores):
        return None
    batch, asks, answers = scores[:-2], scores[-2], scores[-1]
    features = [letter for letter in query if letter in key and letter not in scores]
    if len(features) != 1 or asks in key or answers in query:
        return None
    wanted = batch + asks + features[0], batch + answers + features[0]
    return _orders((query, wanted[0]), (key, wanted[1]))


def of_values(equation: str) -> tuple[Order, Order] | None:
    """Orders that make the values (…, tokens, features), and the result of that product as it is written.

    `bhqk,bkhd->bqhd`: (0, 2, 1, 3) and (0, 2, 1, 3).
    """
    weights, value, output = _terms(equation)
    if len(weights) < 2 or not _plain(weights, value, output):
        return None
    batch, asks, answers = weights[:-2], weights[-2], weights[-1]
    features = [letter for letter in value if letter in output and letter not in weights]
    if len(features) != 1 or asks in value or answers in output:
        return None
    return _orders((value, batch + answers + features[0]), (batch + asks + features[0], output))


def _terms(equation: str) -> tuple[str, str, str]:
    """The letters of both factors and of the result; leading dots, the same in all, are one letter more."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = [*given.split(","), result]
    if not arrow or len(terms) != 3:
        return "", "", ""
    if all(term.startswith("...") for term in terms):
        terms = [DOTS + term.removeprefix("...") for term in terms]
    return terms[0], terms[1], terms[2]


DOTS = "…"


def _plain(*terms: str) -> bool:
    """Whether each term has each letter once."""
    return all(len(set(term)) == len(term) and "." not in term for term in terms)


def _orders(*pairs: tuple[str, str]) -> tuple[Order, Order] | None:
    """From how dimensions lie to how they should; None: not the same dimensions, or the dots would move."""
    found: list[Order] = []
    for given, wanted in pairs:
        if sorted(given) != sorted(wanted):
            return None
        if given == wanted:
            found.append(None)
        elif DOTS in given:
            return None
        else:
            found.append(tuple(given.index(letter) for letter in wanted))
    return found[0], found[1]
