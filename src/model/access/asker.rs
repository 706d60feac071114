//! The caller of a call and the rights that the call needs, kept with it until it is decided: in its batch, or in the
//! view that it reads.
//!
//! Owns: [`Claim`], an identity with the rules that it is decided by, and [`Asker`], what a call carries of it.
//! Promises: without `[auth]` there is no claim, and a decision is one comparison; a claim that has ended gives no
//! right any more, also to calls that wait. Must not: know what is asked for beyond rights.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use super::coverage::Coverage;
use super::decide::{Decision, Membership, decide, everywhere, rights};
use super::grants::GrantText;
use super::identity::{Identity, Who};
use super::rights::{Right, Rights};
use super::rules::{CurrentRules, Rules};

/// A credential that was accepted: all calls of its session share it. A renewed credential is another claim; from then
/// on calls that still wait with the earlier claim have the rights of the new one.
#[derive(Debug)]
pub struct Claim {
    identity: Identity,
    rules: Arc<CurrentRules>,
    sender: Arc<str>,
    /// When its token was issued, ms, if it is one that says so.
    issued_at: Option<u64>,
    /// It was accepted earlier, and no session ends it.
    is_earlier: bool,
    session: Arc<Session>,
}

/// What all claims of a session share.
#[derive(Debug, Default)]
struct Session {
    /// Of the newest one, if there are several.
    newest: ArcSwapOption<Identity>,
    is_over: AtomicBool,
}

impl Claim {
    /// For an identity that was verified.
    #[must_use]
    pub fn new(identity: Identity, rules: Arc<CurrentRules>, issued_at: Option<u64>) -> Claim {
        Claim {
            sender: identity.sender(),
            identity,
            rules,
            issued_at,
            is_earlier: false,
            session: Arc::default(),
        }
    }

    /// The same session's, after it was renewed with a credential of the same caller.
    #[must_use]
    pub fn renewed(&self, identity: &Arc<Identity>, issued_at: Option<u64>) -> Claim {
        self.session.newest.store(Some(Arc::clone(identity)));
        Claim {
            session: Arc::clone(&self.session),
            ..Claim::new(
                Identity::clone(identity),
                Arc::clone(&self.rules),
                issued_at,
            )
        }
    }

    /// For an identity that was verified earlier: each decision looks whether it was taken back since.
    #[must_use]
    pub fn earlier(identity: Identity, rules: Arc<CurrentRules>, issued_at: Option<u64>) -> Claim {
        Claim {
            is_earlier: true,
            ..Claim::new(identity, rules, issued_at)
        }
    }

    /// When its token was issued, ms; `None` = it does not say, or it is none.
    #[must_use]
    pub fn issued_at(&self) -> Option<u64> {
        self.issued_at
    }

    /// Whether it gives no rights any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let withdrawn = || self.rules.has_withdrawn(&self.identity, self.issued_at);
        self.session.is_over.load(Ordering::Acquire) || self.is_earlier && withdrawn()
    }

    /// Whose it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// It was revoked or has expired: what is decided from now on is refused, also of calls that wait already.
    pub fn end(&self) {
        self.session.is_over.store(true, Ordering::Release);
    }

    /// By the identity that counts now.
    fn newest<R>(&self, decide: impl FnOnce(&Identity) -> R) -> R {
        let newest = self.session.newest.load();
        decide(newest.as_deref().unwrap_or(&self.identity))
    }

    /// What counts on a name.
    fn rights(&self, name: &[u8], membership: Membership<'_>) -> Rights {
        #[cfg(feature = "faults")]
        if tideline_base::faults::is_named("skip_decision") {
            return Rights::ALL;
        }
        match self.is_over() {
            true => Rights::NONE,
            false => self.newest(|identity| rights(identity, &self.rules.now(), name, membership)),
        }
    }

    /// What counts for the server, whatever the name.
    #[must_use]
    pub fn everywhere(&self) -> Rights {
        #[cfg(feature = "faults")]
        if tideline_base::faults::is_named("skip_decision") {
            return Rights::ALL;
        }
        match self.is_over() {
            true => Rights::NONE,
            false => self.newest(|identity| everywhere(identity, &self.rules.now())),
        }
    }

    /// What the credential gives, and the configuration to all users.
    #[must_use]
    pub fn grants(&self) -> Vec<GrantText> {
        self.newest(|identity| {
            let mut grants = identity.grants.to_texts();
            if let Who::User(_) = &identity.who {
                grants.extend(self.rules.now().for_users().to_texts());
            }
            grants
        })
    }

    /// What counts on a table.
    #[must_use]
    pub fn on_table(&self, table: &str) -> Rights {
        self.rights(table.as_bytes(), Membership::default())
    }

    /// The names that rights by name let it read.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        #[cfg(feature = "faults")]
        if tideline_base::faults::is_named("skip_decision") {
            return Coverage::everything();
        }
        self.newest(|identity| Coverage::of(identity, &self.rules.now()))
    }
}

