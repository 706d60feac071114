//! The machine around the server, seen from the driver: a process that stands still whenever it is the driver's turn.
//!
//! Owns: the process and the frames between both. Promises: whatever becomes of it, it is gone when this is dropped.
//! Must not: know what the frames are for.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The machine's sources, in `tests/simulation/machine`.
const SOURCES: [&str; 5] = ["trap.c", "schedule.c", "network.c", "disk.c", "power.c"];

/// Builds the machine with the C compiler, into this folder.
pub(crate) fn build(into: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/machine");
    let library = into.join("machine.so");
    let mut cc = Command::new("cc");
    cc.args([
        "-O2", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
    ]);
    cc.args(["-fno-builtin", "-fno-stack-protector"]);
    cc.args(["-fno-tree-loop-distribute-patterns", "-o"]);
    cc.arg(&library).args(SOURCES.map(|name| folder.join(name)));
    let done = cc.arg("-ldl").output().expect("a C compiler");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    library
}

/// After a power cut all that is on the disk is certain.
pub(crate) fn forget_unsynced(folder: &Path) -> io::Result<()> {
    let undo = folder.join("undo");
    if undo.is_dir() {
        fs::remove_dir_all(&undo)?;
    }
    fs::create_dir_all(undo)
}

/// What the machine tells.
#[derive(Debug)]
pub(crate) enum Said {
    /// The server takes connections.
    Listens,
    /// It sent this on a connection.
    Sent(u32, Vec<u8>),
    /// It closed a connection.
    Closed(u32),
    /// A sync takes long: a good moment to look at what is not certain yet.
    Syncs,
    /// The process is gone.
    Ended(End),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this code.
    Exit(u32),
    /// As by kill -9, because the driver said so.
    Killed,
    /// The power went, because the driver said so.
    PowerCut,
    /// The server aborted: a panic where none may be, or a point at which it was to end.
    Aborted,
    /// All threads wait for each other, or none ever comes to rest.
    Stuck,
    /// The server did what the machine does not know, or hung so that only a real clock ends it.
    Broken,
}

/// What the driver has done, as a frame.
#[derive(Default)]
pub(crate) struct Acts(Vec<u8>);

impl Acts {
    fn act(&mut self, kind: u8, number: u32, bytes: &[u8]) {
        self.0.push(kind);
        self.0.extend(number.to_be_bytes());
        self.0.extend((bytes.len() as u32).to_be_bytes());
        self.0.extend(bytes);
    }

    pub(crate) fn connect(&mut self, connection: u32) {
        self.act(b'O', connection, &[]);
    }

    pub(crate) fn send(&mut self, connection: u32, bytes: &[u8]) {
        self.act(b'D', connection, bytes);
    }

    /// So many bytes were read: the server may send as many more.
    pub(crate) fn read(&mut self, connection: u32, bytes: u32) {
        self.act(b'W', connection, &bytes.to_be_bytes());
    }

    pub(crate) fn reset(&mut self, connection: u32) {
        self.act(b'R', connection, &[]);
    }

    pub(crate) fn terminate(&mut self) {
        self.act(b'T', 0, &[]);
    }

    pub(crate) fn kill(&mut self) {
        self.act(b'K', 0, &[]);
    }

    pub(crate) fn cut_power(&mut self) {
        self.act(b'P', 0, &[]);
    }

    /// The clock on the wall jumps.
    pub(crate) fn jump(&mut self, ms: i32) {
        self.act(b'J', ms.cast_unsigned(), &[]);
    }

    pub(crate) fn arm(&mut self, armed: Armed) {
        let about = [armed.fault as u8, armed.about as u8];
        self.act(b'F', armed.countdown, &about);
    }
}

/// What may happen to the disk; the numbers are those of `machine.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    WriteFails = 1,
    Full = 2,
    WriteShort = 3,
    SyncFails = 4,
    Kill = 5,
    PowerCut = 6,
}

/// Which calls are counted; the numbers are those of `machine.h`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// All that change the disk.
    Any = 0,
    /// Those about a commit log.
    Log = 1,
    /// Those about a commit log with bytes of a process that was killed.
    Inherited = 2,
    /// Syncs of a commit log.
    LogSync = 3,
    /// What becomes certain of other files while a log's sync is under way.
    Overtaken = 4,
}

/// A fault of the disk, and at which call from the start it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    pub(crate) fault: Fault,
    pub(crate) about: About,
    pub(crate) countdown: u32,
}

