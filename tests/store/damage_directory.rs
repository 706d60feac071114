//! Data directories of a killed server in which something was then removed, cut, bent, swapped or put in from outside.
//!
//! Owns: the promise that such a directory is refused with the place, or serves everything that was acknowledged. What
//! may be missing without a word is what README names: the newest segment's end behind the last note. Promises: each
//! damage by itself, and some at random; `DAMAGE_ROUNDS=1000 cargo test --test store damage_directory` tries many.
//! Must not: assert on time.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tideline_load::exit::Stop;
use tideline_load::random::Random;
use tideline_load::run::process::{Launch, Server};

/// Does something to a data directory.
type Damage<'a> = Box<dyn Fn(&Path) + 'a>;

const TIMELINES: usize = 8;
const PARTITIONS: [&str; 2] = ["partition-0000", "partition-0001"];

/// A blocking client of `POST /v1/rpc`.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn new(launch: &Launch) -> Client {
        let stream = TcpStream::connect(launch.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let head = format!(
            "POST /v1/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream
            .get_mut()
            .write_all((head + &body).as_bytes())
            .unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        let mut reply: Value = serde_json::from_slice(&body).unwrap();
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(reply["error"].take()),
        }
    }
}

/// What was acknowledged to a timeline's writer.
#[derive(Default)]
struct Acked {
    epoch: String,
    /// Up to here it was acknowledged before the last note, and in earlier segments than the newest.
    sure: u64,
    head: u64,
}

/// A killed server's directory.
struct Base {
    data: PathBuf,
    acked: BTreeMap<String, Acked>,
}

/// No two are alike: the log has them in as many bytes.
fn text(timeline: &str, number: u64) -> String {
    let name = timeline.bytes().map(u64::from);
    let seed = name.fold(number, |seed, byte| seed.wrapping_mul(256) + byte);
    let letters = Random::new(seed).text(12_000);
    format!("{timeline} {number} {letters}")
}

fn launch(data: &Path, memtable_bytes: u64) -> Launch {
    let binary = std::env::var("TIDELINE_BINARY");
    let binary = binary.map_or_else(|_| env!("CARGO_BIN_EXE_tideline").into(), PathBuf::from);
    let mut launch = Launch::on_free_port(&binary, data).unwrap();
    launch.environment = [
        ("TIDELINE_SEGMENT_BYTES", "1048576".to_owned()),
        ("TIDELINE_MEMTABLE_BYTES", memtable_bytes.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    launch
}

fn start(launch: &Launch) -> Result<Server, Stop> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(launch.start())
}

/// Starts a server on a new directory, fills some segments of both partitions, and kills it.
fn killed(data: &Path, memtable_bytes: u64) -> Base {
    let mut launch = launch(data, memtable_bytes);
    launch
        .environment
        .push(("TIDELINE_PARTITIONS".to_owned(), "2".to_owned()));
    let server = start(&launch).unwrap();
    let mut client = Client::new(&launch);
    let mut acked: BTreeMap<String, Acked> = BTreeMap::new();
    let mut write = |rounds: u64, many: u64| {
        for _ in 0..rounds {
            for nth in 0..TIMELINES {
                let name = format!("t{nth}");
                let entry = acked.entry(name.clone()).or_default();
                let numbers = entry.head + 1..=entry.head + many;
                let messages: Vec<Value> = numbers
                    .map(|n| json!({"entry": {"text": text(&name, n)}, "message_id": format!("{name}-{n}")}))
                    .collect();
                let params = json!({"timeline": name, "messages": messages});
                client.call("message.append_batch", &params).unwrap();
                entry.head += many;
            }
        }
    };
    write(9, 12);
    // Until the note.
    std::thread::sleep(Duration::from_secs(3));
    acked
        .values_mut()
        .for_each(|timeline| timeline.sure = timeline.head);
    let mut write = |many: u64| {
        for (name, timeline) in &mut acked {
            for n in timeline.head + 1..=timeline.head + many {
                let params = json!({"timeline": name, "entry": {"text": text(name, n)}});
                client.call("message.append", &params).unwrap();
            }
            timeline.head += many;
        }
    };
    write(2);
    for (name, timeline) in &mut acked {
        let got = client
            .call("timeline.get", &json!({"timeline": name}))
            .unwrap();
        timeline.epoch = got["epoch"].as_str().unwrap().to_owned();
    }
    drop(server);
    Base {
        data: data.to_owned(),
        acked,
    }
}

/// Everything that is served, held against what was acknowledged. `Err` = something is missing or different.
fn judge(launch: &Launch, base: &Base, may_lose_end: bool) -> Result<(), String> {
    let mut client = Client::new(launch);
    for (name, acked) in &base.acked {
        let got = client.call("timeline.get", &json!({"timeline": name}));
        let got = got.map_err(|error| format!("{name}: {error}"))?;
        if got["epoch"] != acked.epoch.as_str() {
            return Err(format!("{name} has another epoch"));
        }
        let head = got["head"].as_u64().unwrap();
        if head > acked.head || head < acked.sure || (head < acked.head && !may_lose_end) {
            return Err(format!(
                "{name}: {head} messages of {}, {} of them for sure",
                acked.head, acked.sure
            ));
        }
        let mut next = 1;
        while next <= head {
            let params = json!({"timeline": name, "from": next});
            let page = client.call("message.range", &params);
            let page = page.map_err(|error| format!("{name} from {next}: {error}"))?;
            for message in page["messages"].as_array().unwrap() {
                if message["sequence"] != next
                    || message["entry"]["text"] != text(name, next).as_str()
                {
                    return Err(format!("{name}: message {next} is another"));
                }
                next += 1;
            }
        }
    }
    Ok(())
}

/// Without the mark by which a copy of a killed server's directory would be refused.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.file_name() != "served" {
            // Holes stay holes.
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn segments(data: &Path, partition: &str) -> Vec<PathBuf> {
    let list = fs::read_dir(data.join(partition).join("log")).unwrap();
    let mut all: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "log"));
    all.sort();
    all
}

