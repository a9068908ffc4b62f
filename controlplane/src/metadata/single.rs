//! The store of a single broker: one thread writes the log, applies commands and publishes images, in one order.

use std::sync::{Arc, OnceLock, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use arc_swap::ArcSwap;
use base::image::Image;
use base::{Epoch, TopicId};
use cluster::command::DeviceUuid;
use cluster::state::Topic;
use cluster::{Answer, Change, Command, Images, Local, MissingDevice, Refused, State, codec};
use tokio::sync::{mpsc, oneshot};

use crate::stats::ControlStats;

use super::{Applying, BoxFuture, Committed, MetadataError, MetadataFile, MetadataStore, ProposeError, Publish};

/// Commands that wait for the writer; behind them callers wait.
const QUEUE: usize = 1024;

/// Most commands in one durable write.
const BATCH: usize = 256;

/// See the module.
pub struct SingleStore {
    shared: Arc<Shared>,
    sender: Option<mpsc::Sender<Proposal>>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    state: RwLock<State>,
    image: ArcSwap<Image>,
    publisher: OnceLock<Arc<dyn Publish>>,
    failed: OnceLock<String>,
}

struct Proposal {
    command: Command,
    reply: oneshot::Sender<Result<Committed, ProposeError>>,
}

/// Why a store does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A device with journals of this broker is not configured.
    #[error("device {:032x} holds journal {} of this broker and is not configured: add it again", .0.device.0, .0.journal)]
    MissingDevice(MissingDevice),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] MetadataError),
    /// The state machine refused to register this broker.
    #[error("this broker cannot register: {0:?}")]
    Refused(Refused),
    /// No thread to be had.
    #[error("the metadata thread does not start: {0}")]
    Thread(std::io::Error),
}

impl SingleStore {
    /// The image before this process has its epoch: what recovery needs to know of journals and living partitions.
    ///
    /// # Errors
    /// A device with journals of this broker is not configured.
    pub fn recovery_image(state: &State, local: &Local) -> Result<Arc<Image>, StartError> {
        let images = Images::new(state, local.clone()).map_err(StartError::MissingDevice)?;
        Ok(images.image().clone())
    }

    /// Registers this broker, raises the epoch above `above` (the highest that recovery saw anywhere), durably, and starts
    /// the writer. Every journal of the image then has the new epoch.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        mut file: MetadataFile,
        mut state: State,
        local: Local,
        journals_per_class: u16,
        above: Epoch,
        stats: Arc<ControlStats>,
    ) -> Result<Self, StartError> {
        let devices: Vec<DeviceUuid> = local.devices.clone();
        let broker = local.broker;
        let commands =
            [Command::RegisterBroker { broker, devices, journals_per_class }, Command::RaiseEpoch { broker, above }];
        for command in &commands {
            state.check(command).map_err(StartError::Refused)?;
        }
        file.append(&commands.each_ref().map(codec::encode_command))?;
        for command in &commands {
            state.apply(command).map_err(StartError::Refused)?;
        }
        let images = Images::new(&state, local).map_err(StartError::MissingDevice)?;
        let shared = Arc::new(Shared {
            image: ArcSwap::new(images.image().clone()),
            state: RwLock::new(state),
            publisher: OnceLock::new(),
            failed: OnceLock::new(),
        });
        let (sender, receiver) = mpsc::channel(QUEUE);
        let writer = Writer { file, images, shared: shared.clone(), receiver, stats };
        let thread = std::thread::Builder::new().name("metadata".to_owned());
        let writer = thread.spawn(move || writer.run()).map_err(StartError::Thread)?;
        Ok(Self { shared, sender: Some(sender), writer: Some(writer) })
    }

    /// From now on every new image goes there. To be called once, before the first proposal.
    pub fn attach(&self, publisher: Arc<dyn Publish>) {
        if self.shared.publisher.set(publisher).is_err() {
            tracing::error!("the metadata store has a publisher already");
        }
    }
}

