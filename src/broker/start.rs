//! The composition root: opens what is kept, recovers, wires threads and tasks, serves, and takes it all down again.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use base::image::{Advertised, Image};
use base::stats::ShardStats;
use base::{BrokerId, ClusterId, DeviceIndex, ShardId};
use cluster::{Command, Local};
use controlplane::Control;
use controlplane::groups::GroupCount;
use controlplane::http::{self, DeviceSpace, HttpState, Observed};
use controlplane::logging::LogLevel;
use controlplane::metadata::{Identity, MetadataFile, MetadataStore, SingleStore};
use controlplane::shards::{FROM_SHARDS_QUEUE, ShardLinks, TO_SHARD_QUEUE};
use controlplane::stats::ControlStats;
use dataplane::arena::{Arena, ArenaConfig, PageKind};
use dataplane::device::{Flushes, RingDevices};
use dataplane::keeper::{self, Checkpoints, KeeperConfig, KeeperHandle, KeeperLink, KeptDevice, SpaceStats};
use dataplane::net::{self, Intake, KernelNetwork, NetworkConfig};
use dataplane::ring::Ring;
use dataplane::rings::{self, RingNeighbours, Waker};
use dataplane::thread::{self, KernelPorts, ShardMessage, ShardThread, ThreadConfig};
use journal::Store;
use journal::recovery::{RecoveryError, RecoveryReport};
use shard::ports::Backends;
use shard::{Shard, ShardConfig};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::groups::Groups;
use super::storage::{self, Opened, Recovering};
use super::{pump, settings};
use crate::config::profile::HugePages;
use crate::config::{BrokerConfig, DeviceConfig};
use crate::topology::DEPTHS;

/// Zeros written ahead of need, in bytes per second, while nobody waits for them.
const FILL_RATE: u64 = 256 << 20;

/// How long an orderly stop may take before the process ends without it; nothing acknowledged depends on it.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// How long an address that is in use is waited for.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(2);

/// Threads of the control plane's runtime.
const CONTROL_THREADS: usize = 2;

/// A broker that serves.
pub(crate) struct Running {
    /// Where clients connect, by listener.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where `/metrics` is.
    pub(crate) metrics_address: SocketAddr,
    threads: Vec<ShardThread<(), anyhow::Error>>,
    keeper: KeeperHandle,
    runtime: Runtime,
    links: Arc<ShardLinks>,
    control: Arc<Control>,
    stop_http: watch::Sender<bool>,
}

/// Sockets, bound before anything else, so that a port in use is told at once.
struct Sockets {
    kafka: Vec<TcpListener>,
    http: TcpListener,
}

impl Sockets {
    fn bind(config: &BrokerConfig) -> Result<Self> {
        let mut kafka = Vec::new();
        for listener in &config.listeners {
            let socket = listen_when_free(listener.bind).with_context(|| {
                format!(
                    "listener {} cannot bind {}; stop what runs there or choose another address (bind, --listen)",
                    listener.name, listener.bind
                )
            })?;
            kafka.push(socket);
        }
        let http = TcpListener::bind(config.http).with_context(|| {
            format!("HTTP cannot bind {}; choose another address (http.bind, --metrics-listen)", config.http)
        })?;
        http.set_nonblocking(true)?;
        Ok(Self { kafka, http })
    }

    fn advertised(&self, config: &BrokerConfig) -> Result<Arc<[Advertised]>> {
        let mut all = Vec::new();
        for (listener, socket) in config.listeners.iter().zip(&self.kafka) {
            let (host, port) = &listener.advertised;
            let port = if *port == 0 { socket.local_addr()?.port() } else { *port };
            all.push(Advertised { name: listener.name.as_str().into(), host: host.as_str().into(), port });
        }
        Ok(all.into())
    }
}

/// Binds a listening socket. The kernel keeps the socket of a killed process until its last request has ended, a moment after
/// the process is gone: a restart on the same address waits for that.
fn listen_when_free(address: SocketAddr) -> std::io::Result<TcpListener> {
    let deadline = Instant::now() + ADDRESS_PATIENCE;
    loop {
        match net::listen(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            bound => return bound,
        }
    }
}

/// What is kept on disk, opened and recovered.
struct Recovered {
    devices: Vec<Opened>,
    stores: Vec<Store<Arena>>,
    reports: Vec<RecoveryReport>,
    metadata: SingleStore,
    image: Arc<Image>,
    checkpoints: Checkpoints,
    hash_seed: u64,
    control_stats: Arc<ControlStats>,
}

