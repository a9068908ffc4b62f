//! The scenario's hands: connections to one broker, requests made from JSON, every answer written down.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use protocol::api::{APIS, Api};
use serde_json::Value;

use super::codec::{self, Schema};
use super::transcript::{Exchange, Response, Transcript};

pub(crate) struct Run {
    address: SocketAddr,
    schemas: BTreeMap<String, Schema>,
    connections: BTreeMap<String, TcpStream>,
    /// Which connection is used, by the name that the scenario gave it.
    on: String,
    correlation: i32,
    pub(crate) transcript: Transcript,
}

/// A request whose answer is not read yet.
pub(crate) struct Sent {
    api: &'static Api,
    version: i16,
    case: String,
    on: String,
    frame: Vec<u8>,
}

impl Run {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            schemas: codec::all().into_iter().map(|schema| (schema.name.clone(), schema)).collect(),
            connections: BTreeMap::new(),
            on: "main".into(),
            correlation: 0,
            transcript: Transcript::default(),
        }
    }

    /// Uses another connection from here on.
    pub(crate) fn on(&mut self, name: &str) {
        self.on = name.into();
    }

    /// Asks and gives the answer; null where the broker closed the connection instead.
    pub(crate) fn ask(&mut self, api: &str, version: i16, case: &str, request: Value) -> Value {
        let sent = self.send(api, version, case, request);
        self.receive(sent)
    }

    /// Asks and does not wait.
    pub(crate) fn send(&mut self, api: &str, version: i16, case: &str, request: Value) -> Sent {
        let body = codec::encode(&self.schemas[&format!("{api}Request")], version, &request);
        let api = info(api);
        let frame = self.frame(api.key as i16, version, api.is_flexible(version), &body);
        self.write(&frame);
        Sent { api, version, case: case.into(), on: self.on.clone(), frame }
    }

    /// The answer to what was sent, and writes both down.
    pub(crate) fn receive(&mut self, sent: Sent) -> Value {
        let response = self.read(&sent.on);
        let answer = match &response {
            Response::Answer(bytes) => self.decode_response(sent.api, sent.version, bytes).unwrap_or_else(|error| {
                panic!("{} v{} {}: {error}: {}", sent.api.name, sent.version, sent.case, codec::hex(bytes))
            }),
            _ => Value::Null,
        };
        self.note(sent.api.name, sent.version, &sent.case, sent.frame, response);
        answer
    }

    /// Asks off the record, on a connection of its own.
    pub(crate) fn peek(&mut self, api: &str, version: i16, request: &Value) -> Value {
        let before = (std::mem::replace(&mut self.on, "peek".into()), self.correlation);
        let Sent { api, frame, .. } = self.send(api, version, "", request.clone());
        let response = self.read("peek");
        (self.on, self.correlation) = before;
        let Response::Answer(bytes) = response else { panic!("{} is not answered: {}", api.name, codec::hex(&frame)) };
        self.decode_response(api, version, &bytes)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", api.name, codec::hex(&bytes)))
    }

    /// Sends what nobody answers, and writes it down.
    pub(crate) fn tell(&mut self, api: &str, version: i16, case: &str, request: Value) {
        let sent = self.send(api, version, case, request);
        self.note(api, version, case, sent.frame, Response::Nothing);
    }

    /// Sends any body under any key and version. The answer stays as it is.
    pub(crate) fn raw(&mut self, name: &str, key: i16, version: i16, flexible: bool, case: &str, body: &[u8]) {
        let frame = self.frame(key, version, flexible, body);
        self.write(&frame);
        let response = self.read(&self.on.clone());
        self.note(name, version, case, frame, response);
    }

    /// Remembers what the broker drew at random.
    pub(crate) fn learn(&mut self, kind: &str, name: &str, value: &Value) {
        assert!(!value.is_null(), "{kind} {name} is missing in the answer");
        self.transcript.names.learn(kind, name, value);
    }

    /// What was learned.
    pub(crate) fn known(&self, kind: &str, name: &str) -> Value {
        self.transcript.names.value(kind, name)
    }

    /// A request's body as JSON.
    pub(crate) fn decode_request(&self, api: &Api, version: i16, frame: &[u8]) -> Result<Value, String> {
        // Key, version, correlation id, client id and, where it is flexible, an empty section of tags.
        let head = 8 + 2 + CLIENT.len() + usize::from(api.is_flexible(version));
        codec::decode(&self.schemas[&format!("{}Request", api.name)], version, frame.get(head..).ok_or("cut off")?)
    }

    /// A response's body as JSON.
    pub(crate) fn decode_response(&self, api: &Api, version: i16, frame: &[u8]) -> Result<Value, String> {
        let (_, body) =
            protocol::frame::parse_response(frame, api.key, version).map_err(|error| format!("{error:?}"))?;
        let schema = &self.schemas[&format!("{}Response", api.name)];
        codec::decode(schema, version, body)
    }

    fn frame(&mut self, key: i16, version: i16, flexible: bool, body: &[u8]) -> Vec<u8> {
        self.correlation += 1;
        let mut frame = Vec::new();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(self.correlation.to_be_bytes());
        frame.extend(u16::try_from(CLIENT.len()).unwrap().to_be_bytes());
        frame.extend(CLIENT.as_bytes());
        if flexible {
            frame.push(0);
        }
        frame.extend(body);
        frame
    }

    fn write(&mut self, frame: &[u8]) {
        let address = self.address;
        let stream = self.connections.entry(self.on.clone()).or_insert_with(|| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream
        });
        let mut bytes = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(frame);
        stream.write_all(&bytes).unwrap();
    }

    /// The next answer on a connection. A closed one is forgotten, so that the next request makes it anew.
    fn read(&mut self, on: &str) -> Response {
        let stream = self.connections.get_mut(on).unwrap();
        let mut len = [0; 4];
        let mut frame = Vec::new();
        let read = stream.read_exact(&mut len).and_then(|()| {
            frame.resize(u32::from_be_bytes(len) as usize, 0);
            stream.read_exact(&mut frame)
        });
        match read {
            Ok(()) => Response::Answer(frame),
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                self.connections.remove(on);
                Response::Closed
            }
            Err(error) => {
                let last = self.transcript.exchanges.last().map(|e| format!("{} v{} {:?}", e.api, e.version, e.case));
                panic!("on {on}, behind {last:?}: {error}")
            }
        }
    }

    fn note(&mut self, api: &str, version: i16, case: &str, request: Vec<u8>, response: Response) {
        if let Response::Answer(bytes) = &response {
            assert_eq!(bytes[..4], request[4..8], "{api} v{version} {case}: correlation id");
        }
        assert!(self.transcript.find(api, version, case).is_none(), "{api} v{version} {case}: twice");
        self.transcript.exchanges.push(Exchange { api: api.into(), version, case: case.into(), request, response });
    }
}

/// What every request calls its client.
pub(crate) const CLIENT: &str = "golden";

/// What the table of served APIs says of one.
pub(crate) fn info(name: &str) -> &'static Api {
    APIS.iter().find(|api| api.name == name).unwrap_or_else(|| panic!("{name} is not served"))
}

/// Every version of an API that is served.
pub(crate) fn versions(name: &str) -> std::ops::RangeInclusive<i16> {
    let api = info(name);
    api.served_min..=api.max
}

/// The version of another API that goes with the `step`-th of a story.
pub(crate) fn version(name: &str, step: i16) -> i16 {
    let range = versions(name);
    (range.start() + step).min(*range.end())
}
