//! `connect`: thousands of idle connections, and what each costs the server in memory.
//!
//! Owns: idle connections, also those of other profiles. Promises: they are open and answered before it measures; one
//! that ends before the run does is a fault. Must not: send anything while it measures.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::generator::rate;
use crate::client::pipe::Way;
use crate::client::rpc::Client;
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::run::{Better, Run};

/// Arguments of `connect`; warm-up and seconds are not used.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
pub struct Connect {
    /// How many connections
    #[arg(long, default_value_t = 5_000)]
    connections: usize,
    /// How long they stay idle before the memory is read
    #[arg(long, default_value_t = 10.0)]
    hold_seconds: f64,
    /// Subscribe each connection to this many timelines (of 1,000)
    #[arg(long, default_value_t = 0)]
    subscriptions: usize,
    /// Open so many a second [default: as fast as they are answered]
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// From so many addresses of the loopback, 127.1.0.1 and on, in turn [0: one]
    #[arg(long, default_value_t = 0)]
    addresses: u32,
}

/// So many are being opened at a time.
const OPENING: usize = 100;
/// The first of the addresses: 127.1.0.1.
const ADDRESS: u32 = 0x7f01_0001;

impl Profile for Connect {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.connections as u64)?;
        // One connection first, so that what the server makes once is not counted as a connection's.
        drop(self.open(run, 0).await?);
        sleep(Duration::from_millis(200)).await;
        let before = run.used("resident_bytes");
        run.begin().await;
        let (began, held) = (Instant::now(), run.gauge("connections"));
        self.come(run, &held).await?;
        let opening = began.elapsed().as_secs_f64();
        run.pass(self.hold_seconds).await;
        run.sample();
        let after = run.used("resident_bytes");
        run.finish().await;
        run.figure("connections", held.get(), "1", Better::Higher);
        let rate = held.get() / opening.max(0.001);
        run.figure("opened_per_second", rate, "1/s", Better::Higher);
        if let Some((before, after)) = before.zip(after) {
            let per = (after - before) / self.connections.max(1) as f64;
            run.figure("bytes_per_connection", per, "bytes", Better::Lower);
            run.figure("resident_before", before, "bytes", Better::Neither);
            run.figure("resident_held", after, "bytes", Better::Lower);
        }
        Ok(())
    }
}

impl Connect {
    /// So many connections, without subscriptions, as fast as they are answered.
    pub(crate) fn plain(connections: usize) -> Connect {
        Connect {
            connections,
            ..Connect::default()
        }
    }

    /// Opens the connections, which answer pings from then on. `held` is how many there are; one that ends is a fault.
    pub(crate) async fn come(&self, run: &Rc<Run>, held: &Rc<Cell<f64>>) -> Result<(), Stop> {
        let began = Instant::now();
        let add = async |number: usize| {
            if let Some(rate) = self.rate {
                sleep_until(began + Duration::from_secs_f64(number as f64 / rate)).await;
            }
            let client = self.open(run, number).await?;
            run.checks.made("idle connections held", 1);
            held.update(|held| held + 1.0);
            let (held, run) = (Rc::clone(held), Rc::clone(run));
            spawn_local(async move {
                client.idle(&run.checks).await;
                run.checks.fault("a connection ended while it was idle");
                held.update(|held| held - 1.0);
            });
            Ok(())
        };
        let numbers = stream::iter((0..self.connections).map(Ok));
        numbers.try_for_each_concurrent(OPENING, add).await
    }

    /// Opens one connection, which is answered and follows some timelines.
    async fn open(&self, run: &Run, number: usize) -> Result<Client, Stop> {
        let from = (number as u32).checked_rem(self.addresses);
        let from = from.map(|nth| Ipv4Addr::from_bits(ADDRESS + nth).into());
        let way = from.map_or(Way::Plain, Way::From);
        let mut client = Client::open_as(&run.url, way, None).await?;
        client.call::<IgnoredAny>("ping", json!({})).await?;
        for offset in 0..self.subscriptions {
            let params = json!({ "timeline": format!("idle/{}", (number + offset) % 1_000) });
            client.call::<IgnoredAny>("subscribe", params).await?;
        }
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::run::setup::plain;

    #[tokio::test]
    async fn a_connection_that_ends_while_it_is_idle_is_a_fault() {
        let upgraded = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let pong = [&[0x81, text.len() as u8], text.as_bytes()].concat();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let run = Run::new(&plain(), format!("ws://{address}/"), None);
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for answer in [upgraded.as_bytes(), &pong] {
                assert!(stream.read(&mut [0; 1_000]).await.expect("a request") > 0);
                stream.write_all(answer).await.expect("written");
            }
            stream
        };
        let (idle, held) = (Connect::plain(1), Rc::default());
        let coming = async {
            let (came, stream) = tokio::join!(idle.come(&run, &held), serve);
            came.expect("a connection");
            assert_eq!((held.get(), run.checks.faults()), (1.0, 0));
            drop(stream);
            run.checks.wait_for(|| held.get() == 0.0).await;
            assert_eq!(run.checks.faults(), 1);
        };
        LocalSet::new().run_until(coming).await;
    }
}
