//! Connections: opening, taking requests in, answering in order, back-pressure, closing.

use alloc::sync::Arc;

use base::message::{ControlRequest, ToControl};
use base::stats::{ApiStats, ShardStats};
use base::{ConnId, Now};
use protocol::api::ApiKey;
use protocol::frame;

use crate::conn::{Answer, Conn, Gate, Request, Standing, State};
use crate::ports::{Network as _, Piece, Ports};
use crate::remote::RequestKey;
use crate::shard::Shard;

/// What is known of the request at the front of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Its length, without the length bytes.
    pub(crate) len: usize,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    /// Where its body begins.
    pub(crate) body: usize,
}

/// Shortest request: API key, version, correlation id.
const REQUEST_BYTES_MIN: usize = 8;

/// Connections let through a gate in one turn; the others keep their places.
const GATE_TURN_MAX: usize = 64;

impl<P: Ports> Shard<P> {
    pub(crate) fn opened(&mut self, now: Now, id: ConnId, listener: u16, peer: Arc<str>) {
        self.conns.insert(Conn::new(id, listener, peer, now.mono));
        self.stats.connections_opened.add(1);
        self.stats.connections.set(self.conns.len() as u64);
        if self.stopping.is_some() {
            self.close(now, id, false);
        }
    }

    /// The connection is to be served soon.
    pub(crate) fn schedule(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        match conn.standing {
            Standing::Resting | Standing::Gated(Gate::Own) => {
                conn.standing = Standing::Scheduled;
                self.scheduled.push_back(id);
            }
            // It has its place in a queue, or is not served any more.
            Standing::Scheduled | Standing::Gated(_) | Standing::Draining | Standing::Closing => {}
        }
    }

    /// Takes in requests of the connections whose turn it is, a bounded piece of each.
    pub(crate) fn serve_connections(&mut self, now: Now) -> bool {
        let count = self.scheduled.len();
        for _ in 0..count {
            let Some(id) = self.scheduled.pop_front() else { break };
            self.serve(now, id);
        }
        count > 0
    }

