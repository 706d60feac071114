//! `tideline timelines` and `tideline conversations`.
//!
//! Owns: the pages of these lists, and a line for each. Promises: all of them are shown, in the server's order. Must
//! not: follow what comes meanwhile.

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::address::At;
use super::failure::Failure;
use super::message::{Message, moment};
use super::plain::json;
use super::screen::{Form, Look, Screen};
use super::session::{Session, parsed};

/// Which timelines.
#[derive(Debug, Args)]
pub struct Timelines {
    /// Only those whose IDs begin so.
    #[arg(default_value = "")]
    prefix: String,
    /// Only those whose meta has these words, as `tideline search` finds them.
    #[arg(long, value_name = "QUERY")]
    find: Option<String>,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

/// Which conversations.
#[derive(Debug, Args)]
pub struct Conversations {
    /// Only those with unread messages.
    #[arg(long)]
    unread: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

#[derive(Deserialize)]
struct Page {
    #[serde(alias = "timelines", alias = "conversations")]
    listed: Vec<Box<RawValue>>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Timeline {
    timeline: String,
    head: u64,
    last_at: Option<u64>,
    members_count: Option<u64>,
    meta: Box<RawValue>,
}

#[derive(Deserialize)]
struct Conversation {
    timeline: String,
    peer: Option<String>,
    unread: u64,
    #[serde(default)]
    mentions: u64,
    last_at: Option<u64>,
    last_message: Option<Message>,
    meta: Box<RawValue>,
}

impl Timelines {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = Session::open(&self.at).await?;
        let (method, params) = match &self.find {
            None => ("timeline.list", json!({ "prefix": self.prefix })),
            Some(query) => (
                "timeline.search",
                json!({ "prefix": self.prefix, "query": query }),
            ),
        };
        list(session, &self.form, method, params, timeline_row).await
    }
}

impl Conversations {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = Session::open(&self.at).await?;
        let params = match self.unread {
            true => json!({ "filter": { "unread": true } }),
            false => json!({}),
        };
        let method = "conversation.list";
        let listed = list(session, &self.form, method, params, conversation_row).await;
        listed.map_err(|failure| match failure {
            Failure::Refused(refusal)
                if refusal.reason() == "unauthenticated" && self.at.user.is_none() =>
            {
                Failure::Refused(refusal).about("whose conversations? --user names the user")
            }
            failure => failure,
        })
    }
}

/// Shows a list, page by page.
async fn list(
    mut session: Session,
    form: &Form,
    method: &str,
    mut params: Value,
    row: fn(&Screen, &RawValue) -> Result<Line, Failure>,
) -> Result<(), Failure> {
    let mut screen = Screen::new(form);
    params["limit"] = json!(session.limits.page_messages_max);
    loop {
        let page: Page = parsed(&session.call(method, &params).await?)?;
        lines(&mut screen, &page.listed, row)?;
        let Some(next) = page.next else {
            session.close().await;
            return Ok(());
        };
        params["after"] = json!(next);
    }
}

/// The columns of a line, in the order in which they stand there, and what comes behind them.
type Line = (Row, String);
type Row = [(Look, String); 4];

/// Shows a page. What stands in the first columns is as wide as the widest of the page.
fn lines(
    screen: &mut Screen,
    page: &[Box<RawValue>],
    row: fn(&Screen, &RawValue) -> Result<Line, Failure>,
) -> Result<(), Failure> {
    if screen.json {
        page.iter().try_for_each(|one| screen.line(&json(one)))?;
        return screen.flush();
    }
    let rows: Vec<Line> = page
        .iter()
        .map(|one| row(screen, one))
        .collect::<Result<_, _>>()?;
    let width = |text: &String| super::plain::plain(text).chars().count();
    let mut widths = [0; 4];
    for (row, _) in &rows {
        for (most, (_, text)) in widths.iter_mut().zip(row) {
            *most = (*most).max(width(text).min(WIDTH_MAX));
        }
    }
    for (row, rest) in &rows {
        let mut line = String::new();
        for ((look, text), most) in row.iter().zip(widths).filter(|(_, most)| *most > 0) {
            let space = " ".repeat(most.saturating_sub(width(text)));
            line.push_str(&screen.part(*look, text));
            line.push_str(&space);
            line.push_str("  ");
        }
        line.push_str(rest);
        screen.line(line.trim_end())?;
    }
    screen.flush()
}

/// Longer ones push what follows to the right.
const WIDTH_MAX: usize = 40;
/// Of a last message, so many characters.
const PREVIEW_MAX: usize = 80;

fn timeline_row(screen: &Screen, raw: &RawValue) -> Result<Line, Failure> {
    let timeline: Timeline = parsed(raw)?;
    let members = match timeline.members_count {
        None | Some(0) => String::new(),
        Some(1) => "1 member".to_owned(),
        Some(many) => format!("{many} members"),
    };
    let row = [
        (Look::Timeline, timeline.timeline),
        (Look::Strong, format!("#{}", timeline.head)),
        (Look::Dim, timeline.last_at.map_or_else(String::new, moment)),
        (Look::Dim, members),
    ];
    Ok((row, titled(screen, &timeline.meta)))
}

fn conversation_row(screen: &Screen, raw: &RawValue) -> Result<Line, Failure> {
    let one: Conversation = parsed(raw)?;
    let unread = match (one.unread, one.mentions) {
        (0, _) => String::new(),
        (unread, 0) => format!("{unread} new"),
        (unread, mentions) => format!("{unread} new, @{mentions}"),
    };
    let row = [
        (Look::Timeline, one.timeline),
        (Look::Strong, unread),
        (Look::Dim, one.last_at.map_or_else(String::new, moment)),
        (
            Look::Name,
            one.peer
                .map_or_else(String::new, |peer| format!("with {peer}")),
        ),
    ];
    let title = titled(screen, &one.meta);
    let last = one.last_message.map(|last| last.text(screen, PREVIEW_MAX));
    let rest = [Some(title).filter(|title| !title.is_empty()), last];
    Ok((
        row,
        rest.into_iter().flatten().collect::<Vec<_>>().join("  "),
    ))
}

/// What a meta says to people: its title, else all of it.
fn titled(screen: &Screen, meta: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Titled {
        title: String,
    }
    match (serde_json::from_str::<Titled>(meta.get()), meta.get()) {
        (Ok(Titled { title }), _) => super::plain::plain(&title),
        (Err(_), "{}") => String::new(),
        (Err(_), all) => screen.part(Look::Dim, all),
    }
}
