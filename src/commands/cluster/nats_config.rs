//! `tideline cluster nats-config`: what a person prepares a cluster's NATS servers with.
//!
//! Owns: these files. Promises: no file that is there is written over; files with passwords can be read
//! by their owner only. Must not: talk to NATS.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use tideline_cluster::guards::check_name;
use tideline_cluster::nats_config::{Login, Machine, NatsConfig};
use uuid::Uuid;

use super::super::output::Output;

/// What `nats-config` is told.
#[derive(Debug, Args)]
pub struct NatsConfigArgs {
    /// The machines, three, with commas between them: NAME or NAME=HOST, where the others reach it.
    #[arg(long, value_name = "MACHINES", value_delimiter = ',', value_parser = Machine::parse)]
    #[arg(required = true)]
    peers: Vec<Machine>,
    /// The cluster's name: a-z, 0-9 and -.
    #[arg(long, default_value = "tideline", value_parser = cluster_name)]
    name: String,
    /// The folder for the files; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Where each server keeps its streams: a disk, or a file system, of its own.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats", value_parser = store)]
    store: String,
    /// Where nodes connect.
    #[arg(long, value_name = "PORT", default_value_t = 4_222)]
    client_port: u16,
    /// Where the servers connect to each other.
    #[arg(long, value_name = "PORT", default_value_t = 6_222)]
    route_port: u16,
    /// Where a server says how it is set and how it does, in plain HTTP.
    #[arg(long, value_name = "PORT", default_value_t = 8_222)]
    monitor_port: u16,
}

fn cluster_name(text: &str) -> Result<String, String> {
    check_name("cluster", text).map(|()| text.to_owned())
}

fn store(text: &str) -> Result<String, String> {
    let is_good = text.starts_with('/') && !text.contains(['"', '\\', '\n', '\r']);
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| "use a path from the root, without quotes".to_owned())
}

/// Writes them.
pub(super) fn nats_config(args: &NatsConfigArgs, out: &mut Output) -> Result<(), String> {
    let files = nats_files(args)?;
    write_all(&args.out, &files)?;
    for (name, _) in &files {
        writeln!(out, "{}", args.out.join(name).display()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Names and contents.
fn nats_files(args: &NatsConfigArgs) -> Result<Vec<(String, String)>, String> {
    let NatsConfigArgs {
        peers,
        name,
        out: _,
        store,
        client_port,
        route_port,
        monitor_port,
    } = args;
    if peers.len() != 3 {
        return Err(format!(
            "--peers names {} machines: name three, of which any two decide",
            peers.len()
        ));
    }
    for (index, peer) in peers.iter().enumerate() {
        let is_twice = |other: &Machine| other.name == peer.name || other.host == peer.host;
        if peers[..index].iter().any(is_twice) {
            return Err(format!("--peers names {} or its host twice", peer.name));
        }
    }
    let config = NatsConfig {
        cluster: name.clone(),
        machines: peers.clone(),
        client_port: *client_port,
        route_port: *route_port,
        monitor_port: *monitor_port,
        store: store.clone(),
        node: login("node"),
        operator: login("operator"),
        route: login("route"),
    };
    let servers = peers.iter();
    let mut files: Vec<(String, String)> = servers
        .map(|machine| (format!("{}.conf", machine.name), config.of(machine)))
        .collect();
    for Login { user, password } in [&config.node, &config.operator] {
        files.push((format!("{user}.login"), format!("{user}:{password}\n")));
    }
    Ok(files)
}

/// A user with a new password of 244 random bits.
fn login(user: &str) -> Login {
    let [one, two] = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::simple);
    Login {
        user: user.to_owned(),
        password: format!("{one}{two}"),
    }
}

/// All of them, or none.
fn write_all(folder: &Path, files: &[(String, String)]) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let there = files.iter().map(|(name, _)| folder.join(name));
    if let Some(path) = there.into_iter().find(|path| path.exists()) {
        return Err(format!(
            "{} is there already: the files of a cluster are made together, so name another folder",
            path.display()
        ));
    }
    for (index, (name, text)) in files.iter().enumerate() {
        let path = folder.join(name);
        let written = private(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            for (name, _) in &files[..=index] {
                // What can't be removed is not there, or is named by the error.
                let _ = fs::remove_file(folder.join(name));
            }
            return Err(failed(&path, error));
        }
    }
    Ok(())
}

/// A new file that only its owner can read.
fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
