//! `barelog inspect`: a data directory or a device, offline and read-only.

use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use journal::format::ExtentKind;
use journal::inspect::{self, DeviceRow, ExtentClaim, ExtentRow, FooterRow, FrameRow, Item, StateRow, UnitRow};
use journal::storage::{Storage, StorageError};
use serde_json::{Value, json};

use crate::cli::{InspectArgs, InspectWhat};

/// A device that is only read. The lock keeps a broker from starting meanwhile, and refuses while one runs.
struct ReadOnly {
    file: File,
    len: u64,
}

impl ReadOnly {
    fn open(path: &Path) -> Result<Self> {
        use std::io::{Seek as _, SeekFrom};
        let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "{} is in use: stop the broker first; what it writes meanwhile cannot be told from damage",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len })
    }
}

fn failed(error: &std::io::Error) -> StorageError {
    StorageError::Io(error.to_string())
}

impl Storage for ReadOnly {
    fn len(&self) -> u64 {
        self.len
    }

    fn grow(&mut self, _len: u64) -> Result<(), StorageError> {
        Err(StorageError::Io("opened for reading only".into()))
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_exact_at(into, offset).map_err(|error| failed(&error))
    }

    fn write(&mut self, _offset: u64, _from: &[u8]) -> Result<(), StorageError> {
        Err(StorageError::Io("opened for reading only".into()))
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// `barelog inspect`.
pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let mut out = Lines { json: args.json, left: args.limit.unwrap_or(u64::MAX), out: std::io::stdout().lock() };
    for path in devices(&args.path)? {
        let mut storage = ReadOnly::open(&path)?;
        let sums = dataplane::checksums::fast();
        let device = inspect::device(&mut storage, &sums).with_context(|| path.display().to_string())?;
        if args.show == InspectWhat::Summary {
            summary(&path, &device, args, &mut out)?;
            continue;
        }
        for extent in extents(&device, args.journal) {
            let mut result = Ok(());
            let visit = |item| {
                result = show(args, item, &mut out);
                if result.is_err() || out.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            inspect::extent(&mut storage, &device.label, extent.offset, &sums, visit)?;
            result?;
        }
    }
    Ok(())
}

/// The devices of a data directory, or the one device that is named.
fn devices(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(path)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "barelog"))
        .collect();
    found.sort();
    if found.is_empty() {
        bail!("{} holds no *.barelog file; name a data directory, a device file or a block device", path.display());
    }
    Ok(found)
}

/// Extents that hold something, by journal and position.
fn extents(device: &DeviceRow, journal: Option<u64>) -> Vec<&ExtentRow> {
    let key = |row: &ExtentRow| match &row.claim {
        ExtentClaim::Journal { journal, start, freed: false, .. } => Some((journal.0, start.0)),
        _ => None,
    };
    let mut rows: Vec<&ExtentRow> = device
        .extents
        .iter()
        .filter(|row| key(row).is_some_and(|(of, _)| journal.is_none_or(|wanted| wanted == of)))
        .collect();
    rows.sort_by_key(|row| key(row));
    rows
}

/// Where lines go: as text or as JSON, so many of them.
struct Lines<W> {
    json: bool,
    left: u64,
    out: W,
}

impl<W: std::io::Write> Lines<W> {
    fn line(&mut self, what: &str, fields: Value) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        if self.json {
            let mut object = json!({"what": what});
            if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
                object.extend(fields);
            }
            writeln!(self.out, "{object}")?;
            return Ok(());
        }
        write!(self.out, "{what:<8}")?;
        if let Value::Object(fields) = fields {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                match value {
                    Value::String(text) => write!(self.out, " {name}={text}")?,
                    other => write!(self.out, " {name}={other}")?,
                }
            }
        }
        writeln!(self.out)?;
        Ok(())
    }
}

fn hex(id: u128) -> String {
    format!("{id:032x}")
}

