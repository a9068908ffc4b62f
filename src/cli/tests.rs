//! The command line as users type it.

#![allow(clippy::unwrap_used, reason = "a failed parse is a failed test")]

use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn dev_runs_on_defaults() {
    let Command::Dev(args) = parse("barelog dev").unwrap() else { panic!("not dev") };
    assert_eq!(args.listen.to_string(), "127.0.0.1:9092");
    assert_eq!((args.data_dir, args.shards, args.partitions), (None, None, 1));
    assert_eq!(args.profile, "laptop");
}

#[test]
fn demo_has_the_documented_defaults() {
    let Command::Demo(args) = parse("barelog demo").unwrap() else { panic!("not demo") };
    assert_eq!((args.messages, args.size, args.once), (2_000_000, 1024, false));
    assert!(parse("barelog demo --data-dir x --bootstrap 127.0.0.1:9092").is_err(), "they contradict each other");
}

#[test]
fn consume_refuses_contradictions() {
    assert!(parse("barelog consume t --group g --offset 5").is_err());
    assert!(parse("barelog consume t --from-beginning --offset 5").is_err());
    assert!(parse("barelog consume t --json --format raw").is_err());
    let Command::Consume(args) = parse("barelog consume t --offset -10 -p 1,2 -n 3").unwrap() else { panic!() };
    assert_eq!((args.offset, args.partition, args.count), (Some(-10), vec![1, 2], Some(3)));
}

#[test]
fn a_reset_has_exactly_one_target() {
    assert!(parse("barelog group reset-offsets g --topic t").is_err());
    assert!(parse("barelog group reset-offsets g --to-earliest --to-latest").is_err());
    let Command::Group(GroupArgs { command: GroupCommand::ResetOffsets(args) }) =
        parse("barelog group reset-offsets g --topic t:0,1 --shift -100").unwrap()
    else {
        panic!()
    };
    assert_eq!((args.to.shift, args.topic), (Some(-100), vec!["t:0,1".to_owned()]));
}

#[test]
fn usage_errors_exit_with_two() {
    assert_eq!(parse("barelog topic create").unwrap_err().exit_code(), i32::from(EXIT_USAGE));
    assert_eq!(parse("barelog nonsense").unwrap_err().exit_code(), i32::from(EXIT_USAGE));
    assert_eq!(parse("barelog produce t --acks 7").unwrap_err().exit_code(), i32::from(EXIT_USAGE));
}
