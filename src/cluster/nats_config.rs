//! The settings of the NATS servers below a cluster.
//!
//! Owns: a server's file, as text. Promises: the guards (`guards.rs`) accept servers that run with it, and a node's
//! credential can make, change or delete no stream. Must not: make secrets, or write a file.

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its NATS server's name.
    pub name: String,
    /// The address at which the other machines reach it.
    pub host: String,
}

impl Machine {
    /// Reads `NAME=HOST`, or a name that is also the host.
    pub fn parse(text: &str) -> Result<Machine, String> {
        let (name, host) = text.split_once('=').unwrap_or((text, text));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_host = |byte: u8| is_name(byte) || matches!(byte, b':' | b'[' | b']');
        let good_name = (1..=64).contains(&name.len()) && name.bytes().all(is_name);
        let good_host = (1..=255).contains(&host.len()) && host.bytes().all(is_host);
        match good_name && good_host {
            true => Ok(Machine {
                name: name.to_owned(),
                host: host.to_owned(),
            }),
            false => Err(format!(
                "machine {text:?}: name it as NAME or NAME=HOST, with letters, digits, '-', '.' and '_'"
            )),
        }
    }
}

/// A user of the NATS servers.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// What the files of all machines are made of.
#[derive(Clone)]
pub struct NatsConfig {
    /// The cluster's name.
    pub cluster: String,
    /// All machines.
    pub machines: Vec<Machine>,
    /// Where clients connect.
    pub client_port: u16,
    /// Where the servers connect to each other.
    pub route_port: u16,
    /// Where a server answers what it is and how it does, in plain HTTP.
    pub monitor_port: u16,
    /// Where it keeps streams.
    pub store: String,
    /// Of the nodes.
    pub node: Login,
    /// Of whoever makes streams.
    pub operator: Login,
    /// Of the servers, between each other.
    pub route: Login,
}

/// What a node may publish beside its cluster's frames and beats: requests that read, that make consumers, and that
/// take old frames out of the stream.
const NODE_REQUESTS: [&str; 6] = [
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.PURGE.*",
    "$JS.API.DIRECT.GET.*",
    "$JS.API.CONSUMER.CREATE.*.*",
    "$JS.API.CONSUMER.DELETE.*.*",
    "$JS.API.CONSUMER.MSG.NEXT.*.*",
];

impl NatsConfig {
    /// The file of one of the machines.
    #[must_use]
    pub fn of(&self, machine: &Machine) -> String {
        let NatsConfig {
            cluster,
            machines,
            client_port,
            route_port,
            monitor_port,
            store,
            node,
            operator,
            route,
        } = self;
        let Machine { name, host } = machine;
        let others = machines.iter().filter(|other| *other != machine);
        let routes = others.map(|other| {
            let Login { user, password } = route;
            format!(
                "    \"nats://{user}:{password}@{}:{route_port}\"",
                other.host
            )
        });
        let routes: Vec<String> = routes.collect();
        let routes = routes.join("\n");
        let requests = NODE_REQUESTS
            .map(|subject| format!("\"{subject}\""))
            .join(", ");
        format!(
            r#"# NATS server {name} of the Tideline cluster {cluster}. It has passwords: only its server may read it.
server_name: "{name}"
listen: "{host}:{client_port}"
http: "{host}:{monitor_port}"
max_payload: 8MB

jetstream {{
  store_dir: "{store}"
  # What is acknowledged is on the disk. Without it, a power cut takes acknowledged writes.
  sync_interval: always
}}

cluster {{
  name: "tideline-{cluster}"
  listen: "{host}:{route_port}"
  # A machine that is cut off, or stands still, is asked nothing after some seconds; by default after a minute or two.
  ping_interval: "2s"
  ping_max: 2
  authorization {{ user: "{}", password: "{}" }}
  routes: [
{routes}
  ]
}}

accounts {{
  TIDELINE {{
    jetstream: enabled
    users: [
      # Makes streams; only for a person's commands.
      {{ user: "{}", password: "{}" }}
      # The nodes: they write frames, read, and make consumers.
      {{
        user: "{}", password: "{}"
        permissions {{
          publish: ["tl.{cluster}.>", {requests}]
          subscribe: ["_INBOX.>", "tl.{cluster}.beats.*"]
        }}
      }}
    ]
  }}
}}
"#,
            route.user, route.password, operator.user, operator.password, node.user, node.password
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_or_refused() {
        let read = |text| Machine::parse(text).map(|machine| (machine.name, machine.host));
        let pair = |name: &str, host: &str| Ok((name.to_owned(), host.to_owned()));
        assert_eq!(read("a"), pair("a", "a"));
        assert_eq!(read("n1=10.0.0.1"), pair("n1", "10.0.0.1"));
        assert_eq!(read("n1=[fd00::1]"), pair("n1", "[fd00::1]"));
        for bad in [
            "", "=", "a=", "=b", "a b", "a=\"x\"", "a=b/c", "a@b", "a=u:p@b",
        ] {
            assert!(
                read(bad).is_err_and(|said| said.contains("NAME=HOST")),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_file_names_the_other_machines_and_not_itself() {
        let login = |user: &str| Login {
            user: user.to_owned(),
            password: "secret".to_owned(),
        };
        let machine = |name: &str| Machine::parse(name).expect("it is one");
        let config = NatsConfig {
            cluster: "chat".to_owned(),
            machines: ["a", "b", "c"].map(machine).into(),
            client_port: 4_222,
            route_port: 6_222,
            monitor_port: 8_222,
            store: "/var/lib/nats".to_owned(),
            node: login("node"),
            operator: login("operator"),
            route: login("route"),
        };
        let file = config.of(&machine("b"));
        assert!(file.contains("sync_interval: always") && file.contains("max_payload: 8MB"));
        assert!(file.contains("ping_interval: \"2s\"\n  ping_max: 2\n"));
        for (other, is_there) in [("a", true), ("b", false), ("c", true)] {
            let route = format!("nats://route:secret@{other}:6222");
            assert_eq!(file.contains(&route), is_there, "{file}");
        }
        // Nothing that makes, changes or deletes a stream.
        for forbidden in [
            "STREAM.CREATE",
            "STREAM.UPDATE",
            "STREAM.DELETE",
            "MSG.DELETE",
        ] {
            assert!(!file.contains(forbidden));
        }
    }
}