/// Starts a broker; it serves when this returns.
pub(crate) fn start(config: BrokerConfig, level: LogLevel) -> Result<Running> {
    let started = Instant::now();
    Ring::new().context("this machine cannot run a broker")?;
    let sockets = Sockets::bind(&config)?;
    let recovered = recover(&config, &sockets)?;
    let running = wire(&config, sockets, recovered, level)?;
    tracing::info!(
        kafka = ?running.addresses,
        http = %running.metrics_address,
        data = %config.data_dir.display(),
        shards = config.profile.shards,
        took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "serving"
    );
    Ok(running)
}

fn recover(config: &BrokerConfig, sockets: &Sockets) -> Result<Recovered> {
    let meta = config.data_dir.join("meta");
    std::fs::create_dir_all(&meta).with_context(|| format!("cannot create {}", meta.display()))?;
    let cluster = config.cluster_id.map(ClusterId);
    let (file, state) = MetadataFile::open(&meta.join("metadata.redb"), cluster, Some(BrokerId(config.node_id)))?;
    let identity = file.identity();
    let checkpoints = Checkpoints::open(&meta.join("checkpoints"))?;
    let mut devices = storage::open_devices(config, identity)?;
    for opened in &devices {
        let policy = opened.file.policy();
        let (path, created) = (opened.path.display(), opened.created);
        tracing::info!(device = %path, created, durability = ?policy.durability, reason = policy.reason, "device open");
    }
    let hash_seed = u64::try_from(controlplane::random::bits()? >> 64).expect("64 bits are left");
    let local = Local {
        cluster: identity.cluster,
        broker: identity.broker,
        listeners: sockets.advertised(config)?,
        devices: devices.iter().map(Opened::uuid).collect(),
        shards: config.profile.shards,
        defaults: settings::broker_settings(config).topic_defaults,
        hash_seed,
    };
    let seen = storage::epoch_seen(&devices);
    let control_stats: Arc<ControlStats> = Arc::default();
    // One journal of a class for each shard on each device, so that every core and every disk has its share.
    let journals_per_class = config.profile.shards.saturating_mul(u16::try_from(devices.len()).unwrap_or(u16::MAX));
    let metadata = SingleStore::start(file, state, local, journals_per_class, seen, control_stats.clone())?;
    let (stores, reports) = open_stores(config, identity, hash_seed, &checkpoints, &mut devices, &metadata)?;
    let image = metadata.image();
    reports.iter().flat_map(|report| &report.journals).for_each(storage::log_report);
    Ok(Recovered { devices, stores, reports, metadata, image, checkpoints, hash_seed, control_stats })
}