impl Drop for SingleStore {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl MetadataStore for SingleStore {
    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Committed, ProposeError>> {
        Box::pin(async move {
            // What is refused now would be refused a moment later as well, nearly always, and costs no write.
            self.check(&command).map_err(ProposeError::Refused)?;
            let gone = || ProposeError::Failed(self.failed().unwrap_or_else(|| "it has stopped".to_owned()));
            let (reply, answer) = oneshot::channel();
            let sender = self.sender.as_ref().ok_or_else(gone)?;
            sender.send(Proposal { command, reply }).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    fn check(&self, command: &Command) -> Result<(), Refused> {
        self.shared.read().check(command)
    }

    fn image(&self) -> Arc<Image> {
        self.shared.image.load_full()
    }

    fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.shared.read().topic(name).cloned()
    }

    fn topic_by_id(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.shared.read().topic_by_id(id).cloned()
    }

    fn failed(&self) -> Option<String> {
        self.shared.failed.get().cloned()
    }
}

impl Shared {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().expect("the writer does not panic while holding it")
    }
}

struct Writer {
    file: MetadataFile,
    images: Images,
    shared: Arc<Shared>,
    receiver: mpsc::Receiver<Proposal>,
    stats: Arc<ControlStats>,
}

impl Writer {
    fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = self.receiver.blocking_recv() {
            batch.push(first);
            while batch.len() < BATCH
                && let Ok(next) = self.receiver.try_recv()
            {
                batch.push(next);
            }
            if let Err(error) = self.commit(&mut batch) {
                tracing::error!(%error, "the metadata store has failed; topics and settings cannot change until a restart");
                let _ = self.shared.failed.set(error.to_string());
                for proposal in batch.drain(..) {
                    let _ = proposal.reply.send(Err(ProposeError::Failed(error.to_string())));
                }
                // Dropping the receiver answers all others.
                return;
            }
        }
    }

    fn commit(&mut self, batch: &mut Vec<Proposal>) -> Result<(), MetadataError> {
        let begun = Instant::now();
        let bytes: Vec<Vec<u8>> = batch.iter().map(|proposal| codec::encode_command(&proposal.command)).collect();
        let grows = batch.iter().any(|proposal| proposal.command.grows());
        if let Err(full) = self.file.append_or_full(&bytes, grows)? {
            return self.refuse(batch, &full);
        }
        let mut change = Change::default();
        let mut answers: Vec<Result<Answer, Refused>> = Vec::with_capacity(batch.len());
        let applying = {
            let mut state = self.shared.state.write().expect("readers do not panic while holding it");
            for proposal in batch.iter() {
                answers.push(state.apply(&proposal.command).map(|applied| {
                    change.merge(applied.change);
                    applied.answer
                }));
            }
            if change.is_empty() {
                None
            } else {
                let (image, delta) = self.images.advance(&state, &change);
                self.shared.image.store(image.clone());
                Some((image, delta))
            }
        };
        // Not under the lock: this may wait for a shard.
        let applying = match (applying, self.shared.publisher.get()) {
            (Some((image, delta)), Some(publisher)) => publisher.publish(&image, &delta),
            _ => Applying::done(),
        };
        self.stats.metadata_commands.add(bytes.len() as u64);
        self.stats.metadata_commit_latency.record_ns(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        for (proposal, answer) in batch.drain(..).zip(answers) {
            let result = answer.map(|answer| Committed { answer, applying: applying.clone() });
            let _ = proposal.reply.send(result.map_err(ProposeError::Refused));
        }
        if self.file.wants_snapshot() {
            let state = self.shared.read();
            if let Err(full) = self.file.snapshot_or_full(&state)? {
                tracing::warn!(error = %full, "no snapshot of the metadata; its log grows on");
            }
        }
        Ok(())
    }

    /// There is no room for the batch. Commands that do not need more are tried once more without the others.
    fn refuse(&mut self, batch: &mut Vec<Proposal>, full: &MetadataError) -> Result<(), MetadataError> {
        tracing::warn!(error = %full, "no room for a change of metadata");
        let (grow, mut others): (Vec<_>, Vec<_>) = batch.drain(..).partition(|proposal| proposal.command.grows());
        let alone = grow.is_empty();
        for proposal in grow {
            let _ = proposal.reply.send(Err(ProposeError::Full(full.to_string())));
        }
        if alone {
            for proposal in others {
                let _ = proposal.reply.send(Err(ProposeError::Full(full.to_string())));
            }
            return Ok(());
        }
        let result = if others.is_empty() { Ok(()) } else { self.commit(&mut others) };
        batch.append(&mut others);
        result
    }
}
