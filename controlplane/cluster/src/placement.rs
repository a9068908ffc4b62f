//! Which journal takes a new partition, and which device a new journal.

use base::checksum::keyed128;
use base::image::{JournalClass, Secret};
use base::{BrokerId, JournalId};

use crate::command::{DeviceUuid, Entropy};
use crate::state::State;

/// A seat for a journal: a broker carries at most one journal per class and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat {
    pub(crate) class: JournalClass,
    pub(crate) broker: BrokerId,
    pub(crate) slot: u16,
}

/// The seat whose journal has the fewest partitions; one without a journal yet has none. `None` when there is no broker.
pub(crate) fn seat_for_partition(state: &State, class: JournalClass) -> Option<Seat> {
    let seats = state
        .brokers()
        .flat_map(|(broker, known)| (0..known.journals_per_class).map(move |slot| Seat { class, broker, slot }));
    seats.min_by_key(|seat| (load(state, seat), *seat))
}

/// The same on one broker.
pub(crate) fn seat_on(state: &State, broker: BrokerId, class: JournalClass) -> Option<Seat> {
    let slots = state.broker(broker)?.journals_per_class;
    (0..slots).map(|slot| Seat { class, broker, slot }).min_by_key(|seat| (load(state, seat), *seat))
}

/// How many partitions a seat's journal has.
fn load(state: &State, seat: &Seat) -> u32 {
    state.seated(seat).and_then(|id| state.journal(id)).map_or(0, |journal| journal.partitions)
}

/// The broker's device with the fewest journals, the first of equals.
pub(crate) fn device_for_journal(state: &State, broker: BrokerId) -> Option<DeviceUuid> {
    let devices = &state.broker(broker)?.devices;
    let load = |device: DeviceUuid| state.journals().filter(|(_, journal)| journal.device == device).count();
    devices.iter().copied().min_by_key(|device| load(*device))
}

/// A journal's secret: 128 bits of SipHash keyed by the command's 128 random bits, so that one command may open several.
pub(crate) fn secret(entropy: Entropy, journal: JournalId) -> Secret {
    Secret(keyed128(&entropy.0, &journal.0.to_le_bytes()).to_le_bytes())
}
