//! CREATE, ALTER and DROP of mappings; SHOW and DESCRIBE.
//!
//! Owns: their grammar. Must not: check them against a table; `mapping.rs` does.

use sqlparser::tokenizer::Token;

use tideline_model::{ColumnType, MappingOptions};

use super::tokens::Tokens;
use crate::refusal::Refusal;

/// A statement on mappings, or one that tells of tables.
pub(crate) enum Definition {
    Create {
        table: String,
        if_not_exists: bool,
        columns: Vec<NewColumn>,
        /// The columns of PRIMARY KEY (..), in order.
        key: Option<Vec<String>>,
        engine: Option<String>,
        attributes: Option<String>,
    },
    Drop {
        table: String,
        if_exists: bool,
    },
    Add {
        table: String,
        column: NewColumn,
    },
    Remove {
        table: String,
        column: String,
    },
    ShowTables {
        like: Option<String>,
    },
    ShowIndex {
        table: String,
    },
    Describe {
        table: String,
        like: Option<String>,
        is_full: bool,
    },
}

/// A column of a mapping, as it is written.
#[derive(Clone, Debug)]
pub(crate) struct NewColumn {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) is_key: bool,
    pub(crate) is_not_null: bool,
}

impl Tokens<'_> {
    pub(super) fn definition(&mut self) -> Result<Definition, Refusal> {
        let definition = if self.word("show") {
            self.show()?
        } else if self.word("desc") || self.word("describe") {
            Definition::Describe {
                table: self.table()?,
                like: None,
                is_full: false,
            }
        } else if self.word("create") {
            self.create()?
        } else if self.word("drop") {
            self.word("mapping");
            self.must("table")?;
            Definition::Drop {
                if_exists: self.words(&["if", "exists"]),
                table: self.table()?,
            }
        } else {
            self.alter()?
        };
        self.end()?;
        Ok(definition)
    }

    fn show(&mut self) -> Result<Definition, Refusal> {
        let is_full = self.word("full");
        if self.word("tables") {
            self.of_database()?;
            let like = self.like()?;
            return Ok(Definition::ShowTables { like });
        }
        let is_index = ["index", "indexes", "keys"]
            .iter()
            .any(|word| self.word(word));
        if !is_index && !self.word("columns") && !self.word("fields") {
            return self.expected("TABLES, INDEX, KEYS or COLUMNS");
        }
        if !self.word("in") {
            self.must("from")?;
        }
        let table = self.table()?;
        self.of_database()?;
        if is_index {
            return Ok(Definition::ShowIndex { table });
        }
        Ok(Definition::Describe {
            table,
            like: self.like()?,
            is_full,
        })
    }

    /// There is one database: its name says nothing.
    fn of_database(&mut self) -> Result<(), Refusal> {
        if self.word("from") || self.word("in") {
            self.name()?;
        }
        Ok(())
    }

    fn like(&mut self) -> Result<Option<String>, Refusal> {
        match self.word("like") {
            true => self.text().map(Some),
            false => Ok(None),
        }
    }

    fn create(&mut self) -> Result<Definition, Refusal> {
        self.must("table")?;
        let if_not_exists = self.words(&["if", "not", "exists"]);
        let table = self.table()?;
        self.must_sign(&Token::LParen)?;
        let (mut columns, mut key) = (Vec::new(), None);
        loop {
            if self.words(&["primary", "key"]) {
                if key.replace(self.names()?).is_some() {
                    return Refusal::invalid("a mapping has one PRIMARY KEY");
                }
            } else {
                columns.push(self.column()?);
            }
            if !self.sign(&Token::Comma) {
                break;
            }
        }
        self.must_sign(&Token::RParen)?;
        let (mut engine, mut attributes) = (None, None);
        while self.peek().is_some() {
            let option = match () {
                () if self.word("engine") => &mut engine,
                () if self.word("engine_attribute") => &mut attributes,
                () => return self.expected("ENGINE or ENGINE_ATTRIBUTE"),
            };
            self.sign(&Token::Eq);
            let value = match self.peek() {
                Some(Token::Word(_)) => self.name()?,
                _ => self.text()?,
            };
            if option.replace(value).is_some() {
                return Refusal::invalid("an option of a mapping is given twice");
            }
            self.sign(&Token::Comma);
        }
        Ok(Definition::Create {
            table,
            if_not_exists,
            columns,
            key,
            engine,
            attributes,
        })
    }

    fn names(&mut self) -> Result<Vec<String>, Refusal> {
        self.must_sign(&Token::LParen)?;
        let mut names = vec![self.name()?];
        while self.sign(&Token::Comma) {
            names.push(self.name()?);
        }
        self.must_sign(&Token::RParen)?;
        Ok(names)
    }

    fn column(&mut self) -> Result<NewColumn, Refusal> {
        let mut column = NewColumn {
            name: self.name()?,
            kind: self.kind()?,
            is_key: false,
            is_not_null: false,
        };
        loop {
            if self.words(&["not", "null"]) {
                column.is_not_null = true;
            } else if self.words(&["primary", "key"]) {
                column.is_key = true;
            } else if !self.word("null") {
                return Ok(column);
            }
        }
    }

    fn kind(&mut self) -> Result<ColumnType, Refusal> {
        let kinds = [
            ("bigint", ColumnType::Integer),
            ("double", ColumnType::Double),
            ("bool", ColumnType::Boolean),
            ("boolean", ColumnType::Boolean),
            ("varchar", ColumnType::String),
            ("mediumtext", ColumnType::String),
            ("text", ColumnType::String),
            ("varbinary", ColumnType::Binary),
            ("mediumblob", ColumnType::Binary),
            ("blob", ColumnType::Binary),
        ];
        let found = kinds.iter().find(|(name, _)| self.word(name));
        let Some((_, kind)) = found else {
            return self
                .expected("BIGINT, DOUBLE, BOOL, VARCHAR, MEDIUMTEXT, VARBINARY or MEDIUMBLOB");
        };
        if self.sign(&Token::LParen) {
            self.number()?;
            self.must_sign(&Token::RParen)?;
        }
        Ok(*kind)
    }

    fn alter(&mut self) -> Result<Definition, Refusal> {
        self.must("alter")?;
        self.must("table")?;
        let table = self.table()?;
        if self.word("add") {
            self.word("column");
            let column = self.column()?;
            return Ok(Definition::Add { table, column });
        }
        if !self.word("drop") {
            return self.expected("ADD or DROP");
        }
        self.word("column");
        let column = self.name()?;
        if self.peek().is_some() {
            self.kind()?;
        }
        Ok(Definition::Remove { table, column })
    }
}

