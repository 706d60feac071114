//! The key family: create, list, revoke.
//!
//! Owns: the calls behind these methods. Promises: they are an administrator's; a revoked key's sessions have ended
//! when the call is answered. Must not: log a key.

use std::sync::Arc;

use super::super::{Caller, Shared, Started, Work, refusal as of_timelines};
use super::session::{administrator, refusal, whole};
use crate::credentials::{ApiKey, NewKey};
use tideline_model::access::{GrantText, Grants, GrantsFrom};
use tideline_wire::server::key;
use tideline_wire::{Failure, Reason, Reply};

pub(in super::super) fn create(
    shared: &Arc<Shared>,
    caller: &Caller,
    create: key::Create,
) -> Started {
    administrator(shared, caller)?;
    let (asked, shared) = (asked(create)?, Arc::clone(shared));
    Ok(whole(caller, async move {
        let door = shared.door.as_ref().ok_or(Reason::Forbidden)?;
        let made = door.authority.create_key(asked).await;
        let (made, secret) = made.map_err(refusal)?;
        Ok(Reply::KeyCreate(key::Created {
            id: made.id.to_string(),
            key: key::Secret(secret.key(&made.id)),
        }))
    }))
}

fn asked(create: key::Create) -> Result<NewKey, Failure> {
    let text = |grant: key::Grant| GrantText {
        on: grant.on,
        allow: grant.allow,
    };
    let texts: Vec<GrantText> = create.rights.into_iter().map(text).collect();
    let rights = Grants::parse(&texts, GrantsFrom::Key)
        .map_err(|error| Failure::invalid(format!("rights{}", error.field()), error.to_string()))?;
    Ok(NewKey {
        name: create.name,
        rights,
        act_as: create.act_as,
        signing: create.signing,
        certificate: create.certificate,
    })
}

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller) -> Started {
    administrator(shared, caller)?;
    let shared = Arc::clone(shared);
    let list = async move {
        shared.timelines.proof().await.map_err(of_timelines)?;
        let keys = shared.door.iter().flat_map(|door| door.authority.keys());
        let keys = keys.map(|key| told(&key)).collect();
        Ok(Reply::KeyList(key::Listed { keys }))
    };
    Ok(Work::Read(Box::pin(list)))
}

fn told(key: &ApiKey) -> key::ApiKey {
    let grant = |text: GrantText| key::Grant {
        on: text.on,
        allow: text.allow,
    };
    let act_as = key.act_as.iter().map(|pattern| pattern.text().to_owned());
    key::ApiKey {
        id: key.id.to_string(),
        name: key.name.to_string(),
        rights: key.rights.to_texts().into_iter().map(grant).collect(),
        act_as: act_as.collect(),
        signing: key.signing,
        certificate: key.certificate.clone(),
        created_at: key.created_at,
    }
}

pub(in super::super) fn revoke(
    shared: &Arc<Shared>,
    caller: &Caller,
    revoke: key::Revoke,
) -> Started {
    administrator(shared, caller)?;
    let shared = Arc::clone(shared);
    Ok(whole(caller, async move {
        let door = shared.door.as_ref().ok_or(Reason::Forbidden)?;
        let revoked = door.authority.revoke_key(&revoke.id).await;
        let revoked = revoked.map_err(refusal)?;
        shared.sessions.sweep(&door.authority);
        Ok(Reply::KeyRevoke(key::Revoked { revoked }))
    }))
}
