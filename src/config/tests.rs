#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::broker::{self, BrokerConfig, parse_cluster_id};
use super::keys::{Settings, Value, parse_bytes, show_bytes};
use super::profile::{self, Profile};

fn refused(text: &str) -> String {
    BrokerConfig::parse("barelog.toml", text).unwrap_err().to_string()
}

#[test]
fn every_default_is_valid_and_typed() {
    let config = BrokerConfig::defaults();
    assert_eq!(config.node_id, 1);
    assert_eq!(config.listeners[0].bind.to_string(), "127.0.0.1:9092");
    assert_eq!(config.message_bytes_max, (10 << 20) + 4096);
    assert_eq!(config.devices[0].path, std::path::Path::new("barelog-data/device-0.barelog"));
}

#[test]
fn the_laptop_profile_states_the_defaults_it_has() {
    let laptop = Profile::laptop();
    let bare = Profile::parse("bare", "bare.toml", "").unwrap();
    assert_eq!(format!("{laptop:?}").replace("laptop", "bare"), format!("{bare:?}"));
    let given = Settings::parse("laptop", profile::LAPTOP, profile::KEYS).unwrap();
    assert!(given.given().any(|(name, value)| name == "journal.unit" && *value == Value::Bytes(256 << 10)));
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_valid_key() {
    let text = "node.id = 3\n\n[num]\npartition = 4\n";
    assert_eq!(refused(text), "barelog.toml:4: unknown key num.partition; the nearest valid key is num.partitions");
    let text = "[[listeners]]\nname = \"a\"\nbnd = \"127.0.0.1:1\"\n";
    assert_eq!(
        refused(text),
        "barelog.toml:3: unknown key listeners[0].bnd; the nearest valid key is listeners[].bind"
    );
    let error = Profile::parse("p", "p.toml", "[memory]\ntial = \"1 GiB\"\n").unwrap_err().to_string();
    assert_eq!(error, "p.toml:2: unknown key memory.tial; the nearest valid key is memory.tail");
}

#[test]
fn a_key_of_no_table_that_stands_in_one_is_told_where_it_belongs() {
    let listener = "[[listeners]]\nname = \"a\"\nbind = \"127.0.0.1:1\"\n";
    assert_eq!(
        refused(&format!("{listener}http.bind = \"127.0.0.1:2\"\n")),
        "barelog.toml:4: unknown key listeners[0].http; http belongs to no table: move it above the first [table]"
    );
    assert_eq!(
        refused("[data]\nnum.partitions = 4\n"),
        "barelog.toml:2: unknown key data.num; num belongs to no table: move it above the first [table]"
    );
}

#[test]
fn a_wrong_type_or_range_is_named_with_its_line() {
    assert!(refused("num.partitions = 0").starts_with("barelog.toml:1: num.partitions must lie between 1"));
    assert_eq!(refused("num.partitions = \"four\""), "barelog.toml:1: num.partitions must be a whole number");
    assert!(
        refused("[message]\nmax.bytes = \"99 GiB\"").starts_with("barelog.toml:2: message.max.bytes must lie between")
    );
    assert!(refused("listeners = 3").contains("unknown key listeners"));
    assert!(refused("node.id = 1\nnode.id = 2").starts_with("barelog.toml:2:"));
    assert!(refused("log.format = \"xml\"").contains("must be one of text, json"));
    assert!(
        refused("num.partitions = 10001").starts_with("barelog.toml:1: num.partitions must lie between 1 and 10000")
    );
    assert!(refused("\nlog.level = \"loud\"").starts_with("barelog.toml:2: \"loud\" is no level"));
    assert!(refused("data.dir = \"\"").starts_with("barelog.toml:1: data.dir is empty"));
}

#[test]
fn two_listeners_of_one_port_are_refused_before_anything_starts() {
    let listener =
        |name: &str, bind: &str| format!("[[listeners]]\nname = \"{name}\"\nbind = \"{bind}\"\nadvertised = \"h:1\"\n");
    for (first, second) in
        [("127.0.0.1:9100", "127.0.0.1:9100"), ("0.0.0.0:9100", "127.0.0.1:9100"), ("[::]:9100", "0.0.0.0:9100")]
    {
        let error = refused(&(listener("a", first) + &listener("b", second)));
        assert!(error.ends_with(&format!("listener b binds {second}, and so does a")), "{error}");
    }
    let error = refused(&format!("http.bind = \"127.0.0.1:9100\"\n{}", listener("a", "127.0.0.1:9100")));
    assert!(error.ends_with("and so does HTTP"), "{error}");
    for second in ["127.0.0.1:9101", "127.0.0.2:9100"] {
        BrokerConfig::parse("b", &(listener("a", "127.0.0.1:9100") + &listener("b", second))).unwrap();
    }
    BrokerConfig::parse("b", &(listener("a", "127.0.0.1:0") + &listener("b", "127.0.0.1:0"))).unwrap();
}

#[test]
fn binding_every_address_needs_an_advertised_one_and_the_line_is_given() {
    let text = "[[listeners]]\nname = \"outside\"\nbind = \"0.0.0.0:9092\"\n";
    let error = refused(text);
    assert!(error.starts_with("barelog.toml:3:") && error.contains("advertised = \"HOST:9092\""), "{error}");
    assert!(refused(&text.replace("0.0.0.0", "[::]")).contains("advertised = \"HOST:9092\""));
    let fine = format!("{text}advertised = \"broker.example:19092\"\n");
    let config = BrokerConfig::parse("b", &fine).unwrap();
    assert_eq!(config.listeners[0].advertised, ("broker.example".into(), 19092));
    assert!(refused(&format!("{text}advertised = \"0.0.0.0:9092\"\n")).contains("clients cannot connect"));
    assert!(refused(&format!("{text}advertised = \"broker\"\n")).contains("is not host:port"));
}

#[test]
fn devices_are_checked() {
    assert!(refused("[[devices]]\npath = \"/d\"\n").contains("needs an upper bound"));
    let two = "[[devices]]\npath = \"/d\"\nsize = \"1 GiB\"\n[[devices]]\npath = \"/d\"\nsize = \"1 GiB\"\n";
    assert!(refused(two).contains("named twice"));
    let block = BrokerConfig::parse("b", "[[devices]]\npath = \"/dev/nvme0n1\"\nkind = \"block\"\n").unwrap();
    assert_eq!((block.devices.len(), block.devices[0].size), (1, None));
}

#[test]
fn sizes_read_back_as_they_are_shown() {
    for n in [0, 1, 1023, 1024, 1536, 1 << 20, 3 << 30, 5 << 40] {
        assert_eq!(parse_bytes(&show_bytes(n)), Ok(n));
    }
    assert!(parse_bytes("12 MB").unwrap_err().contains("use B, KiB"));
    assert!(parse_bytes("99999999999 TiB").is_err());
}

#[test]
fn a_cluster_id_is_what_kafka_prints() {
    // The UUID 00112233-4455-6677-8899-aabbccddeeff in URL-safe base64.
    assert_eq!(parse_cluster_id("ABEiM0RVZneImaq7zN3u_w"), Some(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff));
    assert_eq!(parse_cluster_id("ABEiM0RVZneImaq7zN3u_x"), None);
    assert_eq!(parse_cluster_id("short"), None);
}

#[test]
fn the_documentation_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/CONFIG.md");
    let text = super::markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "run cargo xtask bless");
    for key in broker::KEYS.iter().chain(profile::KEYS) {
        assert!(!key.doc.is_empty() && text.contains(key.name));
    }
}