/// What an engine and its attributes mean: the index of the table that is mapped, and options.
pub(crate) fn engine(
    table: &str,
    engine: Option<&str>,
    attributes: Option<&str>,
) -> Result<(String, MappingOptions), Refusal> {
    let bad = |what: &str| Refusal::Invalid(format!("ENGINE_ATTRIBUTE {what}"));
    let attributes = match attributes {
        None => serde_json::Map::new(),
        Some(text) => match serde_json::from_str(text) {
            Ok(serde_json::Value::Object(attributes)) => attributes,
            _ => return Err(bad("is not a JSON object")),
        },
    };
    let engine = engine.unwrap_or("tablestore").to_ascii_lowercase();
    let mut options = MappingOptions::default();
    let mut of = table.to_owned();
    for (name, value) in &attributes {
        match (name.as_str(), value.as_str(), value.as_bool()) {
            ("consistency", Some("eventual"), _) => {}
            ("consistency", Some("strong"), _) => options.is_strong = true,
            ("allow_inaccurate_aggregation", _, Some(allowed)) => {
                options.allows_inaccurate_aggregation = allowed;
            }
            ("index_name", Some(index), _) if engine == "searchindex" => {
                options.index = Some(index.to_owned());
            }
            ("table_name", Some(name), _) if engine == "searchindex" => of = name.to_owned(),
            _ => {
                return Err(bad(&format!(
                    "has an unknown {name}, or a value that it can't have"
                )));
            }
        }
    }
    match engine.as_str() {
        "tablestore" => Ok((of, options)),
        "searchindex" if options.index.is_some() && attributes.contains_key("table_name") => {
            Ok((of, options))
        }
        "searchindex" => Err(bad("of ENGINE searchindex has index_name and table_name")),
        _ => Refusal::unsupported(format!("ENGINE {engine}")),
    }
}
