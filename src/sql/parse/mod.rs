//! From the text of a statement to its tree.
//!
//! Owns: the bounds of a text, and which statements there are. Promises: a tree that is given is as deep as few
//! threads' stacks allow: so many words and operators, so many brackets in each other; what can't be read is refused
//! with its place. Must not: know tables.

mod define;
mod dialect;
mod tokens;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::answer::StatementKind;
use crate::refusal::Refusal;
pub(crate) use define::{Definition, NewColumn, engine};
use dialect::OurDialect;
use tokens::{Tokens, is_word};

/// In so many bytes a statement says what it is.
const KIND_BYTES: usize = 1 << 10;
/// Bytes of a statement.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Words, operators and values.
const TOKENS_MAX: usize = 20_000;
/// Words and operators: trees grow by these.
const PARTS_MAX: usize = 2_000;
/// Brackets in each other.
const BRACKETS_MAX: usize = 32;

/// A statement.
pub(crate) enum Statement {
    /// SELECT, and the texts of what it selects.
    Select(Box<ast::Query>, Vec<String>),
    Insert(Box<ast::Insert>),
    Update(Box<ast::Update>),
    Delete(Box<ast::Delete>),
    Define(Definition),
}

/// Reads a statement.
pub(crate) fn parse(text: &str) -> Result<Statement, Refusal> {
    if text.len() > TEXT_BYTES_MAX {
        return Refusal::invalid(format!("a statement has at most {TEXT_BYTES_MAX} bytes"));
    }
    let tokens = Tokenizer::new(&OurDialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| Refusal::Syntax {
        what: error.message.trim_end_matches(" at ").to_owned(),
        line: error.location.line,
        column: error.location.column,
    })?;
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut tokens: Vec<TokenWithSpan> = tokens
        .into_iter()
        .filter(|token| !is_space(token))
        .collect();
    while let Some(Token::SemiColon) = tokens.last().map(|last| &last.token) {
        tokens.pop();
    }
    check(&tokens)?;
    let Some(first) = tokens.first() else {
        return Refusal::invalid("a statement is empty");
    };
    if ["show", "desc", "describe", "create", "alter", "drop"]
        .iter()
        .any(|word| is_word(&first.token, word))
    {
        return Tokens::new(&tokens).definition().map(Statement::Define);
    }
    let texts = match is_word(&first.token, "select") {
        true => selected(text, &tokens),
        false => Vec::new(),
    };
    let end = tokens.last().map(|last| last.span.end);
    let parser = Parser::new(&OurDialect).with_tokens_with_locations(tokens);
    let mut parser = parser.with_recursion_limit(BRACKETS_MAX * 2);
    let statement = parser.parse_statement();
    let statement = statement.and_then(|statement| match parser.peek_token() {
        token if token.token == Token::EOF => Ok(statement),
        token => {
            let place = token.span.start;
            let found = format!("Expected: end of statement, found: {token}{place}");
            Err(ParserError::ParserError(found))
        }
    });
    match statement.map_err(|error| refused(&error, end))? {
        ast::Statement::Query(query) => Ok(Statement::Select(query, texts)),
        ast::Statement::Insert(insert) => Ok(Statement::Insert(Box::new(insert))),
        ast::Statement::Update(update) => Ok(Statement::Update(Box::new(update))),
        ast::Statement::Delete(delete) => Ok(Statement::Delete(Box::new(delete))),
        other => {
            let text = other.to_string();
            let mut words = text.split_whitespace();
            let name = words.next().unwrap_or_default().to_uppercase();
            Refusal::unsupported(format!("the statement {name}"))
        }
    }
}

/// What a statement is, by its first words; `None` = none that is known, or one that can't be read. Of a statement of
/// one table that is changed also its name.
#[must_use]
pub fn kind_of(text: &str) -> Option<(StatementKind, Option<String>)> {
    // Its first words are there whatever comes behind.
    let mut end = text.len().min(KIND_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut tokens = Vec::new();
    let mut tokenizer = Tokenizer::new(&OurDialect, &text[..end]);
    // A text that is cut has words before its end.
    let _ = tokenizer.tokenize_with_location_into_buf(&mut tokens);
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut tokens = Tokens::new(&tokens);
    if tokens.word("show") {
        tokens.word("full");
        let kind = match tokens.peek()? {
            token if is_word(token, "tables") => StatementKind::ShowTables,
            token if is_word(token, "columns") || is_word(token, "fields") => {
                StatementKind::DescribeTable
            }
            _ => StatementKind::ShowIndex,
        };
        return Some((kind, None));
    }
    let kinds: [(&str, StatementKind, &[&[&str]]); 9] = [
        ("select", StatementKind::Select, &[]),
        ("desc", StatementKind::DescribeTable, &[]),
        ("describe", StatementKind::DescribeTable, &[]),
        ("insert", StatementKind::Insert, &[&["into"]]),
        ("update", StatementKind::Update, &[]),
        ("delete", StatementKind::Delete, &[&["from"]]),
        (
            "create",
            StatementKind::CreateTable,
            &[&["table"], &["if", "not", "exists"]],
        ),
        ("alter", StatementKind::AlterTable, &[&["table"]]),
        (
            "drop",
            StatementKind::DropTable,
            &[&["mapping"], &["table"], &["if", "exists"]],
        ),
    ];
    let (_, kind, words) = kinds.iter().find(|(name, ..)| tokens.word(name))?;
    for words in *words {
        tokens.words(words);
    }
    let named = if kind.is_read() {
        None
    } else {
        tokens.table().ok()
    };
    Some((*kind, named))
}

/// Refuses what would make a tree too large, or too deep to be walked and dropped.
fn check(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    if tokens.len() > TOKENS_MAX {
        return Refusal::invalid(format!(
            "a statement has at most {TOKENS_MAX} words, operators and values"
        ));
    }
    let (mut parts, mut brackets) = (0, 0_usize);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => brackets += 1,
            Token::RParen | Token::RBracket | Token::RBrace => {
                brackets = brackets.saturating_sub(1);
            }
            Token::Comma
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_) => {}
            _ => parts += 1,
        }
        if brackets > BRACKETS_MAX {
            return Refusal::invalid(format!(
                "a statement has at most {BRACKETS_MAX} brackets in each other"
            ));
        }
    }
    match parts > PARTS_MAX {
        true => Refusal::invalid(format!(
            "a statement has at most {PARTS_MAX} words and operators"
        )),
        false => Ok(()),
    }
}