/// All files below a folder, sorted.
fn files(data: &Path, below: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(data.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(data, &path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

fn bend(path: &Path, at: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x41], at).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

fn replace_in_manifest(data: &Path, from: &str, to: &str) {
    let path = data.join("directory.toml");
    let before = fs::read_to_string(&path).unwrap();
    let after = before.replacen(from, to, 1);
    fs::write(path, after).unwrap();
}

/// Another first digit.
fn other_history(data: &Path) {
    let text = fs::read_to_string(data.join("directory.toml")).unwrap();
    let digit = text
        .split("history = \"")
        .nth(1)
        .unwrap()
        .chars()
        .next()
        .unwrap();
    let other = if digit == '0' { '1' } else { '0' };
    replace_in_manifest(data, &format!("\"{digit}"), &format!("\"{other}"));
}

fn swap(one: &Path, other: &Path) {
    let away = one.with_extension("away");
    fs::rename(one, &away).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(away, other).unwrap();
}

fn put(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::remove_dir_all(to).unwrap();
        copy(from, to);
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// What becomes of a damaged copy.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused,
    Served,
}

struct Bed {
    _home: TempDir,
    work: PathBuf,
    /// Everything in the log; some of it in the image; a stranger with other contents.
    bases: [Base; 3],
    faults: Vec<String>,
}

impl Bed {
    fn new() -> Bed {
        let home = tempfile::tempdir().unwrap();
        let base = |(name, memtable): (&str, u64)| {
            let data = home.path().join(name);
            let made = std::thread::Builder::new().name(name.to_owned());
            made.spawn(move || killed(&data, memtable)).unwrap()
        };
        let bases = [
            ("log", 134_217_728),
            ("image", 3_000_000),
            ("stranger", 134_217_728),
        ];
        let bases = bases.map(base).map(|made| made.join().unwrap());
        Bed {
            work: home.path().join("work"),
            _home: home,
            bases,
            faults: Vec::new(),
        }
    }

    /// Damages a copy of a base, starts a server on it, and holds what it does against the promise.
    fn try_one(
        &mut self,
        what: &str,
        base: usize,
        may_lose_end: bool,
        damage: &dyn Fn(&Path, &Path),
    ) -> Option<Outcome> {
        let _ = fs::remove_dir_all(&self.work);
        copy(&self.bases[base].data, &self.work);
        damage(&self.work, &self.bases[2].data);
        let launch = launch(&self.work, 134_217_728);
        let _ = fs::remove_file(launch.log_path());
        let started = start(&launch);
        let told = fs::read_to_string(launch.log_path()).unwrap();
        let fault = match started {
            Ok(server) => {
                let judged = judge(&launch, &self.bases[base], may_lose_end);
                drop(server);
                match judged {
                    Ok(()) => return Some(Outcome::Served),
                    Err(why) => format!("served: {why}"),
                }
            }
            Err(error) => {
                let by_signal = format!("{error:?}").contains("signal");
                let named = ["partition-000", "directory.toml"];
                let line = told.lines().last().unwrap_or_default();
                if !by_signal && named.iter().any(|name| line.contains(name)) {
                    return Some(Outcome::Refused);
                }
                format!("ended without naming the place: {error:?}: {told}")
            }
        };
        self.faults.push(format!("{what}: {fault}"));
        None
    }

    fn refused(&mut self, what: &str, damage: &dyn Fn(&Path, &Path)) {
        let outcome = self.try_one(what, 0, false, damage);
        if outcome == Some(Outcome::Served) {
            self.faults.push(format!(
                "{what}: served, though nothing says that it belongs there"
            ));
        }
    }
}

#[test]
fn a_damaged_directory_is_refused_or_serves_what_was_acknowledged() {
    let mut bed = Bed::new();
    what_is_missing_or_from_elsewhere_is_refused(&mut bed);
    random_damage_is_refused_or_harmless(&mut bed);
    let count = bed.faults.len();
    assert_eq!(count, 0, "{count} faults:\n{}", bed.faults.join("\n"));
}

#[allow(clippy::too_many_lines)] // one case after the other
fn what_is_missing_or_from_elsewhere_is_refused(bed: &mut Bed) {
    let whole = bed.try_one("nothing", 0, false, &|_, _| {});
    assert_eq!(whole, Some(Outcome::Served), "{:?}", bed.faults);
    for partition in PARTITIONS {
        let image = format!("{partition}/image");
        let log = format!("{partition}/log");
        for folder in [partition, &image, &log] {
            bed.refused(&format!("{folder} removed"), &|data, _| {
                fs::remove_dir_all(data.join(folder)).unwrap();
            });
            bed.refused(&format!("{folder} emptied"), &|data, _| {
                fs::remove_dir_all(data.join(folder)).unwrap();
                fs::create_dir(data.join(folder)).unwrap();
            });
            bed.refused(&format!("{folder} of a stranger"), &|data, stranger| {
                put(&stranger.join(folder), &data.join(folder));
            });
        }
        let state = format!("{log}/log.state");
        bed.refused(&format!("{state} removed"), &|data, _| {
            fs::remove_file(data.join(&state)).unwrap();
        });
        bed.refused(&format!("{state} bent"), &|data, _| {
            bend(&data.join(&state), 20);
            bend(&data.join(&state), 4_096 + 20);
        });
        bed.refused(&format!("{image}/data.mdb cut to nothing"), &|data, _| {
            cut(&data.join(&image).join("data.mdb"), 0);
        });
        for newest in 1..=4 {
            bed.refused(
                &format!("{newest} newest segments of {partition}"),
                &|data, _| {
                    let all = segments(data, partition);
                    assert!(all.len() > 4, "{all:?}");
                    for path in &all[all.len() - newest..] {
                        fs::remove_file(path).unwrap();
                    }
                },
            );
        }
    }
    for part in ["", "image", "log"] {
        bed.refused(&format!("swapped: {part}"), &|data, _| {
            let [one, other] = PARTITIONS.map(|partition| data.join(partition).join(part));
            swap(&one, &other);
        });
    }
    bed.refused("image of 0 in 1", &|data, _| {
        let [one, other] = PARTITIONS.map(|partition| data.join(partition).join("image"));
        put(&one, &other);
    });
    bed.refused("another history", &|data, _| other_history(data));
    bed.refused("another history, called format 1", &|data, _| {
        let history = "07070707070707070707070707070707";
        let text = format!("format = 1\nhistory = \"{history}\"\npartitions = 2\n");
        fs::write(data.join("directory.toml"), text).unwrap();
    });
    for count in [0, 1, 3, 4] {
        bed.refused(&format!("{count} roots"), &|data, _| {
            replace_in_manifest(data, "roots = 2", &format!("roots = {count}"));
        });
    }
    bed.refused("a range is too short", &|data, _| {
        replace_in_manifest(data, "\"7fffffffffffffff\"", "\"7ffffffffffffffe\"");
    });
    bed.refused("numbers of partitions swapped", &|data, _| {
        replace_in_manifest(data, "number = 0", "number = 2");
        replace_in_manifest(data, "number = 1", "number = 0");
        replace_in_manifest(data, "number = 2", "number = 1");
    });
    bed.refused("directory.toml removed", &|data, _| {
        fs::remove_file(data.join("directory.toml")).unwrap();
    });
    bed.refused("one partition too many", &|data, _| {
        copy(&data.join(PARTITIONS[1]), &data.join("partition-0002"));
    });
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn random_damage_is_refused_or_harmless(bed: &mut Bed) {
    let rounds = std::env::var("DAMAGE_ROUNDS").map_or(8, |text| text.parse().unwrap());
    let mut outcomes = [0, 0];
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        let base = dice.below(2) as usize;
        let partition = PARTITIONS[dice.below(2) as usize];
        let all = segments(&bed.bases[base].data, partition);
        let nth = dice.below(all.len() as u64) as usize;
        let is_newest = nth + 1 == all.len();
        let length = fs::metadata(&all[nth]).unwrap().len();
        let at = dice.below(length);
        let name = all[nth]
            .strip_prefix(&bed.bases[base].data)
            .unwrap()
            .to_owned();
        let state = Path::new(partition).join("log/log.state");
        let files = files(&bed.bases[base].data, Path::new(""));
        let file = files[dice.below(files.len() as u64) as usize].clone();
        let (what, damage): (_, Damage<'_>) = match dice.below(7) {
            0 | 1 => (
                format!("{name:?} cut to {at}"),
                Box::new(|data| cut(&data.join(&name), at)),
            ),
            2 => (
                format!("{name:?} bent at {at}"),
                Box::new(|data| bend(&data.join(&name), at)),
            ),
            3 => (
                format!("{name:?} removed"),
                Box::new(|data| fs::remove_file(data.join(&name)).unwrap()),
            ),
            4 => (
                format!("{state:?} cut to {}", at % 4_200),
                Box::new(|data| cut(&data.join(&state), at % 4_200)),
            ),
            5 => (
                format!("{state:?} bent at {}", at % 4_140),
                Box::new(|data| bend(&data.join(&state), at % 4_140)),
            ),
            _ => (
                format!("{file:?} removed"),
                Box::new(|data| fs::remove_file(data.join(&file)).unwrap()),
            ),
        };
        // The newest segment's end behind the last note; a segment that is not there at all is always missed.
        let may_lose_end = is_newest && !what.ends_with("removed");
        let what = format!("seed {seed}, base {base}: {what}");
        let outcome = bed.try_one(&what, base, may_lose_end, &|data, _| damage(data));
        match outcome {
            Some(Outcome::Refused) => outcomes[0] += 1,
            Some(Outcome::Served) => outcomes[1] += 1,
            None => {}
        }
    }
    let [refused, served] = outcomes;
    let mut out = std::io::stderr();
    writeln!(out, "{rounds} rounds: {refused} refused, {served} served").unwrap();
}
