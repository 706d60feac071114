//! What a standby answers itself: health, metrics, the pages' files, `/v1/cluster`.
//!
//! Owns: which paths these are, and who may ask. Promises: what a caller shows is judged by the rows that are here at
//! that moment. Must not: answer a call.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderMap};
use hyper::{Method, Request, StatusCode};
use tokio::sync::Semaphore;

use super::super::Pages;
use super::super::entrance::door;
use super::super::entrance::door::{Access, USER, bearer};
use super::super::http::respond::{Answer, as_page, no_page, not_allowed, say, set};
use super::super::http::{files, scrape};
use super::pass::Passer;
use super::{Asked, Cluster, is_for, permit};
use crate::credentials::Shown;
use tideline_model::access::{Claim, Right};
use tideline_wire::{Failure, Reason};

/// The judge of credentials, by the rows that this node has now.
pub type AccessNow = Arc<dyn Fn() -> BoxFuture<'static, Result<Access, String>> + Send + Sync>;

/// See the file's opening.
pub(super) struct Own {
    cluster: Arc<dyn Cluster>,
    passer: Option<Arc<Passer>>,
    pages: Arc<dyn Pages>,
    /// `None` = there is no `[auth]`.
    access: Option<AccessNow>,
    /// One caller at a time has the stored keys read. Nobody holds it while keys are fetched.
    judging: Arc<Semaphore>,
    scrapes: Arc<Semaphore>,
}

/// Whether a node answers it itself, whoever owns the log.
pub(super) fn is_own(path: &str) -> bool {
    let is_file = path.starts_with(files::CONSOLE) || path.starts_with(files::DEMO);
    let is_page = matches!(
        path,
        "/" | "/console" | "/demo" | "/healthz" | "/readyz" | "/metrics"
    );
    is_file || is_page || is_for(path)
}

impl Own {
    pub(super) fn new(
        (cluster, passer): (Arc<dyn Cluster>, Option<Arc<Passer>>),
        pages: Arc<dyn Pages>,
        access: Option<AccessNow>,
    ) -> Own {
        Own {
            cluster,
            passer,
            pages,
            access,
            judging: Arc::new(Semaphore::new(1)),
            scrapes: Arc::new(Semaphore::new(1)),
        }
    }

    /// Answers a request of which nobody reads the body.
    pub(super) async fn answer(&self, request: &Request<Incoming>, names: &[String]) -> Answer {
        let mut answer = self.page(request, names).await;
        if !request.body().is_end_stream() {
            set(&mut answer, CONNECTION, "close");
        }
        answer
    }

    async fn page(&self, request: &Request<Incoming>, names: &[String]) -> Answer {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            path if is_for(path) => self.ask(request, names).await,
            "/" | "/healthz" | "/readyz" | "/metrics" if !is_read => not_allowed("GET, HEAD"),
            "/" | "/console" => as_page(files::lead(files::CONSOLE)),
            "/demo" => as_page(files::lead(files::DEMO)),
            "/healthz" => as_page(say(StatusCode::OK, "ok")),
            "/readyz" => as_page(self.readiness().await),
            "/metrics" => match self.judge(request.headers(), names, None).await {
                Ok(()) => as_page(scrape(&self.pages, &self.scrapes).await),
                Err(failure) => door::refusal(&failure),
            },
            path => match self.pages.file(path) {
                Some(_) if !is_read => not_allowed("GET, HEAD"),
                Some(file) => as_page(files::answer(file, request.headers())),
                None => as_page(no_page()),
            },
        }
    }

    /// Whether calls are served that come here, by whomever.
    async fn readiness(&self) -> Answer {
        let how = self.cluster.status().why_not();
        match &self.passer {
            None => say(StatusCode::SERVICE_UNAVAILABLE, &how),
            Some(passer) => match passer.reaches().await {
                Ok(()) => say(StatusCode::OK, &format!("{how}; calls are passed on to it")),
                Err(why) => say(StatusCode::SERVICE_UNAVAILABLE, &format!("{how}; {why}")),
            },
        }
    }

    /// `/v1/cluster`.
    async fn ask(&self, request: &Request<Incoming>, names: &[String]) -> Answer {
        let asked = match Asked::of(request) {
            Ok(asked) => asked,
            Err(answer) => return answer,
        };
        if let Some(given) = asked.given(request.headers(), &*self.cluster) {
            return given;
        }
        match self.judge(request.headers(), names, Some(&asked)).await {
            Ok(()) => asked.perform(&*self.cluster),
            Err(failure) => door::refusal(&failure),
        }
    }

    /// Whether a caller may do what it asks, or read metrics. What it shows is judged by the rows that are here now.
    async fn judge(
        &self,
        headers: &HeaderMap,
        names: &[String],
        asked: Option<&Asked>,
    ) -> Result<(), Failure> {
        let Some(access) = self.access.clone() else {
            return Ok(());
        };
        // Nothing is read for who shows nothing.
        let bearer = bearer(headers).ok_or(Reason::Unauthenticated)?;
        let turn = Arc::clone(&self.judging).acquire_owned().await;
        // Its own task: the turn is kept until the rows are read, also if the caller has gone.
        let opening = tokio::spawn(async move {
            let access = access().await;
            drop(turn);
            access
        });
        let Ok(access) = opening.await else {
            return Err(Reason::Unavailable.into());
        };
        let Access { authority, rules } = access.map_err(|why| {
            tracing::warn!(why, "credentials can't be judged");
            self.cluster.status().refusal()
        })?;
        let shown = Shown {
            bearer: Some(bearer),
            user: headers
                .get(USER)
                .map(|user| door::user_of(user).unwrap_or("")),
            certificates: names,
        };
        let judged = authority.verify_fetching(shown).await;
        let credential = judged.map_err(|_| Failure::from(Reason::Unauthenticated))?;
        let identity = credential.identity.as_ref().clone();
        let claim = Arc::new(Claim::earlier(identity, rules, credential.issued_at()));
        match asked {
            Some(asked) => permit(Some(&claim), asked),
            None if claim.everywhere().has(Right::Observe) => Ok(()),
            None => Err(Reason::Forbidden.into()),
        }
    }
}
