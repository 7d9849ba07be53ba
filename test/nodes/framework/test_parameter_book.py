"""Refit, last good, nominal: every step down and up again."""

from types import SimpleNamespace

import numpy as np
import pytest

from nodes.framework.parameter_book import ParameterBook, Source


def parameter_set(vector=(1.0, 2.0), revision=1, accepted=True, robot="arm", model_hash="abc"):
    return SimpleNamespace(
        vector=list(vector), revision=revision, accepted=accepted, robot=robot, model_hash=model_hash
    )


@pytest.fixture
def book():
    return ParameterBook(
        "arm",
        "abc",
        [5.0, 5.0],
        silence_limit=1.0,
        nominal_after=3.0,
        objection=lambda p: "a mass is negative" if p.min() < 0 else "",
    )


def state(book):
    return book.source, book.revision, list(book.p)


def test_starts_nominal_and_takes_an_accepted_set(book):
    assert state(book) == (Source.NOMINAL, 0, [5, 5])
    assert book.offer(parameter_set(), 2.0) == ""
    assert state(book) == (Source.REFIT, 1, [1, 2]) and book.age(2.5) == 0.5


def test_a_rejected_proposal_is_a_sign_of_life_and_nothing_else(book):
    book.offer(parameter_set(), 0.0)
    for t in np.arange(0.5, 10, 0.5):
        book.offer(parameter_set((9, 9), 2, accepted=False), t)
        book.tick(t)
    assert state(book) == (Source.REFIT, 1, [1, 2])


@pytest.mark.parametrize(
    "bad, words",
    [
        (parameter_set((np.nan, 1), 2), "1 of 2 numbers are not finite"),
        (parameter_set((1,), 2), "1 numbers, the model has 2"),
        (parameter_set((1, -1), 2), "a mass is negative"),
        (parameter_set(robot="leg"), "robot 'leg'"),
        (parameter_set(model_hash="xyz"), "another model"),
        (parameter_set(model_hash="abc+0123"), "computed with networks 0123 in the model, here are no networks"),
    ],
)
def test_a_bad_set_leaves_the_last_good_one(book, bad, words):
    book.offer(parameter_set(), 0.0)
    assert words in book.offer(bad, 0.1) and words in book.message
    assert state(book) == (Source.LAST_GOOD, 1, [1, 2])
    book.offer(parameter_set((3, 3), 3), 0.2)
    assert state(book) == (Source.REFIT, 3, [3, 3])


def test_after_an_exchange_of_networks_only_a_refit_of_the_new_model_counts(book):
    book.offer(parameter_set(), 0.0)
    book.model_changed("abc+0123")
    assert state(book) == (Source.LAST_GOOD, 1, [1, 2]) and "exchanged" in book.message
    assert "no networks in the model, here are networks 0123" in book.offer(parameter_set((3, 3), 2), 0.5)
    book.offer(parameter_set((3, 3), 3, accepted=False, model_hash="abc+0123"), 1.0)
    assert state(book) == (Source.LAST_GOOD, 1, [1, 2])  # a sign of life, but nothing to return to
    assert book.offer(parameter_set((4, 4), 4, model_hash="abc+0123"), 1.5) == ""
    assert state(book) == (Source.REFIT, 4, [4, 4])
    book.model_changed("abc")  # taken out, and nobody follows
    for t in np.arange(2.0, 6.0, 0.5):
        book.offer(parameter_set((9, 9), 5, accepted=t > 4.0, model_hash="abc+0123"), t)
        book.tick(t)
    assert state(book) == (Source.NOMINAL, 0, [5, 5])


def test_bad_sets_alone_end_at_nominal(book):
    book.offer(parameter_set(), 0.0)
    for t in np.arange(0.1, 3.2, 0.1):
        book.offer(parameter_set((np.nan, np.nan), 2), t)
        book.tick(t)
    assert state(book) == (Source.NOMINAL, 0, [5, 5])


def test_silence_steps_down_twice_and_a_word_brings_it_back(book):
    book.offer(parameter_set(), 0.0)
    assert not book.tick(0.9)
    assert book.tick(1.1) and state(book) == (Source.LAST_GOOD, 1, [1, 2]) and "silent" in book.message
    assert not book.tick(2.9)
    assert book.tick(3.1) and state(book) == (Source.NOMINAL, 0, [5, 5]) and "nominal" in book.message
    book.offer(parameter_set((1, 2), 1, accepted=False), 4.0)
    assert state(book) == (Source.REFIT, 1, [1, 2])


def test_silence_before_the_first_word_is_no_news(book):
    assert not book.tick(100.0)


def test_frozen_keeps_what_is_in_force(book):
    book.offer(parameter_set(), 0.0)
    book.frozen = True
    assert book.offer(parameter_set((7, 7), 2), 0.5) == "frozen"
    assert state(book) == (Source.REFIT, 1, [1, 2])


def test_a_persons_set_is_the_new_nominal(book):
    book.offer(parameter_set(revision=4), 0.0)
    revision, why = book.set_by_person(parameter_set((8, 8), 0), 0.5)
    assert (revision, why) == (5, "") and state(book) == (Source.NOMINAL, 5, [8, 8])
    assert book.set_by_person(parameter_set((8, np.nan)), 0.6) == (5, "1 of 2 numbers are not finite")


def test_a_reset_keeps_what_was_learnt(book):
    book.offer(parameter_set(), 100.0)
    book.time_jumped(0.0)
    assert not book.tick(0.5) and book.age(0.5) == 0.5
    assert book.tick(1.5) and book.source is Source.LAST_GOOD


def test_particles_are_taken_whole_or_not_at_all(book):
    several = SimpleNamespace(robot="arm", model_hash="abc")
    assert book.set_particles(several, [[1, 2], [3, 4]], 1.0) == (1, "")
    assert book.p.tolist() == [[1, 2], [3, 4]] and "2 particles" in book.message
    assert book.set_particles(several, [[1, 2], [-1, 4]], 2.0) == (1, "a mass is negative")
    assert book.p.shape == (2, 2)
    assert book.set_by_person(parameter_set((7, 8), 0), 3.0) == (2, "")  # a single set takes their place
    assert state(book) == (Source.NOMINAL, 2, [7, 8])
