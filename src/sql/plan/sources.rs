//! Tables as statements name them.
//!
//! Owns: from a name to a table, its mapping and its columns, and the caller's right to it; from FROM to sources.
//! Promises: a table that the caller may not touch is refused alike whether it exists or not. Must not: read rows.

use std::sync::Arc;

use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};

use tideline_model::{ColumnType, DefinedColumn, Error, KeyColumn, MappedColumn, Mapping};
use tideline_table::Table;

use super::{Access, Plan, Source};
use crate::answer::ColumnKind;
use crate::context::Run;
use crate::door::Need;
use crate::expr::{NamedColumn, Names};
use crate::refusal::Refusal;
use crate::value::kind_of_key;

/// Tables of one statement.
const TABLES_MAX: usize = 8;

/// A table and what SQL shows of it.
pub(crate) struct Mapped {
    pub(crate) table: Arc<Table>,
    /// `None` = it has none of its own: its key and its defined columns show.
    pub(crate) mapping: Option<Mapping>,
    pub(crate) columns: Vec<MappedColumn>,
}

/// A table by its name or the name of a mapping, if the caller may do this with it.
pub(crate) fn find(run: &Run, name: &str, need: Need) -> Result<Mapped, Refusal> {
    let mapped = run.wait(run.tables.mapped(name))?;
    let base = mapped.as_ref().map_or(name, |table| table.name.as_str());
    if !run.door.allows(base, need) {
        return Err(Refusal::Denied(name.to_owned()));
    }
    let table = match mapped {
        Some(table) => table,
        None => match run.wait(run.tables.describe(name)) {
            Err(Refusal::Table(Error::TableNotFound)) => {
                return Err(Refusal::NoTable(name.to_owned()));
            }
            found => found?,
        },
    };
    let table = match need {
        Need::Read => run
            .door
            .seen(table)
            .ok_or_else(|| Refusal::Denied(name.to_owned()))?,
        Need::Write | Need::Manage | Need::Any => table,
    };
    let mapping = table
        .mappings
        .iter()
        .find(|mapping| mapping.name == name)
        .cloned();
    let columns = match &mapping {
        Some(mapping) => mapping.columns.clone(),
        None => {
            let of_key = |column: &KeyColumn| MappedColumn {
                name: column.name.clone(),
                kind: kind_of_key(column.kind),
                is_not_null: true,
            };
            let of_defined = |column: &DefinedColumn| MappedColumn {
                name: column.name.clone(),
                kind: column.kind,
                is_not_null: false,
            };
            let defined = table.defined_columns.iter().map(of_defined);
            table
                .primary_key
                .iter()
                .map(of_key)
                .chain(defined)
                .collect()
        }
    };
    Ok(Mapped {
        table,
        mapping,
        columns,
    })
}

/// A source of FROM, before its conditions are known.
pub(super) struct Begun<'q> {
    pub(super) source: Source,
    pub(super) mapping: Option<Mapping>,
    /// `None` = it is the first.
    pub(super) join: Option<How<'q>>,
}

/// Plans a SELECT in the place of a table.
pub(super) type Planner = fn(&Run, &ast::Query, &[String]) -> Result<Plan, Refusal>;

/// The sources of FROM, and what can be named there.
pub(super) fn sources<'q>(
    run: &Run,
    from: &'q [ast::TableWithJoins],
    planner: Planner,
) -> Result<(Vec<Begun<'q>>, Names), Refusal> {
    let (mut sources, mut names) = (Vec::new(), Names::default());
    let add = |relation, join, sources: &mut _, names: &mut _| {
        add(run, (relation, planner), join, sources, names)
    };
    for part in from {
        let mut joins = &part.joins[..];
        match joins {
            // `a RIGHT JOIN b` is `b LEFT JOIN a`; `*` has the columns of a first.
            [right, rest @ ..] if sources.is_empty() && is_right(right) => {
                add(&right.relation, None, &mut sources, &mut names)?;
                let first = names.0.len();
                let how = Some(how(right)?);
                add(&part.relation, how, &mut sources, &mut names)?;
                names.turn(first);
                joins = rest;
            }
            _ => {
                let join = (!sources.is_empty()).then(|| (false, None, Vec::new()));
                add(&part.relation, join, &mut sources, &mut names)?;
            }
        }
        for join in joins {
            if is_right(join) {
                return Refusal::unsupported(
                    "RIGHT JOIN of more than the first two tables: put the table first, with LEFT JOIN",
                );
            }
            let how = Some(how(join)?);
            add(&join.relation, how, &mut sources, &mut names)?;
        }
    }
    Ok((sources, names))
}

/// Whether rows of the side that is kept without a match stay, and the conditions.
type How<'q> = (bool, Option<&'q ast::Expr>, Vec<String>);

fn is_right(join: &ast::Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_)
    )
}

