//! SQL: the rights of a statement, and SQLQuery.
//!
//! Owns: how a statement asks for rights, and the way of its answer into columns. Promises: rights are those of the
//! operations that do the same; a table that the caller may not touch is answered alike whether it exists or not; what
//! takes long to encode is encoded off the threads that serve clients. Must not: read a statement beyond the words that
//! say what it changes.

use std::sync::Arc;

use super::rights::{self, Caller, allow};
use super::row::{Outcome, rates, refusal};
use crate::Shared;
use tideline_base::bounds::Holder;
use tideline_model::access::Rights;
use tideline_sql::{Answer, ColumnKind, Datum, Door, Need, Refusal, StatementKind, kind_of};
use tideline_table::{Table, Tables};
use tideline_wire::tablestore::{
    Code, Failure, Reply, SqlCells, SqlColumn, SqlConsumed, SqlQuery, SqlReply, SqlStatement,
};

/// What a statement asks about its caller.
struct Asked {
    shared: Arc<Shared>,
    caller: Caller,
}

impl Door for Asked {
    fn allows(&self, table: &str, need: Need) -> bool {
        let rights: Rights = match need {
            Need::Read => rights::READ,
            Need::Write => rights::WRITE,
            Need::Manage => rights::MANAGE,
            Need::Any => rights::ANY,
        };
        let claim = self.caller.as_ref();
        claim.is_none_or(|claim| allow(claim, table, rights).is_ok())
    }

    fn seen(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        rights::seen(&self.shared, &self.caller, table).ok()
    }
}

/// Runs a statement as its caller may.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    (caller, holder): (&Caller, Option<Holder>),
    statement: &str,
) -> Result<Answer, Refusal> {
    let door = Arc::new(Asked {
        shared: Arc::clone(shared),
        caller: caller.clone(),
    });
    let sql = shared.tablestore.sql.of_caller(holder);
    let answer = sql.run(door, statement, None).await?;
    for scanned in &answer.scanned {
        rates(shared).count(scanned.consumed);
    }
    Ok(answer)
}

/// SQLQuery.
pub(super) async fn query(
    (shared, tables): (&Arc<Shared>, &Tables),
    caller: &Caller,
    asked: SqlQuery,
) -> Outcome {
    let by = (caller, tables.holder());
    let answer = run(shared, by, &asked.statement).await;
    let answer = answer.map_err(refused)?;
    let encoding = tokio::task::spawn_blocking(move || reply(answer, asked.knows_times));
    let encoded = encoding.await;
    let reply = encoded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    Ok(Reply::Sql(reply))
}

/// Why a statement was refused, as SDKs know it.
fn refused(why: Refusal) -> Failure {
    let text = why.to_string();
    let code = match why {
        Refusal::Syntax { .. } | Refusal::Invalid(_) | Refusal::NoTable(_) => {
            Code::ParameterInvalid
        }
        Refusal::Unsupported(_) => Code::UnsupportedOperation,
        // Its text is one for all tables.
        Refusal::Denied(_) => return Failure::new(Code::NoPermissionAccess),
        Refusal::Scanned | Refusal::Memory(_) => Code::QuotaExhausted,
        Refusal::Timeout(_) => Code::Timeout,
        Refusal::Busy => Code::ServerBusy,
        Refusal::RowExists => Code::ConditionCheckFail,
        Refusal::Table(error) => return refusal(error),
    };
    Failure::with(code, text)
}

