//! The drivers against peers that are no proper broker. Each listens on a loopback port of its own and ends with its test.

#![allow(clippy::unwrap_used, reason = "tests")]

use client::consumer::Start;
use client::producer::{self, Record};
use client::{Client, Consumer, ConsumerConfig, Error, Producer, ProducerConfig, Settings};
use protocol::api::{APIS, ApiKey};
use protocol::error::ErrorCode;
use protocol::frame::{Request, begin_frame, end_frame, put_response_header};
use protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use protocol::messages::{InitProducerIdResponse, Message, MetadataRequest, MetadataResponse};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a peer does with a request (its frame) on a connection; `false` closes it.
type Behaviour = Box<dyn FnMut(&[u8], &mut TcpStream, u16) -> bool + Send>;

/// A peer that serves `connections`, each in a thread.
fn peer(connections: usize, behaviour: Behaviour) -> (Settings, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let behaviour = Arc::new(Mutex::new(behaviour));
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let behaviour = Arc::clone(&behaviour);
            std::thread::spawn(move || serve(stream, port, &behaviour));
        }
    });
    let mut settings = Settings::new(&format!("127.0.0.1:{port}")).unwrap();
    settings.connect_timeout = Duration::from_millis(500);
    settings.request_timeout = Duration::from_millis(500);
    settings.call_timeout = Duration::from_millis(700);
    (settings, thread)
}

fn serve(mut stream: TcpStream, port: u16, behaviour: &Mutex<Behaviour>) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut frame).is_err() || !(behaviour.lock().unwrap())(&frame, &mut stream, port) {
            return;
        }
    }
}

fn respond(stream: &mut TcpStream, key: ApiKey, version: i16, correlation: i32, body: &[u8]) {
    let mut out = Vec::new();
    let at = begin_frame(&mut out);
    put_response_header(&mut out, key, version, correlation);
    out.extend_from_slice(body);
    end_frame(&mut out, at, 0);
    // The client may have given up.
    let _ = stream.write_all(&out);
}

/// ApiVersions as an honest broker answers it; versions above 3 are not spoken by the client.
fn api_versions() -> Vec<u8> {
    let mut body = vec![0, 0];
    protocol::wire::put_uvarint(&mut body, u32::try_from(APIS.len()).unwrap() + 1);
    for api in APIS {
        for number in [api.key as i16, api.min, api.max] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        body.push(0);
    }
    body.extend_from_slice(&[0, 0, 0, 0, 0]);
    body
}

/// A broker that leads one partition of any topic; `rest` answers what is neither ApiVersions nor Metadata.
fn broker(mut rest: impl FnMut(ApiKey, i16, i32, &mut TcpStream) -> bool + Send + 'static) -> Behaviour {
    Box::new(move |frame, stream, port| {
        let Ok(Request::Served { api, header, body }) = Request::parse(frame) else { return false };
        match api.key {
            ApiKey::ApiVersions => respond(stream, api.key, header.version, header.correlation, &api_versions()),
            ApiKey::Metadata => {
                let request = MetadataRequest::parse(body, header.version).unwrap();
                let topics = request.topics.unwrap_or_default().into_iter().map(|topic| MetadataResponseTopic {
                    name: topic.name,
                    partitions: vec![MetadataResponsePartition { leader_id: 1, ..Default::default() }],
                    ..Default::default()
                });
                let response = MetadataResponse {
                    brokers: vec![MetadataResponseBroker {
                        node_id: 1,
                        host: "127.0.0.1",
                        port: port.into(),
                        rack: None,
                    }],
                    controller_id: 1,
                    topics: topics.collect(),
                    ..Default::default()
                };
                let mut body = Vec::new();
                response.encode(&mut body, header.version);
                respond(stream, api.key, header.version, header.correlation, &body);
            }
            key => return rest(key, header.version, header.correlation, stream),
        }
        true
    })
}

fn refused(settings: Settings) -> String {
    let begun = Instant::now();
    let error = Client::connect(settings).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "it took too long to say so");
    error.to_string()
}

#[test]
fn a_web_server_is_no_broker() {
    let (settings, thread) = peer(
        1,
        Box::new(|_, stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            false
        }),
    );
    let text = refused(settings);
    assert!(text.ends_with("what it answers is not the Kafka protocol"), "{text}");
    thread.join().unwrap();
}

#[test]
fn silence_and_a_closed_door_are_told_apart() {
    let (settings, thread) = peer(1, Box::new(|_, _, _| true));
    assert!(refused(settings).ends_with("it accepts connections but does not answer"));
    thread.join().unwrap();
    let (settings, thread) = peer(1, Box::new(|_, _, _| false));
    assert!(refused(settings).ends_with("it closed the connection at once"));
    thread.join().unwrap();
}

#[test]
fn an_old_broker_is_asked_again_in_version_0() {
    let mut versions = Vec::new();
    let (settings, thread) = peer(
        1,
        Box::new(move |frame, stream, _| {
            let Ok(Request::Served { header, .. }) = Request::parse(frame) else { return false };
            versions.push(header.version);
            match versions.len() {
                1 => respond(stream, ApiKey::ApiVersions, 0, header.correlation, &[0, 35, 0, 0, 0, 0]),
                // Serves nothing but Metadata, and that in a version nobody speaks.
                2 => respond(
                    stream,
                    ApiKey::ApiVersions,
                    0,
                    header.correlation,
                    &[0, 0, 0, 0, 0, 1, 0, 3, 0, 99, 0, 100],
                ),
                _ => return false,
            }
            assert_eq!(versions[0], 3);
            true
        }),
    );
    let text = refused(settings);
    assert!(text.contains("does not serve Metadata") && text.contains("it serves 99 to 100"), "{text}");
    thread.join().unwrap();
}