/// An error of the parser, which says its place in its text.
fn refused(error: &ParserError, end: Option<sqlparser::tokenizer::Location>) -> Refusal {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return Refusal::Invalid("a statement has too many parts in each other".to_owned());
        }
    };
    let (what, place) = text.rsplit_once(" at Line: ").unwrap_or((text, ""));
    let mut numbers = place
        .split(", Column: ")
        .map(|number| number.trim().parse());
    let (line, column) = match (numbers.next(), numbers.next()) {
        (Some(Ok(line)), Some(Ok(column))) if line > 0 => (line, column),
        _ => end.map_or((1, 1), |end| (end.line, end.column)),
    };
    Refusal::Syntax {
        what: what.to_owned(),
        line,
        column,
    }
}

/// The texts of what a SELECT selects, as they were written.
fn selected(text: &str, tokens: &[TokenWithSpan]) -> Vec<String> {
    let ends = [
        "from", "where", "group", "having", "order", "limit", "union", "for", "into",
    ];
    let (mut items, mut open, mut depth) = (Vec::new(), None, 0_usize);
    let mut last = None;
    let skips = |token: &Token| {
        ["select", "distinct", "distinctrow", "all"]
            .iter()
            .any(|word| is_word(token, word))
    };
    let tokens = tokens.iter().skip_while(|token| skips(&token.token));
    let places = Places::new(text);
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                items.extend(
                    open.take()
                        .zip(last.take())
                        .map(|ends| places.between(ends)),
                );
                continue;
            }
            other if depth == 0 && ends.iter().any(|word| is_word(other, word)) => break,
            _ => {}
        }
        open.get_or_insert(token.span.start);
        last = Some(token.span.end);
    }
    items.extend(open.zip(last).map(|ends| places.between(ends)));
    items
}

/// From places to bytes.
struct Places<'t> {
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Places<'t> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Places {
            text,
            lines: std::iter::once(0).chain(ends).collect(),
        }
    }

    fn byte(&self, place: sqlparser::tokenizer::Location) -> usize {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let line = number(place.line).saturating_sub(1);
        let begin = self.lines.get(line).copied().unwrap_or(self.text.len());
        let mut characters = self.text[begin..].char_indices();
        let found = characters.nth(number(place.column).saturating_sub(1));
        found.map_or(self.text.len(), |(at, _)| begin + at)
    }

    fn between(
        &self,
        (from, to): (
            sqlparser::tokenizer::Location,
            sqlparser::tokenizer::Location,
        ),
    ) -> String {
        let text = self.text.get(self.byte(from)..self.byte(to));
        text.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_that_were_written() {
        let of = |text: &str| match parse(text) {
            Ok(Statement::Select(_, texts)) => texts,
            _ => panic!("{text}"),
        };
        assert_eq!(
            of("select a ,  b+ 1,\n count( *), 'ä,b' FROM t where a in (1, 2)"),
            ["a", "b+ 1", "count( *)", "'ä,b'"]
        );
        assert_eq!(
            of("SELECT DISTINCT extract(day from x) limit 1;"),
            ["extract(day from x)"]
        );
    }

    #[test]
    fn what_cannot_be_read_has_its_place() {
        let place = |text: &str| match parse(text) {
            Err(Refusal::Syntax { line, column, .. }) => (line, column),
            Err(other) => panic!("{text}: {other:?}"),
            Ok(_) => panic!("{text}"),
        };
        assert_eq!(place("select a from t where"), (1, 22));
        assert_eq!(place("select a\nfrom t wher x"), (2, 13));
        assert_eq!(place("create table t (a bigint"), (1, 25));
        assert_eq!(place("select 'a"), (1, 8));
    }

    #[test]
    fn deep_and_long_statements_are_refused_or_read() {
        let refused = |text: &str| parse(text).is_err();
        assert!(refused(&format!(
            "select {}1{}",
            "(".repeat(40),
            ")".repeat(40)
        )));
        assert!(!refused(&format!(
            "select {}1{}",
            "(".repeat(20),
            ")".repeat(20)
        )));
        assert!(refused(&format!("select {} 1", "not ".repeat(500))));
        assert!(!refused(&format!("select 1{}", " + 1".repeat(1_900))));
        assert!(refused(&format!("select 1{}", " + 1".repeat(2_100))));
        assert!(refused(&"x".repeat(TEXT_BYTES_MAX + 1)));
    }
}
