//! What things are called in NATS.
//!
//! Owns: stream, subjects, and which names of clusters and nodes fit into them. Promises: a name that was checked has no
//! character with a meaning in a subject. Must not: talk to a server.

/// The longest name of a cluster or a node.
const NAME_BYTES_MAX: usize = 32;

/// The names of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Of its stream.
    pub(crate) stream: String,
    /// Of its frames.
    pub(crate) subject: String,
    /// Of what nodes say of themselves.
    pub(crate) beats: String,
}

impl Names {
    pub(crate) fn new(cluster: &str, partition: u16) -> Names {
        Names {
            stream: format!("TL_{cluster}_{partition}"),
            subject: format!("tl.{cluster}.{partition}"),
            beats: format!("tl.{cluster}.beats.{partition}"),
        }
    }
}

/// Refuses a name that NATS would read as more than a name. `what` says whose it is.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits);
    is_good.then_some(()).ok_or_else(|| {
        format!("{what} {name:?}: use 1 to {NAME_BYTES_MAX} characters of a-z, 0-9 and -")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_meaning_in_subjects() {
        for good in ["chat", "n1", "eu-west-1"] {
            assert_eq!(check_name("node", good), Ok(()));
        }
        for bad in ["", "a.b", "a*", ">", "a b", "A", "a_b", &"a".repeat(33)] {
            assert!(check_name("node", bad).is_err_and(|said| said.contains("use 1 to 32")));
        }
    }
}
