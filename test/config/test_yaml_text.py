"""What libyaml reads is what PyYAML's own parser reads, and what either refuses is refused in the same words."""

from pathlib import Path

import pytest
import yaml

from config import yaml_text

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for folder in ("config", "recording") for path in (ROOT / folder).rglob("*.yaml"))


def test_every_file_of_ours_says_the_same():
    assert len(FILES) > 10
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert yaml_text.load(text) == yaml.safe_load(text), path


def test_scalars_are_those_of_yaml_1_1():
    text = "{a: 1e-5, b: 1.0e-5, c: 0o7, d: yes, e: ~, f: 12:30:01, g: '1', h: .inf, i: 0x10}"
    assert yaml_text.load(text) == yaml.safe_load(text)
    assert yaml_text.load("") is None


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "{", "\ta: 1", "- a\nb", "a: @x", "a:\n  b: 'x", "a: \x07"])
def test_what_is_no_yaml_is_refused_in_the_words_of_the_parser_that_every_machine_has(text):
    with pytest.raises(yaml.YAMLError) as found:
        yaml_text.load(text)
    with pytest.raises(yaml.YAMLError) as expected:
        yaml.safe_load(text)
    assert str(found.value) == str(expected.value)
