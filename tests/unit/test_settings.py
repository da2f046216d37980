"""Configuration: what is right is read, what is wrong stops the start and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.settings import KEYS, Settings, SettingsError, load


def from_file(directory: Path, content: str) -> Settings:
    path = directory / "millstream.toml"
    path.write_text(content)
    return load(path, {}, {})


def test_every_default_is_valid_and_every_key_has_a_reason() -> None:
    settings = load(None, {}, {})
    assert settings.address() == ("127.0.0.1", 4437)
    assert settings.number("limits.body") == 64 << 20
    assert settings.seconds("limits.long_poll") == 25.0
    assert all(len(key.reason) > 15 for key in KEYS.values())
    assert settings.warnings == []


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('[server]\nshards = 2\nlisten = "1.1.1.1:1"\ndata_dir = "file"\n')
    environment = {"MILLSTREAM_SERVER_LISTEN": "2.2.2.2:2", "MILLSTREAM_SERVER_DATA_DIR": "environment"}
    flags = {"server.data_dir": "flag", "server.listen": None}
    settings = load(path, environment, flags)
    assert settings.text("server.data_dir") == "flag"
    assert settings.address() == ("2.2.2.2", 2)
    assert settings.number("server.shards") == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("65536", 65536),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        ("1MB", 10**6),
        ("0", 0),
        ("2GiB", 2 << 30),
        ("7B", 7),
    ],
)
def test_sizes(given: str, expected: int) -> None:
    assert load(None, {}, {"limits.disk_free_min": given}).number("limits.disk_free_min") == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("250ms", 0.25), ("10s", 10.0), ("1.5m", 90.0), ("1h", 3600.0), ("2d", 172800.0)]
)
def test_durations(given: str, expected: float) -> None:
    assert load(None, {}, {"limits.long_poll": given}).seconds("limits.long_poll") == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits.body", "64 kilobytes"), ("limits.body", "-1"), ("limits.body", "1.5MiB"),
        ("limits.body", ""),
        ("limits.long_poll", "25"), ("limits.long_poll", "25 seconds"), ("limits.long_poll", "-1s"),
        ("limits.long_poll", "0s"), ("server.shards", "0"), ("server.shards", "two"),
        ("server.shards", "1.0"),
        ("server.listen", "4437"), ("server.listen", "host:99999"), ("server.listen", ":1"),
        ("server.log_format", "xml"), ("server.public_url", "streams.example.com"),
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused_and_the_key_named(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=key.replace(".", r"\.")):
        load(None, {}, {key: value})


@pytest.mark.parametrize(
    "content", ["[server]\nport = 1", "[servers]\nlisten = 1", "[limits]\nBODY = 1", "shards = 1", "nonsense"]
)
def test_an_unknown_key_or_no_toml_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(SettingsError, match=r"millstream\.toml"):
        from_file(tmp_path, content)


def test_an_unknown_variable_of_a_known_table_is_refused() -> None:
    with pytest.raises(SettingsError, match="MILLSTREAM_LIMITS_BODDY"):
        load(None, {"MILLSTREAM_LIMITS_BODDY": "1"}, {})
    assert load(None, {"PATH": "x", "MILLSTREAMS": "y"}, {})


def test_a_value_may_be_read_from_the_environment() -> None:
    assert load(None, {"PLACE": "/data"}, {"server.data_dir": "$PLACE"}).text("server.data_dir") == "/data"
    with pytest.raises(SettingsError, match="PLACE"):
        load(None, {}, {"server.data_dir": "$PLACE"})


def test_keys_without_effect_are_accepted_with_a_warning(tmp_path: Path) -> None:
    assert from_file(tmp_path, "version = 1").warnings == ["version has no effect here"]


def test_a_cluster_table_is_refused_on_a_single_node(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cluster"):
        from_file(tmp_path, "[cluster]\nname = 'x'")


@pytest.mark.parametrize(
    "flags",
    [
        {"server.tls_cert": "c.pem"},
        {"server.tls_key": "k.pem"},
        {"limits.uri": "64KiB"},
        {"limits.head": "100", "limits.uri": "50"},
    ],
)
def test_values_that_do_not_fit_together_are_refused(flags: dict[str, str | None]) -> None:
    with pytest.raises(SettingsError):
        load(None, {}, flags)


def test_an_ipv6_address_is_taken_in_brackets() -> None:
    assert load(None, {}, {"server.listen": "[::1]:80"}).address() == ("::1", 80)


def test_more_shards_than_a_journal_file_can_name_are_refused() -> None:
    assert load(None, {}, {"server.shards": "4096"}).number("server.shards") == 4096
    with pytest.raises(SettingsError, match=r"server\.shards is at most 4096"):
        load(None, {}, {"server.shards": "40000"})