#[test]
fn a_length_bomb_breaks_the_connection_and_takes_no_memory() {
    let (settings, thread) = peer(
        2,
        broker(|_, _, _, stream| {
            stream.write_all(&i32::MAX.to_be_bytes()).unwrap();
            true
        }),
    );
    let mut client = Client::connect(settings).unwrap();
    let error = client.list_groups().unwrap_err();
    assert!(error.to_string().contains("a response of 2147483647 bytes"), "{error}");
    drop(client);
    thread.join().unwrap();
}

#[test]
fn answers_that_make_no_sense_are_errors() {
    // The wrong correlation id, a body that is cut off, a count that promises more than there is.
    for (correlation_step, body) in [(1, &b"\0\0\0\0\0\0"[..]), (0, b"\0"), (0, b"\0\0\0\0\0\0\xff\xff\xff\x07")] {
        let (settings, thread) = peer(
            2,
            broker(move |key, version, correlation, stream| {
                respond(stream, key, version, correlation + correlation_step, body);
                true
            }),
        );
        let mut client = Client::connect(settings).unwrap();
        let error = client.list_groups().unwrap_err();
        assert!(matches!(error, Error::Malformed { .. } | Error::Unexpected { .. }), "{error}");
        drop(client);
        thread.join().unwrap();
    }
}

#[test]
fn a_broker_that_never_answers_costs_the_request_timeout() {
    let (settings, thread) = peer(2, broker(|_, _, _, _| true));
    let mut client = Client::connect(settings).unwrap();
    let begun = Instant::now();
    let error = client.list_groups().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(client);
    thread.join().unwrap();
}

#[test]
fn a_producer_without_answers_gives_records_up_in_time() {
    let (settings, thread) = peer(
        3,
        broker(|key, version, correlation, stream| {
            if key != ApiKey::InitProducerId {
                // Produce: never answered.
                return true;
            }
            let mut body = Vec::new();
            InitProducerIdResponse { producer_id: 7, ..Default::default() }.encode(&mut body, version);
            respond(stream, key, version, correlation, &body);
            true
        }),
    );
    let limits = producer::Limits { delivery_ms_max: 300, ..producer::Limits::default() };
    let config = ProducerConfig { limits, block_max: Duration::from_secs(2) };
    let producer = Producer::new(settings, config).unwrap();
    let topic = producer.topic("t").unwrap();
    producer.send(topic, None, &Record { value: Some(b"v"), ..Record::default() }).unwrap();
    let begun = Instant::now();
    let error = producer.flush().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::REQUEST_TIMED_OUT), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(producer);
    drop(thread);
}

#[test]
fn damaged_records_are_named_and_can_be_passed_by() {
    use protocol::batch::{BatchBuilder, Producer as Who, stamp};
    use protocol::messages::FetchResponse;
    use protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    // Three batches of one record; a bit of the second is wrong.
    let mut records = Vec::new();
    for offset in 0..3 {
        let mut builder = BatchBuilder::new();
        builder.append(0, None, Some(b"value"), &[]);
        let mut batch = builder.finish(Who::NONE, &base::Checksums::portable()).to_vec();
        stamp(&mut batch, base::Offset(offset), base::Epoch(0)).unwrap();
        if offset == 1 {
            *batch.last_mut().unwrap() ^= 1;
        }
        records.extend(batch);
    }
    let mut fetches = 0;
    let (settings, thread) = peer(
        2,
        broker(move |key, version, correlation, stream| {
            if key != ApiKey::Fetch {
                return false;
            }
            fetches += 1;
            std::thread::sleep(Duration::from_millis(20));
            let partition = PartitionData {
                high_watermark: 3,
                records: Some(if fetches == 1 { &records } else { &[] }),
                ..Default::default()
            };
            let topic = FetchableTopicResponse { topic: "t", partitions: vec![partition], ..Default::default() };
            let mut body = Vec::new();
            FetchResponse { responses: vec![topic], ..Default::default() }.encode(&mut body, version);
            respond(stream, key, version, correlation, &body);
            true
        }),
    );
    let mut consumer = Consumer::new(settings, ConsumerConfig::default());
    consumer.assign(&[("t", 0, Start::Offset(0))]);
    let mut seen = Vec::new();
    let mut poll = |consumer: &mut Consumer| {
        let polled = consumer.poll(Duration::from_millis(300), |record| {
            seen.push(record.offset);
            ControlFlow::Continue(())
        });
        (polled, seen.clone())
    };
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        assert!(Instant::now() < end);
        let (polled, seen) = poll(&mut consumer);
        if polled.unwrap() > 0 {
            assert_eq!(seen, [0], "what came before the damage is given");
            break;
        }
    }
    let (polled, _) = poll(&mut consumer);
    let error = polled.unwrap_err();
    assert_eq!(error.to_string(), "t-0 at offset 1: CRC-32C mismatch");
    let (polled, _) = poll(&mut consumer);
    assert!(polled.is_err(), "it does not go on by itself");
    consumer.seek("t", 0, Start::Offset(2)).unwrap();
    assert_eq!(poll(&mut consumer).0.unwrap(), 0);
    drop(consumer);
    drop(thread);
}