/// An answer as SDKs read it.
fn reply(answer: Answer, knows_times: bool) -> SqlReply {
    let statement = match answer.kind {
        StatementKind::Select => SqlStatement::Select,
        StatementKind::CreateTable => SqlStatement::CreateTable,
        StatementKind::ShowTables | StatementKind::ShowIndex => SqlStatement::Show,
        StatementKind::DescribeTable => SqlStatement::Describe,
        StatementKind::DropTable => SqlStatement::DropTable,
        StatementKind::AlterTable => SqlStatement::AlterTable,
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
            SqlStatement::Write
        }
    };
    let (mut rows, mut columns) = (answer.rows.len(), Vec::new());
    let mut values: Vec<_> = answer.rows.into_iter().map(Vec::into_iter).collect();
    for column in answer.columns {
        let mut next = values
            .iter_mut()
            .map(|row| row.next().unwrap_or(Datum::Null));
        columns.push(SqlColumn {
            name: column.name,
            cells: cells(column.kind, knows_times, &mut next),
        });
    }
    if statement == SqlStatement::Write {
        let affected = i64::try_from(answer.affected).unwrap_or(i64::MAX);
        rows = 1;
        columns = vec![SqlColumn {
            name: "affected_rows".to_owned(),
            cells: SqlCells::Long(vec![Some(affected)]),
        }];
    }
    let used = answer.scanned.into_iter().map(|scanned| SqlConsumed {
        table: scanned.table,
        index: scanned.index,
        consumed: scanned.consumed,
    });
    SqlReply::new(statement, (&columns, rows), used.collect())
}

/// The values of a column. Each has the column's type or is NULL.
fn cells(kind: ColumnKind, knows_times: bool, values: &mut dyn Iterator<Item = Datum>) -> SqlCells {
    let number = |datum| match datum {
        Datum::Long(number)
        | Datum::DateTime(number)
        | Datum::Date(number)
        | Datum::Time(number) => Some(number),
        _ => None,
    };
    match kind {
        ColumnKind::Long => SqlCells::Long(values.map(number).collect()),
        ColumnKind::DateTime if knows_times => SqlCells::DateTime(values.map(number).collect()),
        ColumnKind::Date if knows_times => SqlCells::Date(values.map(number).collect()),
        ColumnKind::Time if knows_times => SqlCells::Time(values.map(number).collect()),
        ColumnKind::Double => {
            let double = |datum| match datum {
                Datum::Double(number) => Some(number),
                _ => None,
            };
            SqlCells::Double(values.map(double).collect())
        }
        ColumnKind::Boolean => {
            let truth = |datum| match datum {
                Datum::Boolean(truth) => Some(truth),
                _ => None,
            };
            SqlCells::Boolean(values.map(truth).collect())
        }
        ColumnKind::Binary => {
            let bytes = |datum| match datum {
                Datum::Binary(bytes) => Some(bytes),
                _ => None,
            };
            SqlCells::Binary(values.map(bytes).collect())
        }
        ColumnKind::String | ColumnKind::DateTime | ColumnKind::Date | ColumnKind::Time => {
            let text = |datum| match datum {
                Datum::String(text) => Some(text),
                other => other.text(),
            };
            SqlCells::String(values.map(text).collect())
        }
    }
}

/// What the first words of a statement say that it does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// It changes nothing.
    pub(crate) is_read: bool,
    /// The table whose mapping it makes, changes or drops; empty where its words do not say what it does.
    pub(crate) manages: Option<String>,
}

impl Opening {
    /// Looks at a statement, which may be none.
    pub(crate) fn of(statement: &str) -> Opening {
        let Some((kind, table)) = kind_of(statement) else {
            return Opening {
                is_read: false,
                manages: Some(String::new()),
            };
        };
        let manages = matches!(
            kind,
            StatementKind::CreateTable | StatementKind::AlterTable | StatementKind::DropTable
        );
        Opening {
            is_read: kind.is_read(),
            manages: manages.then(|| table.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_say_what_a_statement_changes() {
        for (statement, is_read, manages) in [
            ("select 1", true, None),
            ("-- a comment\n/* and - one */ # more\nSELECT 1", true, None),
            ("Desc `t`", true, None),
            ("insert into t values (1)", false, None),
            (
                "create table if not exists `t_1` (k bigint)",
                false,
                Some("t_1"),
            ),
            ("drop MAPPING table  js_sql ;", false, Some("js_sql")),
            ("alter /* the */ table t add c bigint", false, Some("t")),
            ("create", false, Some("")),
            ("", false, Some("")),
        ] {
            let manages = manages.map(str::to_owned);
            let expected = Opening { is_read, manages };
            assert_eq!(Opening::of(statement), expected, "{statement}");
        }
        // Whatever comes before its words, a change is noted.
        let hidden = format!("/* {} */ drop mapping table t", "x".repeat(100_000));
        assert!(Opening::of(&hidden).manages.is_some());
    }
}