fn how(join: &ast::Join) -> Result<How<'_>, Refusal> {
    let (keeps, constraint) = match &join.join_operator {
        JoinOperator::Join(how)
        | JoinOperator::Inner(how)
        | JoinOperator::CrossJoin(how)
        | JoinOperator::StraightJoin(how) => (false, how),
        JoinOperator::Left(how)
        | JoinOperator::LeftOuter(how)
        | JoinOperator::Right(how)
        | JoinOperator::RightOuter(how) => (true, how),
        _ => return Refusal::unsupported("this kind of JOIN"),
    };
    let (on, using) = match constraint {
        JoinConstraint::On(on) => (Some(on), Vec::new()),
        JoinConstraint::Using(columns) => (
            None,
            columns.iter().map(last_name).collect::<Result<_, _>>()?,
        ),
        JoinConstraint::None if !keeps => (None, Vec::new()),
        JoinConstraint::None => {
            return Refusal::invalid("a LEFT JOIN and a RIGHT JOIN have a condition");
        }
        JoinConstraint::Natural | JoinConstraint::UsingAlias(..) => {
            return Refusal::unsupported("NATURAL JOIN");
        }
    };
    Ok((keeps, on, using))
}

/// What stands in the place of a table.
struct Found {
    name: String,
    table: Option<Arc<Table>>,
    mapping: Option<Mapping>,
    columns: Vec<MappedColumn>,
    kinds: Vec<ColumnKind>,
    access: Access,
}

impl Found {
    fn new(run: &Run, relation: &TableFactor, planner: Planner) -> Result<Found, Refusal> {
        if let TableFactor::Derived {
            lateral: false,
            subquery,
            alias,
            sample: None,
        } = relation
        {
            let alias = alias.as_ref().filter(|alias| has_no_columns(alias));
            let Some(alias) = alias else {
                return Refusal::invalid(
                    "a SELECT in the place of a table has an alias, without names of columns",
                );
            };
            let plan = planner(run, subquery, &[])?;
            let columns = plan.columns.iter().map(|column| MappedColumn {
                name: column.name.clone(),
                kind: ColumnType::String,
                is_not_null: false,
            });
            return Ok(Found {
                name: alias.name.value.clone(),
                table: None,
                mapping: None,
                columns: columns.collect(),
                kinds: plan.columns.iter().map(|column| column.kind).collect(),
                access: Access::Select(Box::new(plan)),
            });
        }
        let (name, alias) = table(relation)?;
        let name = last_name(name)?;
        let mapped = find(run, &name, Need::Read)?;
        let kinds = mapped.columns.iter().map(|column| column.kind.into());
        Ok(Found {
            kinds: kinds.collect(),
            name: alias.map_or(name, |alias| alias.name.value.clone()),
            table: Some(mapped.table),
            mapping: mapped.mapping,
            columns: mapped.columns,
            access: Access::Keys(Vec::new()),
        })
    }
}

fn add<'q>(
    run: &Run,
    (relation, planner): (&TableFactor, Planner),
    join: Option<How<'q>>,
    sources: &mut Vec<Begun<'q>>,
    names: &mut Names,
) -> Result<(), Refusal> {
    if sources.len() >= TABLES_MAX {
        return Refusal::invalid(format!("a statement has at most {TABLES_MAX} tables"));
    }
    let found = Found::new(run, relation, planner)?;
    let alias = &found.name;
    if names
        .0
        .iter()
        .any(|column| column.table.eq_ignore_ascii_case(alias))
    {
        return Refusal::invalid(format!("Not unique table/alias: '{alias}'"));
    }
    let first = names.0.len();
    let columns = found.columns.iter().zip(&found.kinds).enumerate();
    names
        .0
        .extend(columns.map(|(at, (column, kind))| NamedColumn {
            table: alias.clone(),
            name: column.name.clone(),
            kind: *kind,
            place: first + at,
        }));
    sources.push(Begun {
        source: Source {
            needed: vec![false; found.columns.len()],
            table: found.table,
            columns: found.columns,
            first,
            access: found.access,
            filter: Vec::new(),
            join: None,
        },
        mapping: found.mapping,
        join,
    });
    Ok(())
}

fn has_no_columns(alias: &ast::TableAlias) -> bool {
    alias.columns.is_empty() && alias.at.is_none()
}

/// The name of a table and its alias, if there is nothing else that would be passed over.
pub(crate) fn table(
    relation: &TableFactor,
) -> Result<(&ast::ObjectName, Option<&ast::TableAlias>), Refusal> {
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_directives,
        inheritance,
    } = relation
    else {
        return Refusal::unsupported("anything but a table in the place of one");
    };
    let odd = [
        (args.is_some(), "a table with arguments"),
        (!with_hints.is_empty(), "WITH (..) of a table"),
        (version.is_some(), "AS OF and the like of a table"),
        (*with_ordinality, "WITH ORDINALITY"),
        (!partitions.is_empty(), "PARTITION (..) of a table"),
        (json_path.is_some(), "a path in a table"),
        (sample.is_some(), "TABLESAMPLE"),
        (!index_directives.is_empty(), "USE, FORCE and IGNORE INDEX"),
        (inheritance.is_some(), "ONLY of a table"),
        (
            !alias.as_ref().is_none_or(has_no_columns),
            "names of columns behind an alias",
        ),
    ];
    match odd.iter().find(|(is, _)| *is) {
        Some((_, name)) => Refusal::unsupported(*name),
        None => Ok((name, alias.as_ref())),
    }
}

/// The name of a table or column without what comes before it.
pub(crate) fn last_name(name: &ast::ObjectName) -> Result<String, Refusal> {
    let ident = name.0.last().and_then(ast::ObjectNamePart::as_ident);
    match ident {
        Some(ident) => Ok(ident.value.clone()),
        None => Refusal::invalid(format!("{name} is no name")),
    }
}