fn summary<W: std::io::Write>(path: &Path, device: &DeviceRow, args: &InspectArgs, out: &mut Lines<W>) -> Result<()> {
    let label = &device.label;
    let used = extents(device, None).len();
    out.line(
        "device",
        json!({
            "path": path.display().to_string(), "id": hex(label.device), "cluster": hex(label.cluster.0),
            "node": label.broker.0, "bytes": device.bytes, "extent_bytes": label.extent_len,
            "extents": device.extents.len(), "extents_used": used,
        }),
    )?;
    for state in &device.states {
        match state {
            StateRow::Damaged { pair } => out.line("state", json!({"pair": pair, "damaged": true}))?,
            StateRow::Held {
                pair, journal, replica, promise, cut, uncertain_to, does_not_count, start, both, ..
            } => {
                if args.journal.is_some_and(|wanted| wanted != journal.0) {
                    continue;
                }
                out.line(
                    "journal",
                    json!({
                        "journal": journal.0, "pair": pair, "replica": hex(*replica), "promise": promise.0,
                        "cut_position": cut.position.0, "cut_epoch": cut.epoch.0, "uncertain_to": uncertain_to.0,
                        "does_not_count": does_not_count, "start": start.position.0, "both_slots": both,
                    }),
                )?;
            }
        }
    }
    for row in &device.extents {
        match &row.claim {
            ExtentClaim::Journal { journal, generation, start, epoch, freed, kind, .. } => {
                if args.journal.is_some_and(|wanted| wanted != journal.0) {
                    continue;
                }
                let (kind, stretch) = match kind {
                    ExtentKind::Raw => ("raw", None),
                    ExtentKind::Clustered(stretch) => ("clustered", Some(stretch)),
                };
                let compacted = stretch.map(|stretch| stretch.compacted.0).filter(|upto| *upto > 0);
                out.line(
                    "extent",
                    json!({
                        "offset": row.offset, "journal": journal.0, "kind": kind, "generation": generation,
                        "start": start.0, "upto": stretch.map(|stretch| stretch.upto.position.0),
                        "compacted_upto": compacted, "epoch": epoch.0, "freed": freed,
                    }),
                )?;
            }
            ExtentClaim::Unreadable(why) => out.line("extent", json!({"offset": row.offset, "unreadable": why}))?,
            ExtentClaim::Blank | ExtentClaim::None => {
                if args.journal.is_none() {
                    out.line("extent", json!({"offset": row.offset, "free": true}))?;
                }
            }
        }
    }
    Ok(())
}

fn show<W: std::io::Write>(args: &InspectArgs, item: Item, out: &mut Lines<W>) -> Result<()> {
    match item {
        Item::Damage { from, to, why } => out.line("damage", json!({"from": from.0, "to": to.0, "why": why})),
        Item::Unreadable { from, why } => out.line("damage", json!({"from": from.0, "unreadable": why})),
        Item::Unit(unit) if args.show == InspectWhat::Units => show_unit(&unit, out),
        Item::Unit(unit) if matches!(args.show, InspectWhat::Frames | InspectWhat::Damage) => {
            show_frames(args, &unit, out)
        }
        Item::Footer(footer) if args.show == InspectWhat::Index => show_footer(args, &footer, out),
        Item::Unit(_) | Item::Footer(_) => Ok(()),
    }
}

fn show_unit<W: std::io::Write>(unit: &UnitRow, out: &mut Lines<W>) -> Result<()> {
    let header = &unit.header;
    let damaged = match &unit.frames {
        Ok(frames) => frames.iter().filter(|frame| !frame.intact).count(),
        Err(_) => header.frames as usize,
    };
    out.line(
        "unit",
        json!({
            "journal": header.journal.0, "position": header.position.0, "device_offset": unit.offset,
            "bytes": header.length, "padding": header.padding, "epoch": header.epoch.0, "frames": header.frames,
            "commit": header.commit.0, "wall_ms": header.wall.0, "chained": unit.chained,
            "intact": damaged == 0, "damaged_frames": damaged, "why": unit.frames.as_ref().err(),
        }),
    )
}

fn show_frames<W: std::io::Write>(args: &InspectArgs, unit: &UnitRow, out: &mut Lines<W>) -> Result<()> {
    let position = unit.header.position.0;
    let frames = match &unit.frames {
        Ok(frames) => frames,
        Err(why) => return out.line("damage", json!({"from": position, "why": why})),
    };
    let wanted = |frame: &&FrameRow| {
        args.partition.is_none_or(|partition| partition == frame.partition.0)
            && !(args.show == InspectWhat::Damage && frame.intact)
    };
    for frame in frames.iter().filter(wanted) {
        out.line(
            "frame",
            json!({
                "unit": position, "kind": format!("{:?}", frame.kind), "partition": frame.partition.0,
                "base_offset": frame.base_offset.0, "last_offset": frame.last_offset.0, "records": frame.records,
                "max_timestamp": frame.max_timestamp.0, "bytes": frame.bytes, "epoch": frame.epoch.0,
                "intact": frame.intact, "detail": frame.detail,
            }),
        )?;
    }
    Ok(())
}

fn show_footer<W: std::io::Write>(args: &InspectArgs, footer: &FooterRow, out: &mut Lines<W>) -> Result<()> {
    if args.partition.is_some_and(|partition| partition != footer.partition.0) {
        return Ok(());
    }
    for run in &footer.runs {
        out.line(
            "run",
            json!({
                "partition": footer.partition.0, "first": run.first.0, "last": run.last.0, "position": run.position.0,
                "span": run.span, "bytes": run.bytes, "frames": run.frames, "max_timestamp": run.max_timestamp.0,
                "epoch": run.epoch.0,
            }),
        )?;
    }
    Ok(())
}