/// Opens the stores; where a unit shows an epoch that the local state had lost, raises the epoch above it and opens again.
fn open_stores(
    config: &BrokerConfig,
    identity: Identity,
    hash_seed: u64,
    checkpoints: &Checkpoints,
    devices: &mut [Opened],
    metadata: &SingleStore,
) -> Result<(Vec<Store<Arena>>, Vec<RecoveryReport>)> {
    let recovering = Recovering {
        config,
        cluster: identity.cluster,
        broker: identity.broker,
        hash_seed,
        incarnation: controlplane::random::bits()?,
        checkpoints,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    loop {
        match recovering.stores(devices, &metadata.image()) {
            Ok(opened) => return Ok(opened),
            Err(RecoveryError::EpochTooLow { seen }) => {
                tracing::warn!(
                    seen = seen.0,
                    "an epoch was used that is recorded nowhere else; the epoch is raised above it"
                );
                runtime
                    .block_on(metadata.propose(Command::RaiseEpoch { broker: identity.broker, above: seen }))
                    .map_err(|error| anyhow::anyhow!("{error}"))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// All that one shard's thread builds itself from.
struct ShardParts {
    config: ShardConfig,
    store: Store<Arena>,
    image: Arc<Image>,
    stats: Arc<ShardStats>,
    neighbours: RingNeighbours<ShardMessage>,
    listeners: Vec<(u16, TcpListener)>,
    intake: Intake,
    devices: Vec<dataplane::device::DeviceFile>,
    flushes: Flushes,
    keeper: KeeperLink,
    arena: ArenaConfig,
    require_huge_pages: bool,
    network: NetworkConfig,
}

impl ShardParts {
    /// Runs on the shard's thread.
    fn build(self, ring: &Ring) -> Result<(Shard<KernelPorts>, ())> {
        let arena = Arena::new(self.arena).context("the arena's memory")?;
        if self.require_huge_pages && arena.page_kind() != PageKind::Huge {
            let mib = (self.arena.tail_bytes + self.arena.cold_bytes).div_ceil(2 << 20);
            anyhow::bail!(
                "the profile requires huge pages and there are not enough: echo {mib} > /proc/sys/vm/nr_hugepages (per shard)"
            );
        }
        let shard = usize::from(self.config.id.0);
        let (devices, warning) =
            RingDevices::new(ring.clone(), shard, self.devices, arena.memory(), self.flushes, self.keeper);
        if let Some(warning) = warning.filter(|_| shard == 0) {
            tracing::warn!("{warning}");
        }
        let network =
            KernelNetwork::new(ring.clone(), self.network, self.listeners, self.intake).context("the network")?;
        let backends = Backends { arena, network, devices, neighbours: self.neighbours, log: KernelPorts };
        Ok((Shard::new(thread::now(), self.config, self.store, self.image, backends, self.stats), ()))
    }
}

fn wire(config: &BrokerConfig, sockets: Sockets, recovered: Recovered, level: LogLevel) -> Result<Running> {
    let Recovered { devices, mut stores, reports, metadata, image, checkpoints, hash_seed, control_stats } = recovered;
    let closed = storage::closed(&reports);
    let profile = &config.profile;
    let addresses = sockets.kafka.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    let metrics_address = sockets.http.local_addr()?;
    let wiring = rings::wire::<ShardMessage>(profile.shards, DEPTHS)?;
    let wakers: Vec<Waker> = wiring.shards.iter().map(|end| end.waker.clone()).collect();
    let (keeper_waker, keeper_doze) = rings::doze()?;
    let (keeper_links, keeper_ends) = keeper::keeper_links(&wakers, &keeper_waker);
    let flushes = Flushes::new(devices.len(), &wakers);
    let kept = storage::kept(&devices, &reports);
    for (index, device) in (0u16..).zip(&kept) {
        if device.pool.reserve_is_broken() {
            stores.iter_mut().for_each(|store| store.hold_back(DeviceIndex(index)));
        }
    }
    let observed = Arc::new(Parts::new(config, &devices, &kept));
    let keeper_config = KeeperConfig { fill_rate: FILL_RATE, checkpoints, devices: kept, flushes: flushes.clone() };
    let keeper = keeper::spawn(keeper_config, keeper_ends, keeper_waker, keeper_doze)?;

    let stats: Vec<Arc<ShardStats>> = stores.iter().map(|_| Arc::new(ShardStats::default())).collect();
    let mut threads = Vec::new();
    let mut listeners: Vec<(u16, TcpListener)> = (0u16..).zip(sockets.kafka).collect();
    let ends = wiring.shards.into_iter().zip(stores).zip(keeper_links).zip(net::intakes(&wakers)).zip(&stats);
    for (id, ((((end, store), keeper), intake), stats)) in (0u16..).zip(ends) {
        let parts = ShardParts {
            config: ShardConfig {
                id: ShardId(id),
                shards: profile.shards,
                hash_seed,
                limits: settings::limits(config),
            },
            store,
            image: image.clone(),
            stats: stats.clone(),
            neighbours: end.neighbours,
            // The first shard accepts and deals out.
            listeners: std::mem::take(&mut listeners),
            intake,
            devices: devices.iter().map(|opened| opened.file.clone()).collect(),
            flushes: flushes.clone(),
            keeper,
            arena: ArenaConfig {
                tail_bytes: profile.tail_bytes,
                cold_bytes: profile.cold_bytes,
                huge_pages: profile.huge_pages != HugePages::Never,
                prefault: false,
            },
            require_huge_pages: profile.huge_pages == HugePages::Require,
            network: NetworkConfig {
                receive_bytes: profile.receive_bytes,
                huge_pages: profile.huge_pages != HugePages::Never,
                connections_max: config.connections_max as usize,
            },
        };
        let core = profile.pin.then(|| usize::from(id));
        let thread = ThreadConfig { shard: id, core, poll: settings::poll_mode(config) };
        threads.push(thread::spawn(thread, end.doze, move |ring| parts.build(ring))?);
    }
    for (shard, thread) in threads.iter().enumerate() {
        thread.wait_started().map_err(|error| anyhow::anyhow!("shard {shard} does not start: {error:#}"))?;
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()?;
    let (queues, receivers): (Vec<_>, Vec<_>) = wiring.senders.iter().map(|_| mpsc::channel(TO_SHARD_QUEUE)).unzip();
    for (queue, ring) in receivers.into_iter().zip(wiring.senders) {
        runtime.spawn(pump::to_shard(queue, ring));
    }
    let (said, heard) = mpsc::channel(FROM_SHARDS_QUEUE);
    runtime.spawn(async move {
        if let Err(error) = pump::from_shards(wiring.receiver, said).await {
            tracing::error!(%error, "shards are not heard any more");
        }
    });
    let links = ShardLinks::new(queues);
    let _guard = runtime.enter();
    metadata.attach(links.clone());
    let settings = settings::broker_settings(config);
    let store: Arc<dyn MetadataStore> = Arc::new(metadata);
    let control = Arc::new(Control::new(settings, store, links.clone(), control_stats, observed.clone()));
    let groups = Arc::new(Groups::start(config, &control));
    observed.see(groups.clone());
    closed.into_iter().for_each(|reason| control.context().health.worsen(reason));
    let running = control.clone();
    runtime.spawn(async move { running.run(groups, heard).await });
    let (stop_http, stopped) = watch::channel(false);
    let state = HttpState::new(stats, &control, observed, level);
    let listener = tokio::net::TcpListener::from_std(sockets.http)?;
    runtime.spawn(async move {
        if let Err(error) = http::serve(listener, state, stopped).await {
            tracing::error!(%error, "HTTP is not served any more");
        }
    });
    drop(_guard);
    Ok(Running { addresses, metrics_address, threads, keeper, runtime, links, control, stop_http })
}

impl Running {
    /// Waits for SIGTERM or SIGINT; its name.
    pub(crate) fn wait_for_signal(&self) -> Result<&'static str> {
        use tokio::signal::unix::{SignalKind, signal};
        self.runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            Ok(tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            })
        })
    }

    /// Stops in order: shards drain and write their closing units, then the rest. What was acknowledged is durable anyway.
    pub(crate) fn stop(self) {
        let Self { threads, keeper, runtime, links, control, stop_http, .. } = self;
        runtime.block_on(async {
            if tokio::time::timeout(STOP_BOUND, links.shutdown()).await.is_err() {
                tracing::warn!("the shards do not take the order to stop");
            }
        });
        let (done, all_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            threads.into_iter().for_each(ShardThread::join);
            let _ = done.send(());
        });
        if all_done.recv_timeout(STOP_BOUND).is_err() {
            tracing::warn!("a shard does not stop within {} s; the process ends without it", STOP_BOUND.as_secs());
            return;
        }
        keeper.stop();
        let _ = stop_http.send(true);
        drop(control);
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
}

/// What HTTP shows of devices and groups.
struct Parts {
    devices: Vec<(PathBuf, u64, Arc<SpaceStats>)>,
    groups: OnceLock<Arc<Groups>>,
}

impl Parts {
    fn new(config: &BrokerConfig, devices: &[Opened], kept: &[KeptDevice]) -> Self {
        let one = |((configured, opened), kept): ((&DeviceConfig, &Opened), &KeptDevice)| {
            (configured.path.clone(), opened.extents_max * kept.extent_len, kept.stats.clone())
        };
        Self { devices: config.devices.iter().zip(devices).zip(kept).map(one).collect(), groups: OnceLock::new() }
    }

    /// Groups start later than the metrics that show them.
    fn see(&self, groups: Arc<Groups>) {
        let _ = self.groups.set(groups);
    }
}

impl Observed for Parts {
    fn devices(&self) -> Vec<DeviceSpace> {
        let show = |(path, total, stats): &(PathBuf, u64, Arc<SpaceStats>)| DeviceSpace {
            path: path.display().to_string(),
            total_bytes: *total,
            free_bytes: stats.free_bytes.get(),
            full: stats.full.get() == 1,
        };
        self.devices.iter().map(show).collect()
    }

    fn committed(&self, most: usize) -> Vec<http::Committed> {
        self.groups.get().map(|groups| groups.committed(most)).unwrap_or_default()
    }

    fn groups(&self) -> Vec<GroupCount> {
        self.groups.get().map(|groups| groups.counts()).unwrap_or_default()
    }

    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }
}
