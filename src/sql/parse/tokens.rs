//! Tokens, one after the other.
//!
//! Owns: how statements that sqlparser does not know are read. Promises: whatever does not fit is refused with its
//! place. Must not: know a statement; `define.rs` does.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::refusal::Refusal;

/// See the top.
pub(super) struct Tokens<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
}

/// Whether a token is a word, unquoted, whatever its case.
pub(super) fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

impl<'t> Tokens<'t> {
    pub(super) fn new(tokens: &'t [TokenWithSpan]) -> Tokens<'t> {
        Tokens { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|token| &token.token)
    }

    /// The refusal of the next token.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T, Refusal> {
        let here = self.tokens.get(self.at);
        let place = match here {
            Some(token) => token.span.start,
            None => self
                .tokens
                .last()
                .map_or_else(|| Location::new(1, 1), |last| last.span.end),
        };
        let found = here.map_or_else(|| "EOF".to_owned(), ToString::to_string);
        Err(Refusal::Syntax {
            what: format!("Expected: {what}, found: {found}"),
            line: place.line,
            column: place.column,
        })
    }

    /// Takes the next token if it is this word.
    pub(super) fn word(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|token| is_word(token, text));
        self.at += usize::from(is);
        is
    }

    /// Takes the next tokens if they are these words.
    pub(super) fn words(&mut self, texts: &[&str]) -> bool {
        let at = self.at;
        let is = texts.iter().all(|text| self.word(text));
        if !is {
            self.at = at;
        }
        is
    }

    pub(super) fn must(&mut self, text: &str) -> Result<(), Refusal> {
        match self.word(text) {
            true => Ok(()),
            false => self.expected(text),
        }
    }

    /// Takes the next token if it is this one.
    pub(super) fn sign(&mut self, sign: &Token) -> bool {
        let is = self.peek() == Some(sign);
        self.at += usize::from(is);
        is
    }

    pub(super) fn must_sign(&mut self, sign: &Token) -> Result<(), Refusal> {
        match self.sign(sign) {
            true => Ok(()),
            false => self.expected(&sign.to_string()),
        }
    }

    /// A name, in backticks or without.
    pub(super) fn name(&mut self) -> Result<String, Refusal> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word.value.clone())
            }
            _ => self.expected("a name"),
        }
    }

    /// The name of a table, perhaps with its database's before it.
    pub(super) fn table(&mut self) -> Result<String, Refusal> {
        let name = self.name()?;
        match self.sign(&Token::Period) {
            true => self.name(),
            false => Ok(name),
        }
    }

    /// A text in quotes.
    pub(super) fn text(&mut self) -> Result<String, Refusal> {
        match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => self.expected("a text in quotes"),
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self) -> Result<u64, Refusal> {
        if let Some(Token::Number(digits, _)) = self.peek()
            && let Ok(number) = digits.parse()
        {
            self.at += 1;
            return Ok(number);
        }
        self.expected("a number")
    }

    pub(super) fn end(&self) -> Result<(), Refusal> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.expected("end of statement"),
        }
    }
}