/// How a life of the server begins.
pub(crate) struct Birth<'a> {
    pub(crate) library: &'a Path,
    /// With `disk` and `undo` in it.
    pub(crate) folder: &'a Path,
    /// What the server is called with.
    pub(crate) arguments: &'a [&'a str],
    /// Which of its promises are broken.
    pub(crate) fault: &'a str,
    pub(crate) seed: u64,
    /// ns of the machine, and of the clock on the wall.
    pub(crate) now: u64,
    pub(crate) wall: u64,
    pub(crate) is_traced: bool,
    pub(crate) disk: Disk,
}

/// What ails the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    /// Syncs take long.
    pub(crate) is_slow: bool,
    /// Writes wait for it.
    pub(crate) is_throttled: bool,
    /// Syncs of commit logs may take seconds, and all else goes on meanwhile.
    pub(crate) logs_hang: bool,
    /// The other way round.
    pub(crate) others_hang: bool,
}

/// A life of the server.
pub(crate) struct Machine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) now: u64,
    pub(crate) wall: u64,
    /// Of all decisions and calls, once it has ended.
    pub(crate) sum: u64,
}

impl Machine {
    pub(crate) fn start(birth: &Birth<'_>) -> io::Result<Machine> {
        let log = birth.folder.join("server.log");
        let log = File::options().append(true).create(true).open(log)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tideline"));
        command.args(birth.arguments).current_dir(birth.folder);
        command.env_clear().env("LD_PRELOAD", birth.library);
        command.env("TIDELINE_FAULT", OsStr::new(birth.fault));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(log).spawn()?;
        let mut input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = Vec::new();
        for number in [birth.seed, birth.now, birth.wall] {
            first.extend(number.to_be_bytes());
        }
        first.push(u8::from(birth.is_traced));
        let Disk {
            is_slow,
            is_throttled,
            logs_hang,
            others_hang,
        } = birth.disk;
        let traits = [is_slow, is_throttled, logs_hang, others_hang];
        let bit = |(at, has): (usize, bool)| u8::from(has) << at;
        first.push(traits.into_iter().enumerate().map(bit).sum());
        write(&mut input, &first)?;
        Ok(Machine {
            child,
            input,
            output,
            now: birth.now,
            wall: birth.wall,
            sum: 0,
        })
    }

    /// Waits for the driver's turn, and returns what has happened.
    pub(crate) fn turn(&mut self) -> Vec<Said> {
        match self.frame() {
            Ok(frame) => self.said(&frame),
            Err(_) => vec![Said::Ended(End::Broken)],
        }
    }

    /// Ends the driver's turn; the next one comes at `wake`, or when there is something.
    pub(crate) fn go_on(&mut self, acts: Acts, wake: u64) {
        let mut frame = Vec::from(wake.to_be_bytes());
        frame.extend(acts.0);
        // One that is gone is noticed at the next turn.
        let _ = write(&mut self.input, &frame);
    }

    /// How it went, and the last line of its log.
    pub(crate) fn last_words(&mut self, folder: &Path) -> String {
        let status = self.child.wait().map(|status| status.to_string());
        let log = fs::read(folder.join("server.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last = log.lines().last().unwrap_or_default();
        format!("{}, {last}", status.unwrap_or_default())
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.output.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.output.read_exact(&mut frame)?;
        Ok(frame)
    }

    fn said(&mut self, frame: &[u8]) -> Vec<Said> {
        let mut rest = frame;
        self.now = long(&mut rest);
        self.wall = long(&mut rest);
        let mut all = Vec::new();
        while !rest.is_empty() {
            let kind = take(&mut rest, 1)[0];
            let number = short(&mut rest);
            let count = short(&mut rest) as usize;
            let mut bytes = take(&mut rest, count);
            let end = match kind {
                b'L' => {
                    all.push(Said::Listens);
                    continue;
                }
                b'I' => {
                    all.push(Said::Syncs);
                    continue;
                }
                b'D' => {
                    all.push(Said::Sent(number, bytes.to_vec()));
                    continue;
                }
                b'H' | b'C' => {
                    all.push(Said::Closed(number));
                    continue;
                }
                b'X' => End::Exit(number),
                b'K' => End::Killed,
                b'P' => End::PowerCut,
                b'A' => End::Aborted,
                b'S' => End::Stuck,
                _ => End::Broken,
            };
            self.sum = long(&mut bytes);
            all.push(Said::Ended(end));
        }
        all
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(to: &mut ChildStdin, frame: &[u8]) -> io::Result<()> {
    to.write_all(&(frame.len() as u32).to_be_bytes())?;
    to.write_all(frame)?;
    to.flush()
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(count);
    *from = rest;
    taken
}

fn short(from: &mut &[u8]) -> u32 {
    take(from, 4)
        .iter()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn long(from: &mut &[u8]) -> u64 {
    take(from, 8)
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