    fn serve(&mut self, now: Now, id: ConnId) {
        let mut budget = self.config.limits.conn_turn_bytes;
        loop {
            // Its slot may be empty, or another's, or it may have been closed by the last request.
            let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.standing == Standing::Scheduled) else { return };
            let readable = self.backends.network.readable(id);
            let len = match frame_len(readable, self.config.limits.request_bytes_max) {
                Ok(Some(len)) if readable.len() >= 4 + len => len,
                Ok(len) => {
                    conn.standing = Standing::Resting;
                    if let Some(len) = len.filter(|len| 4 + len != conn.expected) {
                        conn.expected = 4 + len;
                        self.backends.network.expect(id, 4 + len);
                    }
                    self.set_reading(id, true);
                    return;
                }
                Err(()) => {
                    self.malformed(now, id);
                    return;
                }
            };
            let api = i16::from_be_bytes([readable[4], readable[5]]);
            if let Some(gate) = self.gate(id, api) {
                self.hold(id, gate);
                return;
            }
            if budget == 0 {
                self.scheduled.push_back(id);
                return;
            }
            budget = budget.saturating_sub(4 + len);
            if let Some(conn) = self.conns.get_mut(id) {
                conn.active = now.mono;
                conn.expected = 0;
            }
            self.stats.bytes_in.add(4 + len as u64);
            if self.take_in(now, id, len).is_none() {
                self.malformed(now, id);
                return;
            }
        }
    }

    /// Which bound forbids taking in a request of this API now.
    fn gate(&self, id: ConnId, api: i16) -> Option<Gate> {
        let limits = &self.config.limits;
        let conn = self.conns.get(id)?;
        let asks = is_question(api);
        if conn.requests.len() >= limits.conn_requests_max
            || asks && conn.questions >= limits.conn_questions_max
            || conn.request_bytes >= limits.conn_request_bytes_max
            || conn.answer_bytes() > limits.conn_response_bytes_max
        {
            return Some(Gate::Own);
        }
        let answer_bytes = self.totals.answer_bytes();
        if answer_bytes >= 2 * limits.response_bytes_total_max {
            return Some(Gate::Responses);
        }
        // Who has taken all its answers may ask for one more, so that groups go on while others do not take theirs.
        let crowded = answer_bytes >= limits.response_bytes_total_max;
        if crowded && asks && (conn.answer_bytes() > 0 || conn.questions > 0) {
            return Some(Gate::Own);
        }
        if self.totals.request_bytes >= limits.request_bytes_total_max {
            return Some(Gate::Requests);
        }
        self.gate_of_api(api)
    }

    fn gate_of_api(&self, api: i16) -> Option<Gate> {
        let limits = &self.config.limits;
        match ApiKey::of(api) {
            Some(ApiKey::Produce) if self.appends.queued_bytes() >= limits.produce_queue_bytes_max => {
                Some(Gate::Produce)
            }
            Some(ApiKey::Fetch) if self.totals.answer_bytes() >= limits.response_bytes_total_max => {
                Some(Gate::Responses)
            }
            Some(ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets) => {
                self.outbox.is_crowded(limits.neighbour_requests_max).then_some(Gate::Neighbours)
            }
            _ if !self.outbox.control_is_open() => Some(Gate::Control),
            _ => (is_bulky(api) && self.totals.bulky >= limits.bulky_requests_max).then_some(Gate::Bulky),
        }
    }

    /// Stops reading the connection until the gate opens.
    fn hold(&mut self, id: ConnId, gate: Gate) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.standing = Standing::Gated(gate);
        if let Some(queue) = gate.queue() {
            self.gated[queue].push_back(id);
        }
        self.set_reading(id, false);
    }

    /// Reads the connection, or stops reading it.
    pub(crate) fn set_reading(&mut self, id: ConnId, reading: bool) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.reading != reading) else { return };
        conn.reading = reading;
        if reading {
            self.totals.paused -= 1;
        } else {
            self.totals.paused += 1;
        }
        self.backends.network.set_reading(id, reading);
    }

    /// Lets connections through the shared gates that are open, in the order in which they came to them.
    pub(crate) fn open_gates(&mut self) -> bool {
        let mut any = false;
        for (at, gate) in Gate::SHARED.into_iter().enumerate() {
            if self.gated[at].is_empty() || !self.is_open(gate) {
                continue;
            }
            for _ in 0..GATE_TURN_MAX {
                let Some(id) = self.gated[at].pop_front() else { break };
                if let Some(conn) = self.conns.get_mut(id)
                    && conn.standing == Standing::Gated(gate)
                {
                    conn.standing = Standing::Scheduled;
                    self.scheduled.push_back(id);
                    any = true;
                }
            }
        }
        any
    }

    fn is_open(&self, gate: Gate) -> bool {
        let limits = &self.config.limits;
        match gate {
            Gate::Own => true,
            Gate::Requests => self.totals.request_bytes < limits.request_bytes_total_max,
            Gate::Produce => self.appends.queued_bytes() < limits.produce_queue_bytes_max,
            Gate::Responses => self.totals.answer_bytes() < limits.response_bytes_total_max,
            Gate::Neighbours => !self.outbox.is_crowded(limits.neighbour_requests_max),
            Gate::Control => self.outbox.control_is_open(),
            Gate::Bulky => self.totals.bulky < limits.bulky_requests_max,
        }
    }

    /// Takes in the request of `len` bytes at the front. `None`: the connection is to be closed.
    fn take_in(&mut self, now: Now, id: ConnId, len: usize) -> Option<()> {
        let frame = self.backends.network.readable(id).get(4..4 + len)?;
        match frame::Request::parse(frame).ok()? {
            frame::Request::Served { api, header, body } => {
                let head =
                    Head { len, version: header.version, correlation: header.correlation, body: len - body.len() };
                match api.key {
                    ApiKey::Produce => self.take_produce(now, id, head),
                    ApiKey::Fetch => self.take_fetch(now, id, head),
                    ApiKey::ListOffsets => self.take_list_offsets(now, id, head),
                    _ => {
                        self.take_for_control(now, id, len);
                        Some(())
                    }
                }
            }
            frame::Request::Unserved { api, header } => match api?.key {
                // Answered in version 0 with the versions there are.
                ApiKey::ApiVersions => {
                    self.take_for_control(now, id, len);
                    Some(())
                }
                ApiKey::Produce if (0..3).contains(&header.version) => self.take_old_produce(now, id, len),
                _ => None,
            },
        }
    }

    /// Gives the request at the front to the control plane.
    pub(crate) fn take_for_control(&mut self, now: Now, id: ConnId, len: usize) {
        let frame = self.backends.network.readable(id)[4..4 + len].to_vec();
        self.backends.network.consume(id, 4 + len);
        let api = i16::from_be_bytes([frame[0], frame[1]]);
        let key = self.push(now, id, api, len, State::Control);
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.known_to_control = true;
        let request = ControlRequest {
            shard: self.config.id,
            conn: id,
            sequence: key.sequence,
            listener: conn.listener,
            peer: conn.peer.clone(),
            frame,
        };
        self.send_control(ToControl::Request(request));
    }

    pub(crate) fn send_control(&mut self, message: ToControl) {
        self.outbox.send_control(&mut self.backends.neighbours, message, &self.stats);
    }

    /// Notes a request that is taken in.
    pub(crate) fn push_request(
        &mut self,
        now: Now,
        id: ConnId,
        api: ApiKey,
        cost: usize,
        state: State<crate::ports::SliceOf<P>>,
    ) -> RequestKey {
        self.push(now, id, api as i16, cost, state)
    }

    fn push(
        &mut self,
        now: Now,
        id: ConnId,
        api: i16,
        cost: usize,
        state: State<crate::ports::SliceOf<P>>,
    ) -> RequestKey {
        if let Some(stats) = api_stats(&self.stats, api) {
            stats.requests.add(1);
        }
        let conn = self.conns.get_mut(id).expect("a request is taken in from a connection that is there");
        let sequence = conn.next_sequence();
        conn.requests.push_back(Request { api, since: now.mono, cost, state });
        conn.request_bytes += cost;
        conn.questions += usize::from(is_question(api));
        self.totals.bulky += usize::from(is_bulky(api));
        self.totals.requests += 1;
        self.totals.request_bytes += cost;
        RequestKey { shard: self.config.id, conn: id, sequence }
    }

    /// Answers a request; it leaves when those before it have left.
    pub(crate) fn answer(
        &mut self,
        now: Now,
        id: ConnId,
        sequence: u64,
        answer: Answer<crate::ports::SliceOf<P>>,
        failed: bool,
    ) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let Some(request) = conn.request_mut(sequence) else { return };
        let (api, bytes) = (request.api, answer.len());
        let before = core::mem::replace(&mut request.state, State::Done(answer));
        debug_assert!(!matches!(before, State::Done(_)), "a request is answered once");
        conn.questions -= usize::from(is_question(api));
        self.totals.bulky -= usize::from(is_bulky(api));
        conn.held += bytes;
        self.totals.held += bytes;
        if failed && let Some(stats) = api_stats(&self.stats, api) {
            stats.errors.add(1);
        }
        self.leave(now, id);
    }

    /// Sends the answers at the front that are there.
    fn leave(&mut self, now: Now, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let mut left = false;
        while matches!(conn.requests.front().map(|request| &request.state), Some(State::Done(_))) {
            let request = conn.requests.pop_front().expect("there is a front");
            conn.first += 1;
            conn.request_bytes -= request.cost;
            self.totals.requests -= 1;
            self.totals.request_bytes -= request.cost;
            left = true;
            if let Some(stats) = api_stats(&self.stats, request.api) {
                stats.latency.record_ns(now.mono.since(request.since));
            }
            match request.state {
                State::Done(Answer::Whole(bytes)) => self.pieces.push(Piece::Owned(bytes)),
                State::Done(Answer::Bare(bytes)) => {
                    let len = i32::try_from(bytes.len()).expect("the control plane's answers are below 2 GiB");
                    self.pieces.push(Piece::Owned(len.to_be_bytes().to_vec()));
                    self.pieces.push(Piece::Owned(bytes));
                }
                State::Done(Answer::Pieces(pieces)) => self.pieces.extend(pieces),
                State::Done(Answer::Silent) => {}
                State::Control | State::Produce(_) | State::Fetch(_) | State::ListOffsets(_) => {}
            }
        }
        if !left {
            return;
        }
        conn.active = now.mono;
        let (mut bytes, mut pinned) = (0, 0);
        for piece in &self.pieces {
            bytes += piece.len();
            pinned += if matches!(piece, Piece::Shared(_)) { piece.len() } else { 0 };
        }
        conn.held -= bytes;
        self.totals.held -= bytes;
        conn.unsent += bytes;
        conn.pinned += pinned;
        self.totals.unsent += bytes;
        self.totals.pinned += pinned;
        self.stats.bytes_out.add(bytes as u64);
        if bytes > 0 {
            self.backends.network.send(id, &mut self.pieces);
        }
        self.pieces.clear();
        self.schedule(id);
    }

    /// Some of what was handed to the network is sent.
    pub(crate) fn sent(&mut self, now: Now, id: ConnId, bytes: usize) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let bytes = bytes.min(conn.unsent);
        conn.unsent -= bytes;
        self.totals.unsent -= bytes;
        // Which of the bytes were arena memory is not known one by one: at most all that are left.
        let pinned = conn.pinned.min(conn.unsent);
        self.totals.pinned -= conn.pinned - pinned;
        conn.pinned = pinned;
        conn.active = now.mono;
        if conn.standing == Standing::Gated(Gate::Own) {
            self.schedule(id);
        }
    }

    fn malformed(&mut self, now: Now, id: ConnId) {
        self.stats.requests_malformed.add(1);
        self.close(now, id, true);
    }

    /// Closes a connection; its requests are answered no more.
    pub(crate) fn close(&mut self, now: Now, id: ConnId, after_sending: bool) {
        let _ = now;
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.standing == Standing::Closing {
            return;
        }
        conn.standing = Standing::Closing;
        self.drop_requests(id);
        self.backends.network.close(id, after_sending);
    }

    /// The network says that the connection is gone.
    pub(crate) fn closed(&mut self, id: ConnId) {
        self.drop_requests(id);
        let Some(conn) = self.conns.remove(id) else { return };
        self.totals.unsent -= conn.unsent;
        self.totals.pinned -= conn.pinned;
        self.totals.paused -= usize::from(!conn.reading);
        self.stats.connections.set(self.conns.len() as u64);
        if conn.known_to_control {
            self.send_control(ToControl::ConnectionClosed { shard: self.config.id, conn: id });
        }
    }

    /// Forgets what the connection asked. Appends that were taken go on; their results go nowhere.
    fn drop_requests(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let (first, count) = (conn.first, conn.requests.len() as u64);
        for sequence in first..first + count {
            self.cancel_reads(RequestKey { shard: self.config.id, conn: id, sequence });
        }
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.first += count;
        self.totals.requests -= conn.requests.len();
        self.totals.request_bytes -= conn.request_bytes;
        self.totals.held -= conn.held;
        let open = conn.requests.iter().filter(|request| !matches!(request.state, State::Done(_)));
        self.totals.bulky -= open.filter(|request| is_bulky(request.api)).count();
        conn.requests.clear();
        (conn.request_bytes, conn.questions, conn.held) = (0, 0, 0);
    }

    /// Closes connections on which nothing was asked, answered or sent for too long.
    pub(crate) fn close_idle(&mut self, now: Now) {
        // All are looked at: once a second costs little with a hundred thousand of them.
        if now.mono < self.idle_check_at {
            return;
        }
        self.idle_check_at = now.mono.plus_ms(1000);
        let limits = &self.config.limits;
        let idle_max = limits.idle_ms_max.saturating_mul(1_000_000);
        let used = self.totals.answer_bytes();
        let stall_max = if used >= limits.response_bytes_total_max {
            limits.stall_crowded_ms_max.saturating_mul(1_000_000)
        } else if used >= limits.response_bytes_total_max / 2 {
            limits.stall_ms_max.saturating_mul(1_000_000)
        } else {
            idle_max
        };
        let is_idle = |conn: &&Conn<_>| {
            // A request in progress is the broker's to end, unless its client does not take the answers before it.
            let waits_for_us = !conn.requests.is_empty() && conn.unsent == 0;
            let quiet_max = if conn.unsent > 0 { stall_max } else { idle_max };
            !waits_for_us && conn.standing != Standing::Closing && now.mono.since(conn.active) >= quiet_max
        };
        let idle: alloc::vec::Vec<ConnId> = self.conns.iter().filter(is_idle).map(|conn| conn.id).collect();
        for id in idle {
            self.stats.connections_idle_closed.add(1);
            self.close(now, id, false);
        }
    }

    /// Gauges.
    pub(crate) fn measure(&self) {
        let stats = &self.stats;
        stats.connections_paused.set(self.totals.paused as u64);
        stats.requests_in_flight.set(self.totals.requests as u64);
        stats.request_bytes.set(self.totals.request_bytes as u64);
        stats.response_bytes_queued.set(self.totals.answer_bytes() as u64);
        stats.response_bytes_pinned.set(self.totals.pinned as u64);
        stats.produce_bytes_queued.set(self.appends.queued_bytes() as u64);
        stats.fetches_waiting.set(self.waiting.len() as u64);
        stats.fetch_sessions.set(self.sessions.len() as u64);
        stats.fetch_session_partitions.set(self.sessions.partitions() as u64);
        stats.fetch_sessions_evicted.set(self.sessions.evicted());
    }
}