/// The caller, and what it asks for.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// Empty = a back end, or the server itself.
    user: Arc<str>,
    /// `None` = there is no `[auth]`, or the server itself asks.
    claim: Option<Arc<Claim>>,
    /// Any of these is enough; empty = to read.
    needs: Rights,
    /// Without a credential they have every right but to make timelines.
    makes_nothing: bool,
}

impl Asker {
    /// A caller that is believed, as there is no `[auth]`; empty = a back end.
    #[must_use]
    pub fn believed(user: impl Into<Arc<str>>) -> Asker {
        Asker {
            user: user.into(),
            claim: None,
            needs: Rights::NONE,
            makes_nothing: false,
        }
    }

    /// A caller with a credential, for something that any of `needs` allows.
    #[must_use]
    pub fn with_claim(claim: Arc<Claim>, needs: Rights) -> Asker {
        Asker {
            user: claim.identity.user().unwrap_or_default().into(),
            claim: Some(claim),
            needs,
            makes_nothing: false,
        }
    }

    /// The same caller, but it may make no timeline if no credential is asked for.
    #[must_use]
    pub fn making_nothing(&self) -> Asker {
        Asker {
            makes_nothing: true,
            ..self.clone()
        }
    }

    /// The same caller, for something else.
    #[must_use]
    pub fn needing(&self, needs: Rights) -> Asker {
        Asker {
            needs,
            ..self.clone()
        }
    }

    /// The user; empty = a back end.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// What is stamped on messages; empty = nothing.
    #[must_use]
    pub fn sender(&self) -> &str {
        match &self.claim {
            Some(claim) => &claim.sender,
            None => &self.user,
        }
    }

    /// The credential; `None` = nothing is to be decided.
    #[must_use]
    pub fn claim(&self) -> Option<&Arc<Claim>> {
        self.claim.as_ref()
    }

    /// The names that rights by name let them read.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let claim = self.claim.as_ref();
        claim.map_or_else(Coverage::everything, |claim| claim.coverage())
    }

    /// All rights that count on a name.
    #[must_use]
    pub fn rights(&self, name: &[u8], membership: Membership<'_>) -> Rights {
        match &self.claim {
            Some(claim) => claim.rights(name, membership),
            None if membership.shuts_out(&self.user) => Rights::NONE,
            None if self.makes_nothing => Rights::ALL.without(Right::Create),
            None => Rights::ALL,
        }
    }

    /// Whether this is allowed to somebody with these rights.
    #[must_use]
    pub fn decide(&self, rights: Rights) -> Decision {
        decide(rights, self.needs)
    }

    /// What a role would give on a name; nothing where nothing is decided.
    #[must_use]
    pub fn of_role(&self, name: &[u8], role: &str) -> Rights {
        let claim = self.claim.as_ref();
        claim.map_or(Rights::NONE, |claim| claim.rules.now().of_role(name, role))
    }

    /// The role that the caller gets in a timeline that they create.
    #[must_use]
    pub fn creator_role(&self, name: &[u8]) -> Option<String> {
        let rules = self.claim.as_ref()?.rules.now();
        rules.policy(name)?.creator.clone()
    }

    /// Whether they may do what they ask, whether or not they are a member, as long as it is open to others.
    #[must_use]
    pub fn is_allowed_by_name(&self, name: &[u8]) -> bool {
        self.decide(self.rights(name, Membership::default())) == Decision::Allowed
    }

    /// Whether they may read a name as a member, whatever their role.
    #[must_use]
    pub fn reads_in_any_role(&self, name: &[u8]) -> bool {
        let of_policy = |rules: &Rules| {
            let policy = rules.policy(name);
            policy.is_some_and(|policy| {
                let mut all = policy.roles.values().chain([&policy.members]);
                all.all(|rights| rights.has(Right::Read))
            })
        };
        self.reads_by_name(name)
            || self.claim.as_ref().is_some_and(|claim| {
                matches!(claim.identity.who, Who::User(_)) && of_policy(&claim.rules.now())
            })
    }

    /// Whether they may read a name whether or not they are a member, as long as it is open to others.
    #[must_use]
    pub fn reads_by_name(&self, name: &[u8]) -> bool {
        self.rights(name, Membership::default()).has(Right::Read)
    }
}

/// Askers are equal if they are of the same session.
impl PartialEq for Asker {
    fn eq(&self, other: &Asker) -> bool {
        let claim = |asker: &Asker| asker.claim.as_ref().map(Arc::as_ptr);
        let asked = |asker: &Asker| (asker.needs, asker.makes_nothing);
        self.user == other.user && asked(self) == asked(other) && claim(self) == claim(other)
    }
}

impl Eq for Asker {}

/// A caller that is believed.
impl From<&str> for Asker {
    fn from(user: &str) -> Asker {
        Asker::believed(user)
    }
}

/// A caller that is believed.
impl From<String> for Asker {
    fn from(user: String) -> Asker {
        Asker::believed(user)
    }
}