/// Whether a request of this API counts against `conn_questions_max`.
fn is_question(api: i16) -> bool {
    api != ApiKey::Produce as i16
}

/// Whether the API only looks, and its answer may be large: it grows with what there is, not with what is asked. The others
/// answer little, or wait for other members of a group, for the device, or for a change to be applied.
fn is_bulky(api: i16) -> bool {
    matches!(
        ApiKey::of(api),
        Some(
            ApiKey::Metadata
                | ApiKey::OffsetFetch
                | ApiKey::DescribeGroups
                | ApiKey::ListGroups
                | ApiKey::DescribeConfigs
                | ApiKey::DescribeLogDirs
                | ApiKey::DescribeProducers
                | ApiKey::DescribeTopicPartitions
        )
    )
}

fn api_stats(stats: &ShardStats, api: i16) -> Option<&ApiStats> {
    stats.apis.get(usize::try_from(api).ok()?)
}

/// The length of the request at the front, without its length bytes; `None` if even that is not there.
///
/// # Errors
/// Not a length that a request can have.
fn frame_len(readable: &[u8], max: u32) -> Result<Option<usize>, ()> {
    let Some(len) = readable.first_chunk::<4>() else { return Ok(None) };
    let len = i32::from_be_bytes(*len);
    match usize::try_from(len) {
        Ok(len) if len >= REQUEST_BYTES_MIN && len <= max as usize => Ok(Some(len)),
        _ => Err(()),
    }
}
